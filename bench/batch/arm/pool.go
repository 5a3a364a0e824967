package arm

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// A shape is what tells the designs apart.
type shape struct {
	workers int
	async   bool // a worker copies its events, and posts the copy in the background
	queue   int  // 0: the channel has no buffer
}

// conns is how many connections to the server are kept, so that 100 workers do
// not pay for new ones; the default of net/http would be 2.
const conns = 128

// pkg is what the names of this package's functions begin with.
const pkg = "github.com/uniflow-labs/uniflow/bench/batch/arm."

// Queued is the name of the design with a buffered channel.
const Queued = "1 async, queue 4096"

// Designs returns the three designs of the founding article, and the last of them
// with a queue of 4,096.
func Designs() []Design {
	return []Design{
		design("10 workers sync", shape{workers: 10}),
		design("100 workers sync", shape{workers: 100}),
		design("1 worker async, copy", shape{workers: 1, async: true}),
		design(Queued, shape{workers: 1, async: true, queue: Queue}),
	}
}

func design(name string, s shape) Design {
	return Design{
		Name: name, Load: Closed, Tells: true,
		Make: func(o Options) (Subject, error) { return newPool(o, s), nil },
		// What flush does in the background belongs to run as well.
		Under:  []string{pkg + "(*pool).run", pkg + "(*pool).flush"},
		Copies: []string{pkg + "deepCopy"},
	}
}

// A pool is workers that read from one channel.
type pool struct {
	shape
	o      Options
	events chan Event    // never closed, as producers send
	done   chan struct{} // closed by Close
	client *http.Client

	workers sync.WaitGroup
	sends   sync.WaitGroup // in the background
	failed  atomic.Int64   // events of batches that were not taken
}

func newPool(o Options, s shape) *pool {
	p := &pool{
		shape: s, o: o,
		events: make(chan Event, s.queue),
		done:   make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}, Timeout: 30 * time.Second},
	}
	for range s.workers {
		p.workers.Go(p.run)
	}
	return p
}

func (p *pool) Offer(e *Event) (reason string) {
	select {
	case p.events <- *e:
		return ""
	case <-p.done:
		return "closed"
	}
}

// run is a worker. All start together, so their tickers tick together, and no one
// reads the channel while all of them post.
func (p *pool) run() {
	every := time.NewTicker(p.o.Interval)
	defer every.Stop()
	batch := make([]Event, 0, p.o.Limit)
	for {
		select {
		case e := <-p.events:
			if batch = append(batch, e); len(batch) >= p.o.Limit {
				batch = p.flush(batch)
			}
		case <-every.C:
			batch = p.flush(batch)
		case <-p.done:
			p.drain(batch)
			return
		}
	}
}

func (p *pool) drain(batch []Event) {
	for {
		select {
		case e := <-p.events:
			if batch = append(batch, e); len(batch) >= p.o.Limit {
				batch = p.flush(batch)
			}
		default:
			p.flush(batch)
			return
		}
	}
}

// flush posts a batch, and returns its memory.
func (p *pool) flush(batch []Event) []Event {
	if len(batch) == 0 {
		return batch
	}
	if p.async {
		own := deepCopy(batch)
		p.sends.Go(func() { p.post(own) })
	} else {
		p.post(batch)
	}
	return batch[:0]
}

// deepCopy is what allows a worker to go on with its memory.
//
//go:noinline
func deepCopy(batch []Event) []Event {
	own := make([]Event, len(batch))
	copy(own, batch)
	return own
}

func (p *pool) post(batch []Event) {
	if err := p.o.Post(context.Background(), p.client, batch); err != nil {
		p.failed.Add(int64(len(batch)))
	}
}

// Close lets the workers post what they have, and waits.
func (p *pool) Close(context.Context) error {
	close(p.done)
	p.workers.Wait()
	p.sends.Wait()
	p.client.CloseIdleConnections()
	return nil
}

func (p *pool) Dropped() map[string]int64 {
	if n := p.failed.Load(); n > 0 {
		return map[string]int64{"failed": n}
	}
	return nil
}
