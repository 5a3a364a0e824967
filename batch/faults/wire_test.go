package faults

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
	"github.com/uniflow-labs/uniflow/internal/ground/faultproxy"
)

// TestFault03_Reset: connections break at any byte, in either direction.
func TestFault03_Reset(t *testing.T) {
	for _, c := range []struct {
		name string
		leg  faultproxy.Break
		up   bool
		most int64 // bytes before the break, at random
	}{
		{"reset in the head", faultproxy.Sever, true, 150},
		{"reset in the body", faultproxy.Sever, true, 12_000},
		{"reset of the answer", faultproxy.Sever, false, 250},
		{"half closed in the body", faultproxy.Half, true, 12_000},
		{"half closed answer", faultproxy.Half, false, 250},
	} {
		for _, order := range []batch.Order{batch.OrderNone, batch.OrderPerKey} {
			t.Run(name(c.name, " ", order), func(t *testing.T) {
				t.Parallel()
				rnd := random(t)
				store := oracle.NewStore(oracle.Rules{})
				server := oracle.NewServer(t, store, nil)
				proxy := faultproxy.New(t, server.Addr, func(n int) faultproxy.Plan {
					if n%4 == 0 {
						return faultproxy.Plan{}
					}
					leg := faultproxy.Leg{Do: c.leg, After: rnd.Int64N(c.most) + 1}
					if c.up {
						return faultproxy.Plan{Up: leg}
					}
					return faultproxy.Plan{Down: leg}
				})
				r := start(t, config{
					Send:    viaHTTP(t, proxy.Addr, batch.HTTPOptions{Timeout: 5 * time.Second}),
					Trigger: batch.Trigger{Count: 100, Linger: 5 * time.Millisecond},
					Lanes:   batch.Lanes[event]{Order: order},
				})
				for range scale(10, 200) {
					r.load(4, 50, 80)
					r.flush()
					proxy.Break() // the other connections too
				}
				s := r.allDelivered(store, order != batch.OrderNone)
				if s.Requests == s.Batches {
					t.Errorf("got %d requests of %d batches, want more: no connection broke", s.Requests, s.Batches)
				}
				if c.up && c.most < 200 && s.Duplicates > 0 {
					t.Errorf("got %d duplicates, though the server never got a broken request whole", s.Duplicates)
				}
				sameDuplicates(t, server, s)
			})
		}
	}
}

// TestFault03_Server: the server breaks off at each stage of a request.
func TestFault03_Server(t *testing.T) {
	for _, c := range []struct {
		name string
		act  oracle.Act
		took bool
	}{
		{"reset at head", oracle.Act{At: oracle.AtHead, Do: oracle.Reset}, false},
		{"reset in the body", oracle.Act{At: oracle.AtBody, Bytes: 1000, Do: oracle.Reset}, false},
		{"reset before it takes", oracle.Act{At: oracle.BeforeTake, Do: oracle.Reset}, false},
		{"cut before it takes", oracle.Act{At: oracle.BeforeTake, Do: oracle.Cut}, false},
		{"reset after it took", oracle.Act{At: oracle.AfterTake, Do: oracle.Reset}, true},
		{"cut after it took", oracle.Act{At: oracle.AfterTake, Do: oracle.Cut}, true},
		{"torn answer", oracle.Act{At: oracle.AfterTake, Do: oracle.Tear}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			rnd := random(t)
			store := oracle.NewStore(oracle.Rules{})
			server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act {
				if chance(rnd, 50) {
					return c.act
				}
				return oracle.Act{}
			})
			r := start(t, config{
				Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
				Trigger: batch.Trigger{Count: 100, Linger: 5 * time.Millisecond},
				Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey},
			})
			r.load(4, scale(500, 5000), 80)
			s := r.allDelivered(store, true)
			if (s.Duplicates > 0) != c.took {
				t.Errorf("got %d duplicates, want some: %t", s.Duplicates, c.took)
			}
			sameDuplicates(t, server, s)
		})
	}
}

// sameDuplicates checks that the processor counts as duplicates the events that the server
// got again after it had taken them.
func sameDuplicates(t *testing.T, server *oracle.Server, s batch.Stats) {
	t.Helper()
	took := make(map[string]int)
	want := 0
	for _, v := range server.Visits() {
		if !v.Took {
			continue
		}
		if took[v.Key]++; took[v.Key] == 2 {
			want += v.Events
		}
	}
	if int(s.Duplicates) != want {
		t.Errorf("got %d duplicates, the server counts %d", s.Duplicates, want)
	}
}

