package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

const (
	// rereadUnknown is how often keys are read again because a token names one that is
	// not among them: anyone can send such tokens.
	rereadUnknown = time.Minute

	// rereadOld is the age at which keys are read again, so that one that was withdrawn
	// does not stay. Requests go on meanwhile.
	rereadOld = 45 * time.Minute

	// tooOld is the age at which requests wait for that: after hours without any, a key may
	// have been withdrawn long ago.
	tooOld = time.Hour

	firstRetry, longestRetry = time.Second, 30 * time.Second
)

// issuerState is the part of an issuer that changes.
type issuerState struct {
	reading sync.WaitGroup // those that read, or are about to

	mu struct {
		sync.Mutex
		closed  bool
		have    *snapshot // nil until it was read
		read    time.Time // when have was read
		tried   time.Time // when the last attempt began
		err     error     // of the last attempt
		attempt *reading  // the attempt that is made or planned; nil for none
		wait    time.Duration
	}
}

// A reading is an attempt to read the keys, which all that need it wait for.
type reading struct {
	over chan struct{} // closed at its end
	stop func() bool   // of the timer that begins it
}

func newIssuer(o origin, client *http.Client, clock node.Clock, log *slog.Logger) *issuer {
	s := &issuer{origin: o, client: client, clock: clock, log: log}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.mu.Lock()
	s.plan(0)
	s.mu.Unlock()
	return s
}

// plan begins an attempt after a time. The caller holds mu.
func (s *issuer) plan(after time.Duration) *reading {
	f := &reading{over: make(chan struct{})}
	s.mu.attempt = f
	s.reading.Add(1)
	f.stop = s.clock.AfterFunc(after, func(context.Context) {
		defer s.reading.Done()
		s.try(f)
	})
	return f
}

// try reads the keys. If there are none yet, it plans the next attempt.
func (s *issuer) try(f *reading) {
	s.mu.Lock()
	s.mu.tried = s.clock.Now()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.ctx, s.client.Timeout)
	have, err := readIssuer(ctx, s.client, s.origin)
	cancel()

	s.mu.Lock()
	defer s.mu.Unlock()
	defer close(f.over)
	s.mu.attempt, s.mu.err = nil, err
	if s.mu.closed {
		return
	}
	if err == nil {
		s.mu.have, s.mu.read, s.mu.wait = have, s.clock.Now(), 0
		return
	}
	s.log.Warn("the keys of an issuer cannot be read", slog.String("issuer", s.origin.String()), slog.Any("error", err), slog.Bool("kept", s.mu.have != nil))
	if s.mu.have == nil {
		s.mu.wait = min(max(firstRetry, 2*s.mu.wait), longestRetry)
		s.plan(s.mu.wait)
	}
}

// current returns what was read; nil if nothing was. If that is old, it is read again.
func (s *issuer) current() *snapshot {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.mu.have != nil && s.mu.attempt == nil && !s.mu.closed && now.Sub(s.mu.read) >= rereadOld && now.Sub(s.mu.tried) >= rereadUnknown {
		s.plan(0)
	}
	return s.mu.have
}

// due returns the attempt to wait for although have has the key of a token; nil for none. An
// issuer that did not answer the last time is not waited for.
func (s *issuer) due(have *snapshot) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.have != have || s.mu.err != nil || s.clock.Now().Sub(s.mu.read) < tooOld {
		return nil
	}
	return s.mu.attempt
}

// fresh returns the attempt to wait for, for a token whose key is not in have; nil if none
// may be made now.
func (s *issuer) fresh(have *snapshot) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed, s.mu.have != have:
		return nil // there is news already: the caller looks once more
	case s.mu.attempt != nil && (have != nil || s.mu.wait == 0):
		return s.mu.attempt
	case s.mu.attempt != nil: // it waits until the issuer may be there again
		return nil
	case s.clock.Now().Sub(s.mu.tried) < rereadUnknown:
		return nil
	}
	return s.plan(0)
}

// missing is the error of a request that cannot be judged without keys.
func (s *issuer) missing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &node.Error{
		Err: errNoKeys, Status: http.StatusServiceUnavailable, Code: "keys", Public: true, RetryAfter: max(s.mu.wait, firstRetry),
	}
}

var errNoKeys = errors.New("the keys of the issuer cannot be read")

// ready returns nil when there are keys.
func (s *issuer) ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.have != nil:
		return nil
	case s.mu.err != nil:
		return fmt.Errorf("the keys of %s: %w", s.origin, s.mu.err)
	}
	return fmt.Errorf("the keys of %s are being read", s.origin)
}

// Close ends what is read.
func (s *issuer) Close() error {
	s.cancel()
	s.mu.Lock()
	s.mu.closed = true
	if f := s.mu.attempt; f != nil && f.stop() {
		s.reading.Done()
		close(f.over)
	}
	s.mu.Unlock()
	s.reading.Wait()
	s.client.CloseIdleConnections()
	return nil
}
