package arm

import (
	"sync"
	"time"
)

// An Encode appends the encoded event to dst.
type Encode func(dst []byte, e *Event) []byte

// How much the ingest designs collect before they discard it: the batch of the
// protocol, and a chunk that fits the processor's cache.
const (
	batchEvents = 2000
	chunkEvents = 512
)

// A Channel is the ingest side of a pool with one worker, which collects a batch,
// encodes it, and discards it. Make it with NewChannel.
type Channel struct {
	events chan Event
	done   chan struct{}
	worker sync.WaitGroup
}

// Queue is the buffer of the article's variants with one.
const Queue = 4096

// NewChannel starts the reader of a channel with room for a number of events.
func NewChannel(encode Encode, queue int) *Channel {
	c := &Channel{events: make(chan Event, queue), done: make(chan struct{})}
	c.worker.Go(func() { c.run(encode) })
	return c
}

// Add hands over an event. It is safe for concurrent use, but not with Close.
func (c *Channel) Add(e *Event) {
	select {
	case c.events <- *e:
	case <-c.done:
	}
}

func (c *Channel) run(encode Encode) {
	every := time.NewTicker(500 * time.Millisecond)
	defer every.Stop()
	batch := make([]Event, 0, batchEvents)
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

func (c *Channel) Close() {
	close(c.done)
	c.worker.Wait()
}

// A Swap is a chunk under a mutex: producers encode into it, and the one that fills
// it swaps it for an empty one and passes it to a reader, which discards it. It is
// the simplest design without a channel for each event. Make it with NewSwap.
type Swap struct {
	encode Encode
	full   chan []byte // closed by Close
	empty  chan []byte
	reader sync.WaitGroup
	mu     struct {
		sync.Mutex
		chunk  []byte
		events int
	}
}

// NewSwap starts the reader.
func NewSwap(encode Encode) *Swap {
	const chunks = 8
	s := &Swap{encode: encode, full: make(chan []byte, chunks), empty: make(chan []byte, chunks)}
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
func (s *Swap) Add(e *Event) {
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

func (s *Swap) Close() {
	close(s.full)
	s.reader.Wait()
}
