package kafka

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/uniflow-labs/uniflow/value"
)

// A call is one call of Write: its records, as the client has them. It is used again when
// all are done and Write has returned.
type call struct {
	writer *sinkWriter
	slots  []slot
	end    context.CancelFunc
	done   func(i int, receipt value.Value, err error)
	left   atomic.Int64 // records that are not done, and Write itself
}

// A slot is a record of a call, and what the client calls for it.
type slot struct {
	record  kgo.Record
	promise func(*kgo.Record, error)
}

// calls has those to use again.
type calls struct{ sync.Pool }

// begin returns a call for n records.
func (p *calls) begin(w *sinkWriter, n int, end context.CancelFunc, done func(i int, receipt value.Value, err error)) *call {
	c, ok := p.Get().(*call)
	if !ok {
		c = new(call)
	}
	c.writer, c.end, c.done = w, end, done
	for i := len(c.slots); i < n; i++ {
		c.slots = append(c.slots, slot{promise: func(_ *kgo.Record, err error) { c.stored(i, err) }})
	}
	c.left.Store(int64(n) + 1)
	return c
}

// stored is how a record has ended.
func (c *call) stored(i int, err error) {
	rec := &c.slots[i].record
	receipt := value.Null()
	switch {
	case err != nil:
		err = failure(rec.Topic, c.writer.constant, err)
	case c.writer.receipts:
		receipt = value.UniqueMap([]value.Field{
			{Name: "topic", Value: value.String(rec.Topic)},
			{Name: "partition", Value: value.Int(int64(rec.Partition))},
			{Name: "offset", Value: value.Int(rec.Offset)},
		})
	}
	c.ended(i, receipt, err)
}

func (c *call) ended(i int, receipt value.Value, err error) {
	c.slots[i].record = kgo.Record{}
	c.done(i, receipt, err)
	c.leave()
}

// leave is called for each record that is done, and at the end of Write.
func (c *call) leave() {
	if c.left.Add(-1) > 0 {
		return
	}
	w := c.writer
	c.end()
	c.writer, c.end, c.done = nil, nil, nil
	w.calls.Put(c)
}
