package nats

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A consumerSpec is a consumer as its author describes it, and what is known of the one on
// the server.
type consumerSpec struct {
	stream, durable string
	filters         []string
	ackWait         time.Duration
	start           jetstream.ConsumerConfig // only where a new one begins
	most            int                      // messages in flight

	// Owned by the goroutine that connects.
	connected bool
	name      string
	created   time.Time // of the stream
	lane      int32     // another one for each stream of the name: its sequences begin again

	// What a new consumer needs, if the old one vanishes.
	mu struct {
		sync.Mutex
		last     uint64              // highest sequence that was delivered; 0 if none
		returned map[uint64]struct{} // what was given back and has not come again; at most what the server has pending
	}
}

// newConsumerSpec reads the fields of nats_source.
func newConsumerSpec(c schema.Config) (*consumerSpec, error) {
	s := &consumerSpec{
		stream: c.String("stream"), durable: c.String("durable"), filters: c.Strings("subjects"),
		ackWait: c.Duration("ack_wait"), most: stream.InFlight(c),
	}
	s.mu.returned = make(map[uint64]struct{})
	s.name = s.durable
	if s.name == "" {
		s.name = "uniflow-" + rand.Text()
	}
	var err error
	if s.start, err = parseStart(c.Value("start")); err != nil {
		return nil, c.Errorf("start", diag.CodeBadValue, "%v", err).WithHint("write all, new, last, a sequence such as 1712, or a time such as 2026-01-31T12:00:00Z")
	}
	return s, nil
}

// parseStart reads where a consumer begins.
func parseStart(v value.Value) (c jetstream.ConsumerConfig, err error) {
	if n, ok := v.AsUint(); ok && n > 0 {
		return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: n}, nil
	}
	at, ok := v.AsTime()
	text, _ := v.AsString()
	switch text {
	case "all":
		return c, nil
	case "new":
		return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverNewPolicy}, nil
	case "last":
		return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverLastPolicy}, nil
	}
	if !ok {
		if at, err = time.Parse(time.RFC3339, text); err != nil {
			return c, fmt.Errorf("want a place to begin, got %s", v)
		}
	}
	return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartTimePolicy, OptStartTime: &at}, nil
}

// ensure finds the consumer on the server, or makes it, and returns its name. One that
// exists goes on where it is. A new one that replaces one that has vanished begins with
// the oldest message that is not settled.
func (s *consumerSpec) ensure(ctx context.Context, conn *nats.Conn, h stream.Host) (string, error) {
	js, err := jetstream.New(conn)
	if err != nil {
		return "", err
	}
	of, err := js.Stream(ctx, s.stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return "", fmt.Errorf("the server has no stream %q", s.stream) // it may be made later
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return "", &stream.RefusedError{Field: "stream", Err: errors.New("the server has no JetStream")}
	case errors.Is(err, jetstream.ErrInvalidStreamName):
		return "", &stream.RefusedError{Field: "stream", Err: err}
	case err != nil:
		return "", fmt.Errorf("stream %s: %w", s.stream, err)
	}
	info := of.CachedInfo()
	another := s.connected && !info.Created.Equal(s.created)
	if another {
		s.forget()
	}
	want := s.config()
	existing, err := of.Consumer(ctx, s.name)
	switch {
	case err == nil:
		have := existing.CachedInfo().Config
		if have.AckPolicy != jetstream.AckExplicitPolicy {
			return "", &stream.RefusedError{Field: "durable", Err: fmt.Errorf("consumer %s exists, and does not have messages acknowledged one by one", s.name)}
		}
		want = update(have, want)
		if reflect.DeepEqual(have, want) {
			s.created = info.Created
			return s.name, nil
		}
	case !errors.Is(err, jetstream.ErrConsumerNotFound):
		return "", fmt.Errorf("consumer %s: %w", s.name, err)
	case another:
		want.DeliverPolicy, want.OptStartTime, want.OptStartSeq = jetstream.DeliverAllPolicy, nil, 0
	case s.connected:
		if first := s.oldest(h); first > 0 {
			want.DeliverPolicy, want.OptStartTime, want.OptStartSeq = jetstream.DeliverByStartSequencePolicy, nil, first
		}
	case want.DeliverPolicy == jetstream.DeliverNewPolicy:
		s.deliver(info.State.LastSeq)
	}
	if _, err = of.CreateOrUpdateConsumer(ctx, want); err != nil {
		var refused *jetstream.APIError
		if errors.As(err, &refused) && refused.Code == 400 {
			field := "durable"
			if s.durable == "" {
				field = "subjects"
			}
			return "", &stream.RefusedError{Field: field, Err: fmt.Errorf("consumer %s: %s", s.name, refused.Description)}
		}
		return "", fmt.Errorf("consumer %s: %w", s.name, err)
	}
	s.created = info.Created
	return s.name, nil
}

// ephemeralLife is how long a consumer without durable outlives its last request.
const ephemeralLife = 5 * time.Minute

func (s *consumerSpec) config() jetstream.ConsumerConfig {
	c := s.start
	c.Name, c.Durable = s.name, s.durable
	if s.durable == "" {
		c.InactiveThreshold = ephemeralLife
	}
	if len(s.filters) == 1 {
		c.FilterSubject = s.filters[0]
	} else {
		c.FilterSubjects = s.filters
	}
	c.AckPolicy, c.AckWait, c.MaxDeliver = jetstream.AckExplicitPolicy, s.ackWait, -1
	c.MaxAckPending = max(1000, 2*s.most) // what is given back with a delay counts
	return c
}

// update changes what a consumer that exists must have, and leaves the rest to the one who
// made it, such as where it began.
func update(have, want jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	c := have
	c.FilterSubject, c.FilterSubjects, c.MaxDeliver = want.FilterSubject, want.FilterSubjects, want.MaxDeliver
	if len(have.BackOff) == 0 {
		c.AckWait = want.AckWait
	}
	if have.MaxAckPending > 0 {
		c.MaxAckPending = max(have.MaxAckPending, want.MaxAckPending)
	}
	return c
}

// forget forgets what is known of a stream, as there is another one of that name.
func (s *consumerSpec) forget() {
	s.lane++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last = 0
	clear(s.mu.returned)
}

// deliver remembers that a message has come.
func (s *consumerSpec) deliver(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.last = max(s.mu.last, sequence)
	if len(s.mu.returned) > 0 {
		delete(s.mu.returned, sequence)
	}
}

// giveBack remembers that a message must come again.
func (s *consumerSpec) giveBack(sequence uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.returned[sequence] = struct{}{}
}

// oldest returns the first sequence that is not settled; 0 if nothing was delivered.
func (s *consumerSpec) oldest(h stream.Host) uint64 {
	s.mu.Lock()
	if s.mu.last == 0 {
		s.mu.Unlock()
		return 0
	}
	first := s.mu.last + 1
	for sequence := range s.mu.returned {
		first = min(first, sequence)
	}
	s.mu.Unlock()
	h.InFlight(func(m *stream.Message) { first = min(first, m.Token.(*delivery).sequence) })
	return first
}

// later makes of a refusal an error that may go away, once the reader was connected.
func (s *consumerSpec) later(err error) error {
	var refused *stream.RefusedError
	if s.connected && errors.As(err, &refused) {
		return refused.Err
	}
	return err
}
