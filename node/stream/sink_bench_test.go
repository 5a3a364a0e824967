package stream

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A confirming writer hands records to a goroutine, which confirms them: like a client
// whose connection another goroutine reads.
type confirming struct {
	queue chan confirmation
	group sync.WaitGroup
}

type confirmation struct {
	n    int
	done func(int, value.Value, error)
}

func (c *confirming) Connect(context.Context) error {
	c.queue = make(chan confirmation, 1024)
	c.group.Go(func() {
		for q := range c.queue {
			for i := range q.n {
				q.done(i, value.Null(), nil)
			}
		}
	})
	return nil
}

func (c *confirming) Write(_ context.Context, records []Record, done func(int, value.Value, error)) {
	c.queue <- confirmation{len(records), done}
}

func (c *confirming) Close(context.Context) error {
	close(c.queue)
	c.group.Wait()
	return nil
}

// bare is a process that has a context.
type bare struct{ node.Process }

func (bare) Context() context.Context { return context.Background() }

// openSink returns an open node of a sink, without an engine.
func openSink(tb testing.TB, batches bool) *sinkNode {
	s := Sink{
		Kind: "confirming", Summary: "Confirms.", Batches: batches,
		Open: func(*node.Init) (Writer, error) { return &confirming{}, nil },
	}
	def := s.Def(Options{})
	config := value.Map()
	if batches {
		config = value.Map(value.Field{Name: "batch", Value: value.Map(value.Field{Name: "count", Value: value.Int(64)})})
	}
	c, list := def.Config.Decode(schema.RawOf(config))
	if len(list) > 0 {
		tb.Fatal(list)
	}
	n, err := def.New(&node.Init{Config: c, Pool: new(node.Pool), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	if err := n.(node.Opener).Open(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := n.(*sinkNode).Close(); err != nil {
			tb.Error(err)
		}
	})
	return n.(*sinkNode)
}

// unreadable is a payload that panics when its fields are made.
type unreadable struct{}

func (unreadable) Fields() []value.Field { panic("unreadable") }

// TestGatheringPanics leaves nothing of a packet whose record could not be made.
func TestGatheringPanics(t *testing.T) {
	n := openSink(t, false)
	d := n.Gather(bare{}, value.String("first"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		d.Add(bare{}, value.LazyMap(unreadable{}, 10, 3))
	}()
	if d.Add(bare{}, record); !d.Add(bare{}, record) {
		t.Error("it takes nothing more")
	}
	r := d.Send(bare{}, func(i int, err error) { t.Errorf("%d: %v", i, err) })
	if got := len(d.(*delivery).records); got != 3 {
		t.Errorf("got %d records", got)
	}
	done := make(chan node.Result)
	r.Effect().More.Await(t.Context(), func(r node.Result) { done <- r })
	<-done
}

// record is a payload whose body has 300 bytes as JSON.
var record = value.Map(value.Field{Name: "body", Value: value.Map(
	value.Field{Name: "id", Value: value.Int(4711)},
	value.Field{Name: "text", Value: value.String(strings.Repeat("x", 280))},
)})

// BenchmarkSink is one record of 300 bytes, from a packet at the node to its answer,
// with 512 in flight; the engine is not in it. "batches" has 64 records in a batch; "loop" encodes the
// same and gives it to the same writer, 64 records at a time.
func BenchmarkSink(b *testing.B) {
	slots := make(chan struct{}, 512)
	b.Run("loop", func(b *testing.B) {
		c := &confirming{}
		if err := c.Connect(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		done := func(int, value.Value, error) { <-slots }
		var records []Record
		for b.Loop() {
			slots <- struct{}{}
			body, _ := record.Get("body")
			raw, err := body.AppendJSON(make([]byte, 0, 320))
			if err != nil {
				b.Fatal(err)
			}
			if records = append(records, Record{Raw: raw}); len(records) == 64 {
				c.Write(b.Context(), records, done)
				records = records[:0]
			}
		}
		c.Write(b.Context(), records, done)
		drain(slots)
		if err := c.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
	for _, batches := range []bool{false, true} {
		b.Run(map[bool]string{false: "each", true: "batches"}[batches], func(b *testing.B) {
			n := openSink(b, batches)
			done := func(r node.Result) { <-slots }
			b.ReportAllocs()
			for b.Loop() {
				slots <- struct{}{}
				r := n.Receive(bare{}, node.Packet{Payload: record})
				r.Effect().More.Await(b.Context(), done)
			}
			n.outlet.flush()
			drain(slots)
		})
	}
}

// drain waits until all slots are free.
func drain(slots chan struct{}) {
	for range cap(slots) {
		slots <- struct{}{}
	}
	for range cap(slots) {
		<-slots
	}
}

// TestSinkAllocs is the budget of a record, one at a time: the function that the writer
// calls, and the encoded body.
func TestSinkAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	n := openSink(t, false)
	answered := make(chan struct{})
	done := func(r node.Result) { answered <- struct{}{} }
	ctx := t.Context()
	got := testing.AllocsPerRun(1000, func() {
		r := n.Receive(bare{}, node.Packet{Payload: record})
		r.Effect().More.Await(ctx, done)
		<-answered
	})
	if got > 2 {
		t.Errorf("got %v allocations, want 1, and 1 of the encoding", got)
	}
}
