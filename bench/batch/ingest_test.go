package batch_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
)

// An encoder appends the encoded event to dst.
type encoder func(dst []byte, e *event) []byte

// An adder takes events and discards them.
type adder interface {
	Add(e *event)
	Close() error
}

// How much the ingest designs collect before they discard it: the batch of the
// protocol, and a chunk that fits the processor's cache.
const (
	batchEvents = 2000
	chunkEvents = 512
)

// A channel is the ingest side of a pool with one worker, which collects a batch,
// encodes it, and discards it. Make it with newChannel.
type channel struct {
	events chan event
	done   chan struct{}
	worker sync.WaitGroup
}

// queue is the buffer of the article's variants with one.
const queue = 4096

// newChannel starts the reader of a channel with room for a number of events.
func newChannel(encode encoder, queue int) adder {
	c := &channel{events: make(chan event, queue), done: make(chan struct{})}
	c.worker.Go(func() { c.run(encode) })
	return c
}

// Add hands over an event. It is safe for concurrent use, but not with Close.
func (c *channel) Add(e *event) {
	select {
	case c.events <- *e:
	case <-c.done:
	}
}

func (c *channel) run(encode encoder) {
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	batch := make([]event, 0, batchEvents)
	var body []byte
	flush := func() {
		body = body[:0]
		for i := range batch {
			body = encode(body, &batch[i])
		}
		batch = batch[:0]
	}
	for {
		select {
		case e := <-c.events:
			if batch = append(batch, e); len(batch) >= batchEvents {
				flush()
			}
		case <-every.C:
			flush()
		case <-c.done:
			return
		}
	}
}

func (c *channel) Close() error {
	close(c.done)
	c.worker.Wait()
	return nil
}

// A swap is a chunk under a mutex: producers encode into it, and the one that fills
// it swaps it for an empty one and passes it to a reader, which discards it. It is
// the simplest design without a channel for each event. Make it with newSwap.
type swap struct {
	encode encoder
	full   chan []byte // closed by Close
	empty  chan []byte
	reader sync.WaitGroup
	mu     struct {
		sync.Mutex
		chunk  []byte
		events int
	}
}

// newSwap starts the reader.
func newSwap(encode encoder) adder {
	const chunks = 8
	s := &swap{encode: encode, full: make(chan []byte, chunks), empty: make(chan []byte, chunks)}
	for range chunks {
		s.empty <- nil
	}
	s.reader.Go(func() {
		for chunk := range s.full {
			s.empty <- chunk[:0]
		}
	})
	return s
}

// Add hands over an event. It is safe for concurrent use, but not with Close.
func (s *swap) Add(e *event) {
	var full []byte
	s.mu.Lock()
	s.mu.chunk = s.encode(s.mu.chunk, e)
	if s.mu.events++; s.mu.events >= chunkEvents {
		full = s.mu.chunk
		s.mu.chunk, s.mu.events = <-s.empty, 0
	}
	s.mu.Unlock()
	if full != nil {
		s.full <- full
	}
}

func (s *swap) Close() error {
	close(s.full)
	s.reader.Wait()
	return nil
}

// A discarding is a processor of ours whose send function takes every batch.
type discarding struct {
	p      *batch.Processor[event]
	failed atomic.Pointer[error] // the first of Add
}

func newDiscarding(encode encoder, spool *batch.Spool) (adder, error) {
	p, err := batch.New(batch.Options[event]{
		Encode:  func(dst []byte, e *event) ([]byte, error) { return encode(dst, e), nil },
		Send:    func(context.Context, *batch.Batch) batch.Outcome { return batch.Outcome{} },
		Format:  batch.FormatRaw,
		Trigger: batch.Trigger{Count: limit, Bytes: 4 << 20, Linger: interval},
		Spool:   spool,
	})
	return &discarding{p: p}, err
}

func (d *discarding) Add(e *event) {
	if err := d.p.Add(e); err != nil {
		d.fail(err)
	}
}

// fail is not part of Add, which would allocate an error for each event.
func (d *discarding) fail(err error) { d.failed.CompareAndSwap(nil, &err) }

func (d *discarding) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if first := d.failed.Load(); first != nil {
		return fmt.Errorf("%w, and %w", *first, settled(ctx, d.p))
	}
	return settled(ctx, d.p)
}

// BenchmarkAdd is what adding an event takes when nothing is sent: the time that passes,
// divided by the events of all producers. The one that uses the disk comes last, since the
// disk is busy for a while after it.
func BenchmarkAdd(b *testing.B) {
	for _, d := range []struct {
		name string
		make func(encode encoder) (adder, error)
	}{
		{"buffered channel", func(e encoder) (adder, error) { return newChannel(e, queue), nil }},
		{"unbuffered channel", func(e encoder) (adder, error) { return newChannel(e, 0), nil }},
		{"mutex", func(e encoder) (adder, error) { return newSwap(e), nil }},
		{"batch", func(e encoder) (adder, error) { return newDiscarding(e, nil) }},
		{"batch, spool", func(e encoder) (adder, error) {
			return newDiscarding(e, &batch.Spool{Dir: onDisk(b), WriteAhead: true})
		}},
	} {
		for _, form := range []struct {
			name   string
			encode encoder
		}{{"struct", appendFlat}, {"json150", func(dst []byte, e *event) []byte { return appendJSON(dst, e, jsonSize) }}} {
			for _, producers := range []int{1, 2, 64} {
				b.Run(fmt.Sprintf("%s/%s/producers=%d", d.name, form.name, producers), func(b *testing.B) {
					a, err := d.make(form.encode)
					if err != nil {
						b.Fatal(err)
					}
					b.ReportAllocs()
					b.ResetTimer()
					addAll(a, producers, b.N)
					b.StopTimer()
					if err := a.Close(); err != nil {
						b.Fatal(err)
					}
				})
			}
		}
	}
}

// addAll adds n events by a number of producers, which start together.
func addAll(a adder, producers, n int) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for p := range producers {
		mine := n / producers
		if p < n%producers {
			mine++
		}
		all.Go(func() {
			e := event{Seq: uint64(p) << 40, Time: time.Now().UnixNano(), User: uint64(p), Value: 42}
			<-start
			for range mine {
				e.Seq++
				a.Add(&e)
			}
		})
	}
	close(start)
	all.Wait()
}

// TestAdd checks that every event is encoded, except those in memory when a design is closed.
func TestAdd(t *testing.T) {
	f := func(name string, most int64, make func(encoder) (adder, error)) {
		t.Helper()
		var encoded atomic.Int64
		a, err := make(func(dst []byte, e *event) []byte {
			encoded.Add(1)
			return appendFlat(dst, e)
		})
		if err != nil {
			t.Fatal(err)
		}
		const all = 40_002
		addAll(a, 4, all)
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if left := all - encoded.Load(); left < 0 || left > most {
			t.Errorf("%s: got %d events that were not encoded, want 0 to %d", name, left, most)
		}
	}
	for _, queue := range []int{0, queue} {
		f("channel", int64(queue+batchEvents), func(e encoder) (adder, error) { return newChannel(e, queue), nil })
	}
	f("mutex", 0, func(e encoder) (adder, error) { return newSwap(e), nil })
	f("batch", 0, func(e encoder) (adder, error) { return newDiscarding(e, nil) })
	f("spool", 0, func(e encoder) (adder, error) {
		return newDiscarding(e, &batch.Spool{Dir: t.TempDir(), WriteAhead: true})
	})
}
