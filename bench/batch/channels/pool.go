// Package channels ships events through a channel to workers that select: the
// designs which the batch benchmark compares with.
//
// [Designs] are those that the founding article measured, as it describes them:
// workers that collect events until there are enough or their ticker ticks, and
// then post them, themselves or in the background; and the same with a queue,
// and with producers that do not wait. ingest.go has what is left of two designs
// when nothing is sent, to see what an event costs.
//
// Everything that is not the design is as good as ours: events are structs
// without pointers, they are encoded by the same function into memory of the
// right size, and connections are reused. The package must not know what it is
// compared with.
package channels

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
)

// A shape is what tells the designs apart.
type shape struct {
	workers int
	async   bool // a worker copies its events, and posts the copy in the background
	queue   int  // 0: the channel has no buffer
	newest  bool // an event that cannot be handed over at once is dropped
}

// conns is how many connections to the server are kept, so that 100 workers do
// not pay for new ones; the default of net/http would be 2.
const conns = 128

// pkg is what the names of this package's functions begin with.
const pkg = "github.com/uniflow-labs/uniflow/bench/batch/channels."

// Designs returns the three designs of the founding article, and then their
// variants: with a queue of 4,096, without waiting producers, and with a
// producer that catches up.
func Designs() []arm.Design {
	return []arm.Design{
		design("10 workers sync", arm.Closed, shape{workers: 10}),
		design("100 workers sync", arm.Closed, shape{workers: 100}),
		design("1 worker async, copy", arm.Closed, shape{workers: 1, async: true}),

		design("10 sync, queue 4096", arm.Closed, shape{workers: 10, queue: Queue}),
		design("100 sync, queue 4096", arm.Closed, shape{workers: 100, queue: Queue}),
		design("1 async, queue 4096", arm.Closed, shape{workers: 1, async: true, queue: Queue}),
		design("10 sync, drop newest", arm.Open, shape{workers: 10, newest: true}),
		design("100 sync, drop newest", arm.Open, shape{workers: 100, newest: true}),
		design("1 async, drop newest", arm.Open, shape{workers: 1, async: true, newest: true}),
		design("10 sync, queue 4096, drop newest", arm.Open, shape{workers: 10, queue: Queue, newest: true}),
		design("1 async, queue 4096, drop newest", arm.Open, shape{workers: 1, async: true, queue: Queue, newest: true}),
		design("10 sync, catching up", arm.Open, shape{workers: 10}),
	}
}

// Founding is how many of Designs are the article's.
const Founding = 3

// Sized returns a design of 10 synchronous workers whose queue is as large as
// its options say, and whose producer does not wait: what a queue has to hold is
// seen by what is dropped.
func Sized() arm.Design {
	d := design("10 sync, sized queue, drop newest", arm.Open, shape{})
	d.Make = func(o arm.Options) (arm.Subject, error) {
		return newPool(o, shape{workers: 10, queue: o.Queue, newest: true}), nil
	}
	return d
}

func design(name string, l arm.Load, s shape) arm.Design {
	return arm.Design{
		Name: name, Load: l, Tells: true,
		Make: func(o arm.Options) (arm.Subject, error) { return newPool(o, s), nil },
		// What flush does in the background belongs to run as well.
		Under:  []string{pkg + "(*pool).run", pkg + "(*pool).flush"},
		Copies: []string{pkg + "deepCopy"},
	}
}

// A pool is workers that read from one channel.
type pool struct {
	shape
	o      arm.Options
	events chan model.Event // never closed, as producers send
	done   chan struct{}    // closed by Close
	client *http.Client

	workers sync.WaitGroup
	sends   sync.WaitGroup // in the background
	failed  atomic.Int64   // events of batches that were not taken
}

func newPool(o arm.Options, s shape) *pool {
	p := &pool{
		shape: s, o: o,
		events: make(chan model.Event, s.queue),
		done:   make(chan struct{}),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: conns}, Timeout: 30 * time.Second},
	}
	for range s.workers {
		p.workers.Go(p.run)
	}
	return p
}

// Offer sends the event to whichever worker receives.
func (p *pool) Offer(e *model.Event) (reason string) {
	if p.newest {
		select {
		case p.events <- *e:
			return ""
		default:
			return "full"
		}
	}
	select {
	case p.events <- *e:
		return ""
	case <-p.done:
		return "closed"
	}
}

// run is a worker. That all of them start together is why their tickers tick
// together, and why nobody reads the channel while all of them post.
func (p *pool) run() {
	every := time.NewTicker(p.o.Interval)
	defer every.Stop()
	batch := make([]model.Event, 0, p.o.Limit)
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

// drain posts what is left.
func (p *pool) drain(batch []model.Event) {
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
func (p *pool) flush(batch []model.Event) []model.Event {
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
func deepCopy(batch []model.Event) []model.Event {
	own := make([]model.Event, len(batch))
	copy(own, batch)
	return own
}

func (p *pool) post(batch []model.Event) {
	body := model.AppendArray(make([]byte, 0, len(batch)*(p.o.Size+1)+2), batch, p.o.Size)
	if err := post(context.Background(), p.client, p.o.URL, body); err != nil {
		p.failed.Add(int64(len(batch)))
	}
}

func post(ctx context.Context, client *http.Client, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// Close lets the workers post what they have, and waits.
func (p *pool) Close(context.Context) error {
	close(p.done)
	p.workers.Wait()
	p.sends.Wait()
	p.client.CloseIdleConnections()
	return nil
}

// Dropped returns what the server did not take.
func (p *pool) Dropped() map[string]int64 {
	if n := p.failed.Load(); n > 0 {
		return map[string]int64{"failed": n}
	}
	return nil
}
