package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A packing system writes what it has packed, unless that has a text that it refuses.
type packing struct {
	*memory
	r     *rand.Rand // for the goroutine that writes
	wrote func(texts []string)
}

func (p *packing) Pack(bodies value.Value) any {
	var texts []string
	for _, body := range bodies.Elems() {
		text, _ := body.AsString()
		texts = append(texts, text)
	}
	if len(texts)%5 == 4 {
		return nil
	}
	return texts
}

func (p *packing) WritePacked(_ context.Context, packs []any) (ok bool, err error) {
	var texts []string
	for _, pack := range packs {
		texts = append(texts, pack.([]string)...)
	}
	if p.r.IntN(4) == 0 || slices.ContainsFunc(texts, func(s string) bool { return strings.HasSuffix(s, "!") }) {
		return false, nil
	}
	p.sizes = append(p.sizes, len(texts))
	p.wrote(texts)
	return true, nil
}

// TestSinkJoins lets random packets come while a batch is written: single messages, lists of
// bodies, and lists with records. They join the next batch whatever their number, up to its
// bytes, in order, and a message that fails is an error of its packet alone.
func TestSinkJoins(t *testing.T) {
	const count, most = 4, 2000
	reached := map[string]int{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 7))
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			var got []string
			m := &memory{write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
				if call == 1 {
					<-gate
				}
				size := 0
				for i, rec := range records {
					text, _ := rec.Body.AsString()
					got = append(got, text)
					size += rec.Body.Size()
					switch {
					case strings.HasSuffix(text, "!"):
						done(i, value.Null(), errors.New("refused"))
					case r.IntN(4) == 0:
						done(i, value.Null(), nil)
						done(i, value.Null(), errors.New("twice"))
					}
				}
				if done(stream.Rest, value.Null(), nil); size > most && len(records) > 1 {
					t.Errorf("seed %d: a batch of %d records has %d bytes", seed, len(records), size)
				}
			}}
			s := sink(m)
			s.Batches, s.Raw, s.Bodies = true, true, true
			s.Joins = func(schema.Config) bool { return true }
			packs := 0
			if seed%2 == 0 {
				p := &packing{memory: m, r: r, wrote: func(texts []string) {
					packs++
					got = append(got, texts...)
				}}
				s.Open = func(*node.Init) (stream.Writer, error) { return p, nil }
			}
			f := serve(t, s, fmt.Sprintf("- {kind: memory_sink, name: n, batch: {bytes: %d, linger: 1s}}", most))
			var sent, wants []string
			var calls []*flowtest.Call
			starts := map[int]bool{} // numbers of messages that packets begin with
			for range 2 + r.IntN(30) {
				items := 1
				if r.IntN(2) == 0 || seed%4 == 0 {
					items = r.IntN(12)
				}
				starts[len(sent)] = true
				records := r.IntN(3) == 0 && seed%4 > 0
				var elems []value.Value
				var errs []string
				for i := range items {
					text := fmt.Sprintf("%04d%s", len(sent), strings.Repeat("x", r.IntN(200)))
					if r.IntN(20) == 0 {
						text += "!"
						errs = append(errs, fmt.Sprintf("message %d: refused", i))
					}
					sent = append(sent, text)
					body := value.String(text)
					if records && r.IntN(2) == 0 {
						body = value.Map(value.Field{Name: "body", Value: body}, value.Field{Name: "key", Value: value.String("k")})
					}
					elems = append(elems, body)
				}
				payload, want := value.List(elems...), "none"
				if len(errs) > 0 {
					want = "error: " + strings.Join(errs, "\n")
				}
				if items == 1 && seed%4 > 0 && r.IntN(3) > 0 {
					payload, want = elems[0], strings.Replace(want, "message 0: ", "", 1)
				}
				wants = append(wants, want)
				calls = append(calls, f.Start("n", payload))
				synctest.Wait()
			}
			close(gate)
			for i, c := range calls {
				if answer := flowtest.Show(c.Response()); answer != wants[i] {
					t.Errorf("seed %d: packet %d: got %s, want %s", seed, i, answer, wants[i])
				}
			}
			if !slices.Equal(got, sent) {
				t.Errorf("seed %d: got %q, want %q", seed, got, sent)
			}
			first := 0
			for i, n := range m.sizes {
				if first > 0 && !starts[first] {
					reached["a list in two batches"]++
				}
				if i > 0 && n > 2*count {
					reached["a long batch"]++
				}
				first += n
			}
			reached["packs"] += packs
			if len(m.sizes) > 1 && slices.ContainsFunc(wants, func(w string) bool { return w != "none" }) {
				reached["a failure among others"]++
			}
		})
	}
	for _, what := range []string{"a list in two batches", "a long batch", "a failure among others", "packs"} {
		if reached[what] < 100 {
			t.Errorf("%s was reached %d times", what, reached[what])
		}
	}
}

