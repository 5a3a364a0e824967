package stream_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// body is a message of 150 bytes; customers have numbers from 0 to 15.
func body(i int) []byte {
	return fmt.Appendf(nil, `{"customer": "c%d", "amount": %d, "currency": "EUR", "items": [{"sku": "a-1", "n": 2}, {"sku": "b-2", "n": 1}], "note": "leave it at the door"}`, i%16, i%1000)
}

// A burst is a reader of a number of messages that are there immediately.
type burst struct {
	left     int
	bodies   [][]byte
	messages []stream.Message
	offset   int64
}

func (r *burst) Connect(context.Context, stream.Host) error { return nil }

func (r *burst) Read(_ context.Context, room stream.Room) ([]stream.Message, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	r.messages = r.messages[:0]
	for range min(room.Messages, r.left) {
		r.offset++
		r.messages = append(r.messages, stream.Message{Raw: r.bodies[r.offset%16], Offset: r.offset})
	}
	r.left -= len(r.messages)
	return r.messages, nil
}

func (r *burst) Settle(context.Context, stream.Settled) error { return nil }
func (r *burst) Fields(*stream.Message, *value.MapBuilder)    {}
func (r *burst) Close(context.Context) error                  { return nil }

// An accepting writer confirms records immediately.
type accepting struct{}

func (accepting) Connect(context.Context) error { return nil }

func (accepting) Write(_ context.Context, _ []stream.Record, done func(int, value.Value, error)) {
	done(stream.Rest, value.Null(), nil)
}

func (accepting) Close(context.Context) error { return nil }

// benchmarkSource reads n messages in one run, into a node of a kind.
func benchmarkSource(b testing.TB, n int, traits stream.Traits, fields, into string) {
	reader := &burst{left: n, bodies: bodies()}
	source := stream.Source{
		Kind: "burst", Summary: "Reads.", Page: node.Page{Example: "kind: burst\n"}, Traits: traits, Config: schema.Fields(),
		Open: func(*node.Init) (stream.Reader, error) { return reader, nil },
	}.Def(stream.Options{Languages: builtin.Languages(), Language: "cel"})
	var finite node.Finite
	made := source.New
	source.New = func(init *node.Init) (node.Node, error) {
		n, err := made(init)
		if err == nil {
			finite = n.(node.Finite)
		}
		return n, err
	}
	accept := sink(nil)
	accept.Open = func(*node.Init) (stream.Writer, error) { return accepting{}, nil }
	engine, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), source, accept.Def(options))})
	if err != nil {
		b.Fatal(err)
	}
	text := "- {kind: burst, name: s, max_in_flight: 1024, " + fields + ", ports: {out: [{name: n}]}}\n- {kind: " + into + ", name: n}\n"
	if list, err := engine.Apply(context.Background(), uniflow.Source{Documents: []spec.Document{{File: "b.yaml", Data: []byte(text)}}}); err != nil || list.HasErrors() {
		b.Fatal(list, err)
	}
	<-finite.Finished()
	if err := engine.Shutdown(context.Background()); err != nil {
		b.Fatal(err)
	}
}

func bodies() [][]byte {
	bodies := make([][]byte, 16)
	for i := range bodies {
		bodies[i] = body(i)
	}
	return bodies
}

// BenchmarkSource is one message from the reader through a process of one node to its
// acknowledgement, or into a sink, and the same by hand: a channel, and as many goroutines as processors
// that decode and call a function.
func BenchmarkSource(b *testing.B) {
	bodies := bodies()
	for _, positions := range []bool{false, true} {
		for _, fields := range []string{"order: none", "order: key, key: self.body.customer", "order: key", "order: total", "order: none, batch: {count: 100, linger: 0}", "order: none, decode: raw"} {
			name := strings.NewReplacer(": ", "=", ", ", " ", "{", "", "}", "").Replace(fields)
			if positions {
				name += " positions"
			}
			b.Run(name, func(b *testing.B) {
				b.ReportAllocs()
				benchmarkSource(b, b.N, stream.Traits{Positions: positions}, fields, "nop")
			})
		}
	}
	b.Run("into a sink", func(b *testing.B) {
		b.ReportAllocs()
		benchmarkSource(b, b.N, stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord}, "order: record, decode: raw", "memory_sink, encode: raw")
	})
	b.Run("by hand", func(b *testing.B) {
		b.ReportAllocs()
		messages := make(chan []byte, 1024)
		var workers sync.WaitGroup
		for range runtime.GOMAXPROCS(0) {
			workers.Go(func() {
				for raw := range messages {
					v, err := value.ParseJSON(raw)
					if err != nil || v.IsNull() {
						b.Error(err)
					}
				}
			})
		}
		for i := range b.N {
			messages <- bodies[i%16]
		}
		close(messages)
		workers.Wait()
	})
}

// TestSourceAllocs is the budget of a message that is not decoded: a part of what several
// share, and into a sink the fields of its map, too. One that is not in a group takes five there.
func TestSourceAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	const n = 20_000
	for into, budget := range map[string]float64{"nop": 0.5, "memory_sink, encode: raw": 3} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		benchmarkSource(t, n, stream.Traits{Lanes: true, Positions: true, Order: stream.OrderRecord}, "decode: raw", into)
		runtime.ReadMemStats(&after)
		if got := float64(after.Mallocs-before.Mallocs) / n; got > budget { // allocations of the engine included
			t.Errorf("into %s: got %.2f allocations for a message, want %v", into, got, budget)
		}
	}
}