// A lateReader is a transport that responds before it has read the body, and reads and
// closes the body after more requests, as http.RoundTripper allows. It must still read the
// same batch.
type lateReader struct {
	store  *oracle.Store
	status int // of early responses: 200 or 413
	limit  int64
	behind int
	mu     struct {
		sync.Mutex
		held []*http.Request
		errs []error
	}
}

func (l *lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	l.mu.Lock()
	l.mu.held = append(l.mu.held, r)
	var due *http.Request
	if len(l.mu.held) > l.behind {
		due = l.mu.held[0]
		l.mu.held = l.mu.held[1:]
	}
	l.mu.Unlock()
	if due != nil {
		l.read(due)
	}
	status := http.StatusOK
	if l.status != http.StatusOK && r.ContentLength > l.limit {
		status = l.status
	}
	return &http.Response{
		StatusCode: status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: make(http.Header), Body: http.NoBody,
	}, nil
}

// read reads and closes a body, and passes it to the store if the response was 200.
func (l *lateReader) read(r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil && int64(len(body)) != r.ContentLength {
		err = fmt.Errorf("%d bytes, the length said %d", len(body), r.ContentLength)
	}
	if err == nil {
		body, err = oracle.Inflate(body, r.Header.Get("Content-Encoding"), 1<<20)
	}
	var raws [][]byte
	if err == nil {
		raws, err = oracle.Split(body, r.Header.Get("Content-Type"))
	}
	for _, raw := range raws {
		if _, bad := oracle.Parse(raw); bad != nil {
			err = bad
			break
		}
	}
	if err == nil && (l.status == http.StatusOK || r.ContentLength <= l.limit) {
		if _, status := l.store.Take(r.Header.Get("Idempotency-Key"), raws); status != http.StatusOK {
			err = fmt.Errorf("store: status %d", status)
		}
	}
	if err := errors.Join(err, r.Body.Close()); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.mu.errs = append(l.mu.errs, fmt.Errorf("batch %q read late: %w", r.Header.Get("Idempotency-Key"), err))
	}
}

// finish reads the remaining bodies.
func (l *lateReader) finish(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	held := l.mu.held
	l.mu.held = nil
	l.mu.Unlock()
	for _, r := range held {
		l.read(r)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, err := range l.mu.errs {
		if i < 5 {
			t.Error(err)
		}
	}
}

// TestFault04_LateBody: a transport reads bodies after it has responded, while more events
// need memory.
func TestFault04_LateBody(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusRequestEntityTooLarge} {
		for _, c := range []struct {
			format   batch.Format
			compress batch.Compression
		}{
			{batch.FormatLines, batch.CompressionNone}, {batch.FormatArray, batch.CompressionNone}, {batch.FormatLines, batch.CompressionGzip}, {batch.FormatArray, batch.CompressionZstd},
		} {
			t.Run(name(status, " ", c.format, " ", c.compress), func(t *testing.T) {
				store := oracle.NewStore(oracle.Rules{})
				late := &lateReader{store: store, status: status, limit: 4000, behind: 20}
				r := start(t, config{
					Send: viaHTTP(t, "late.invalid", batch.HTTPOptions{
						Client: &http.Client{Transport: late}, Compression: c.compress,
					}),
					Format:  c.format,
					Trigger: batch.Trigger{Count: 100, Linger: time.Millisecond},
				})
				for range scale(10, 200) {
					r.load(4, 100, 60)
					r.flush()
				}
				late.finish(t)
				r.allDelivered(store, false)
			})
		}
	}
}

// TestFault04_LateSend: the same for a SendFunc without HTTP: a reader made by Body is used
// after the call.
func TestFault04_LateSend(t *testing.T) {
	store := oracle.NewStore(oracle.Rules{})
	type job struct {
		key  string
		body io.ReadCloser
		size int64
	}
	jobs := make(chan job, 1000)
	r := start(t, config{
		Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
			jobs <- job{b.Key(), b.Body(), b.Size()}
			return batch.Outcome{}
		},
		Trigger: batch.Trigger{Count: 50, Linger: time.Millisecond},
	})
	for range 10 {
		r.load(2, 200, 60)
		r.flush()
	}
	for range len(jobs) {
		j := <-jobs
		body, err := io.ReadAll(j.body)
		if err != nil || int64(len(body)) != j.size {
			t.Fatalf("%s: got %d bytes, %v, want %d", j.key, len(body), err, j.size)
		}
		raws, err := oracle.Split(body, "application/x-ndjson")
		if err != nil {
			t.Fatal(err)
		}
		store.Take(j.key, raws)
		for range 2 { // closing again does nothing
			if err := j.body.Close(); err != nil {
				t.Errorf("close: %v", err)
			}
		}
	}
	r.allDelivered(store, false)
}