// TestSinkJoinsUnlessSet keeps to the limits that a document sets.
func TestSinkJoinsUnlessSet(t *testing.T) {
	f := func(fields, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			gate := make(chan struct{})
			m := &memory{write: func(_ context.Context, call int, _ []stream.Record, done func(int, value.Value, error)) {
				if call == 1 {
					<-gate
				}
				done(stream.Rest, value.Null(), nil)
			}}
			s := sink(m)
			s.Batches = true
			s.Joins = func(c schema.Config) bool { return c.String("topic") == "join" }
			f := serve(t, s, "- {kind: memory_sink, name: n, "+fields+"}")
			list := func(n int) value.Value {
				elems := make([]value.Value, n)
				for i := range elems {
					elems[i] = value.Int(int64(i))
				}
				return value.List(elems...)
			}
			var calls []*flowtest.Call
			for _, n := range []int{1000, 1500, 1500} {
				calls = append(calls, f.Start("n", list(n)))
				synctest.Wait()
			}
			close(gate)
			for _, c := range calls {
				expect(t, fields, flowtest.Show(c.Response()), "none")
			}
			expect(t, fields, fmt.Sprint(m.sizes), want)
		})
	}
	f("topic: join", "[1000 3000]")
	f("topic: other", "[1000 1000 1000 1000]")
	f("topic: join, batch: {count: 1200, linger: 0s}", "[1000 1024 1024 952]")
	f("topic: join, max_in_flight: 2000", "[1000 1000 1000 1000]")
}

// TestSinkJoinsWarily tries few messages together after one has failed, until a batch is good.
func TestSinkJoinsWarily(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gates := []chan struct{}{make(chan struct{}), make(chan struct{})}
		m := &memory{write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
			if call <= len(gates) {
				<-gates[call-1]
			}
			if call == 2 {
				done(7, value.Null(), errors.New("refused"))
			}
			done(stream.Rest, value.Null(), nil)
		}}
		s := sink(m)
		s.Batches = true
		s.Joins = func(schema.Config) bool { return true }
		f := serve(t, s, "- {kind: memory_sink, name: n}")
		var calls []*flowtest.Call
		start := func(lists int) {
			for range lists {
				elems := make([]value.Value, 1000)
				for i := range elems {
					elems[i] = value.Int(int64(i))
				}
				calls = append(calls, f.Start("n", value.List(elems...)))
				synctest.Wait()
			}
		}
		start(3)
		close(gates[0])
		synctest.Wait()
		start(4)
		close(gates[1])
		failed := 0
		for _, c := range calls {
			if answer := flowtest.Show(c.Response()); answer == "error: message 7: refused" {
				failed++
			} else {
				expect(t, "answer", answer, "none")
			}
		}
		if got, want := fmt.Sprint(m.sizes), "[1000 2000 1000 3000]"; got != want || failed != 1 {
			t.Errorf("got batches of %s and %d failures, want %s and 1", got, failed, want)
		}
	})
}
