package tabular

import (
	"sync"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// aheadRows is how many rows are read ahead.
const aheadRows = 4096

// An ahead reads the next batch of a source while the caller works on one. The source
// must not reuse the memory of a batch during the next call, and its schema
// must not change.
type ahead struct {
	src    source
	fields event.Schema
	full   chan *aheadBatch // capacity 0: the goroutine is one batch ahead
	free   chan *aheadBatch // capacity 2, all there are
	end    chan struct{}    // closed by close
	wg     sync.WaitGroup
	now    *aheadBatch // the caller has it
	left   []Row       // of now
	bad    []BadRow    // of now, until they are returned
}

type aheadBatch struct {
	rows  []Row
	n     int
	bad   []BadRow
	terms [][]string
	err   error
}

func readAhead(src source) *ahead {
	a := &ahead{src: src, fields: src.schema(), full: make(chan *aheadBatch), free: make(chan *aheadBatch, 2), end: make(chan struct{})}
	for range cap(a.free) {
		a.free <- &aheadBatch{rows: make([]Row, aheadRows)}
	}
	a.wg.Go(a.run)
	return a
}

func (a *ahead) run() {
	for {
		select {
		case <-a.end:
			return
		case b := <-a.free:
			b.n, b.bad, b.err = a.src.next(b.rows)
			err := b.err
			b.terms = b.terms[:0]
			if c, ok := a.src.(coded); ok && err == nil {
				for i := range a.fields {
					b.terms = append(b.terms, c.terms(i))
				}
			}
			select {
			case <-a.end:
				return
			case a.full <- b:
			}
			if err != nil {
				return
			}
		}
	}
}

// next copies rows of the batch that the goroutine has read. An error is the last thing
// that it sends, and Reader does not call next again.
func (a *ahead) next(rows []Row) (n int, bad []BadRow, err error) {
	if len(a.left) == 0 {
		if a.now != nil {
			a.free <- a.now
		}
		a.now = <-a.full
		a.left, a.bad = a.now.rows[:a.now.n], a.now.bad
		if a.now.err != nil {
			return 0, nil, a.now.err
		}
	}
	n = copy(rows, a.left)
	a.left = a.left[n:]
	bad, a.bad = a.bad, nil
	return n, bad, nil
}

func (a *ahead) terms(field int) []string {
	if a.now == nil || field >= len(a.now.terms) {
		return nil
	}
	return a.now.terms[field]
}

func (a *ahead) schema() event.Schema { return a.fields }

func (a *ahead) close() {
	close(a.end)
	a.wg.Wait()
	a.src.close()
	a.src, a.now, a.left, a.free, a.full = nil, nil, nil, nil, nil // they hold pages
}