// TestFault04_EarlyAnswer: a real server responds with 413 before it reads the body, and
// then neither reads on nor closes the connection.
func TestFault04_EarlyAnswer(t *testing.T) {
	store := oracle.NewStore(oracle.Rules{})
	server := oracle.NewServer(t, store, func(q *oracle.Request) oracle.Act {
		if q.Length > 32<<10 {
			return oracle.Act{At: oracle.AtHead, Do: oracle.Deny, Status: http.StatusRequestEntityTooLarge}
		}
		return oracle.Act{}
	})
	r := start(t, config{
		Send:    viaHTTP(t, server.Addr, batch.HTTPOptions{}),
		Trigger: batch.Trigger{Bytes: 8 << 20, Count: 10_000, Linger: 200 * time.Millisecond},
	})
	for range scale(1, 10) {
		r.load(4, 400, 4000) // more than fits in the buffers of the sockets
		r.flush()
	}
	r.allDelivered(store, false)
}

// TestFault04_NeverClosed: Close does not wait longer than its context for a body that is
// never closed, and memory that is still read is not reused.
func TestFault04_NeverClosed(t *testing.T) {
	store := oracle.NewStore(oracle.Rules{})
	bodies := make(chan io.ReadCloser, 1)
	r := start(t, config{
		Send: func(_ context.Context, b *batch.Batch) batch.Outcome {
			select {
			case bodies <- b.Body():
			default:
			}
			return give(store, b)
		},
		Trigger: batch.Trigger{Count: 10, Linger: time.Millisecond},
	})
	r.load(1, 10, 60)
	r.flush()
	r.load(4, 100, 60)
	r.flush()
	r.end(100 * time.Millisecond)
	body := <-bodies
	got, err := io.ReadAll(body)
	if err != nil || bytes.Count(got, []byte("\n")) == 0 {
		t.Errorf("the open body: got %d bytes, %v", len(got), err)
	}
	raws, err := oracle.Split(got, "application/x-ndjson")
	for _, raw := range raws {
		if _, bad := oracle.Parse(raw); bad != nil {
			err = bad
		}
	}
	if err := errors.Join(err, body.Close()); err != nil {
		t.Error(err)
	}
	r.verdict(store, oracle.Promise{Once: true})
}

// slow are the ways in which a receiver does not respond in time.
var slow = map[string]oracle.Act{
	"reads a byte a second":   {Rate: 1},
	"answers after 30 s":      {Delay: 30 * time.Second},
	"never reads":             {At: oracle.AtHead, Do: oracle.Hang},
	"takes and never answers": {At: oracle.AfterTake, Do: oracle.Hang},
}

// TestFault05_Slow: the policy applies to producers while the receiver does not respond, and
// everything is delivered when it does again.
func TestFault05_Slow(t *testing.T) {
	for how, act := range slow {
		for _, policy := range []batch.Policy{batch.PolicyBlock, batch.PolicyReject, batch.PolicyDropNewest, batch.PolicyDropOldest, batch.PolicySpill} {
			if !full() && policy != batch.PolicyBlock && act.Do != oracle.Hang {
				continue
			}
			t.Run(name(how, " ", policy), func(t *testing.T) {
				t.Parallel()
				testSlow(t, policy, func(t *testing.T, store *oracle.Store) (string, func()) {
					server := oracle.NewServer(t, store, func(*oracle.Request) oracle.Act { return act })
					return server.Addr, func() { server.Set(nil) }
				})
			})
		}
	}
	t.Run("black hole", func(t *testing.T) {
		t.Parallel()
		testSlow(t, batch.PolicyReject, func(t *testing.T, store *oracle.Store) (string, func()) {
			server := oracle.NewServer(t, store, nil)
			proxy := faultproxy.New(t, server.Addr, func(int) faultproxy.Plan {
				return faultproxy.Plan{Up: faultproxy.Leg{Do: faultproxy.Hole, After: 500}}
			})
			return proxy.Addr, func() { proxy.Set(nil) }
		})
	})
}

func testSlow(t *testing.T, policy batch.Policy, serve func(*testing.T, *oracle.Store) (addr string, heal func())) {
	const (
		events    = 1000
		queue     = 200_000
		batchSize = 20_000
		lanes     = 2
	)
	store := oracle.NewStore(oracle.Rules{})
	addr, heal := serve(t, store)
	c := config{
		Send:    viaHTTP(t, addr, batch.HTTPOptions{Timeout: 300 * time.Millisecond}),
		Trigger: batch.Trigger{Count: 100, Bytes: batchSize, Linger: 5 * time.Millisecond},
		Queue:   batch.Queue{Events: events, Bytes: queue, Full: policy},
		Lanes:   batch.Lanes[event]{Max: lanes},
	}
	if policy == batch.PolicySpill {
		c.Spool = &batch.Spool{Dir: t.TempDir()}
	}
	r := start(t, c)
	full, out := 0, 0
	for range 4 * events {
		e := r.ledger.Next(1, 100)
		var err error
		if policy == batch.PolicyBlock {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
			err = r.AddWait(ctx, e)
			cancel()
		} else {
			err = r.Add(e)
		}
		switch r.ledger.Added(e, err); {
		case errors.Is(err, batch.ErrFull):
			full++
		case errors.Is(err, context.DeadlineExceeded):
			out++
		case err != nil:
			t.Fatal(err)
		}
		if out > 10 {
			break // it is full, and blocks
		}
	}
	s := r.balance("full")
	lost := s.DroppedFull
	switch policy {
	case batch.PolicyBlock:
		if out == 0 || full > 0 || lost > 0 {
			t.Errorf("got %d waits that ended, %d ErrFull, %d dropped, want waits only", out, full, lost)
		}
	case batch.PolicyReject:
		if full == 0 || lost > 0 || s.Rejected != uint64(full) {
			t.Errorf("got %d ErrFull, %d counted, %d dropped, want ErrFull only", full, s.Rejected, lost)
		}
	case batch.PolicyDropNewest, batch.PolicyDropOldest:
		if full > 0 || lost == 0 {
			t.Errorf("got %d ErrFull, %d dropped, want dropped only", full, lost)
		}
	case batch.PolicySpill:
		if full > 0 || lost > 0 || s.Spooled == 0 {
			t.Errorf("got %d ErrFull, %d dropped, %d spooled, want spooled only", full, lost, s.Spooled)
		}
	}
	heal()
	r.flush()
	_, s = r.end(patience)
	if s.Delivered+s.DroppedFull != s.Accepted {
		t.Errorf("got %d delivered and %d dropped of %d", s.Delivered, s.DroppedFull, s.Accepted)
	}
	if r.most.queued > events || r.most.queuedBytes > queue {
		t.Errorf("got up to %d events, %d bytes in the queue, want at most %d, %d", r.most.queued, r.most.queuedBytes, events, queue)
	}
	// Batches that are being sent, and those that wait for their next attempt: a
	// quarter of the queue, or as many batches as there are lanes.
	if most := 100*lanes + max(events/4, 100*lanes); r.most.inFlight > uint64(most) {
		t.Errorf("got up to %d events on the way, want at most %d", r.most.inFlight, most)
	}
	last := uint64(r.ledger.Count().Made)
	if policy == batch.PolicyDropOldest && !store.Has(last) {
		t.Errorf("event %d, the newest, was not delivered", last)
	}
	if policy == batch.PolicyDropNewest && !store.Has(1) {
		t.Error("event 1, the oldest, was not delivered")
	}
	r.verdict(store, oracle.Promise{Once: true})
}

// TestFault05_SpillOtherLane: an open chunk of another lane takes the room that the spilled
// events of a lane made. The producers of the first lane still continue, because the disk
// has space.
func TestFault05_SpillOtherLane(t *testing.T) {
	store := oracle.NewStore(oracle.Rules{})
	v := &valve{store: store}
	lanes := make(chan [2]int, 100)
	r := start(t, config{
		Send: func(ctx context.Context, b *batch.Batch) batch.Outcome {
			for raw := range b.Events() {
				if e, err := oracle.Parse(raw); err == nil && e.Seq == 1 {
					lanes <- [2]int{int(e.Key), b.Lane()}
				}
			}
			return v.send(ctx, b)
		},
		Trigger: batch.Trigger{Count: 50, Linger: time.Millisecond},
		Queue:   batch.Queue{Events: 200},
		Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 2},
		Retry:   batch.Retry{Initial: time.Second, Max: time.Second},
		Spool:   &batch.Spool{Dir: t.TempDir(), SyncEvery: time.Millisecond},
	})
	// Find two keys on different lanes.
	v.open.Store(true)
	r.load(8, 1, 10)
	r.flush()
	v.open.Store(false)
	close(lanes)
	keys := make(map[int]int) // by lane
	for x := range lanes {
		keys[x[1]] = x[0]
	}
	if len(keys) != 2 {
		t.Fatalf("got keys on %d lanes, want 2", len(keys))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for range 5 {
		for lane, n := range []int{1000, 20} {
			for i := range n {
				if err := r.add(ctx, uint64(keys[lane]), 100); err != nil {
					t.Fatalf("lane %d, event %d of %d: %v; %+v", lane, i, n, err, r.Stats())
				}
			}
		}
	}
	v.open.Store(true)
	r.allDelivered(store, true)
}
