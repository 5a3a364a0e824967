package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A memory is a system in memory, with faults. Its functions may be nil.
type memory struct {
	connect func(ctx context.Context, attempt int) error
	write   func(ctx context.Context, call int, records []stream.Record, done func(int, value.Value, error))

	mu       sync.Mutex
	connects int
	closes   int
	calls    int
	writing  int
	most     int // calls of Write at a time
	got      []string
	sizes    []int // of the calls
}

func (m *memory) Connect(ctx context.Context) error {
	m.mu.Lock()
	m.connects++
	attempt := m.connects
	m.mu.Unlock()
	if m.connect != nil {
		return m.connect(ctx, attempt)
	}
	return nil
}

func (m *memory) Write(ctx context.Context, records []stream.Record, done func(int, value.Value, error)) {
	m.mu.Lock()
	m.calls++
	call := m.calls
	m.sizes = append(m.sizes, len(records))
	m.writing++
	m.most = max(m.most, m.writing)
	for _, r := range records {
		m.got = append(m.got, string(r.Raw))
	}
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.writing--
	}()
	if m.write != nil {
		m.write(ctx, call, records, done)
		return
	}
	for i := range records {
		done(i, value.Int(int64(i)), nil)
	}
}

func (m *memory) Close(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closes++
	return nil
}

// count returns how often Write was called, and with how many records in all.
func (m *memory) count() (calls, records int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.calls, len(m.got)
}

func (m *memory) String() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return strings.Join(m.got, " ")
}

// sink is a kind that writes to a system in memory.
func sink(m *memory) stream.Sink {
	return stream.Sink{
		Kind: "memory_sink", Summary: "Writes to memory.", Page: node.Page{Example: "- {kind: memory_sink, name: n}\n"},
		Config: schema.Fields(
			schema.String("topic").Default("all").Doc("A topic."),
			schema.Group("sasl", schema.Fields(schema.String("password").Secret().Doc("A password."))).Doc("Credentials."),
		),
		Keys: []string{"partition"},
		Open: func(*node.Init) (stream.Writer, error) { return m, nil },
	}
}

var options = stream.Options{Languages: builtin.Languages(), Language: "cel"}

// serve loads a document with the kind, by the clock of the system, which synctest replaces.
func serve(t testing.TB, s stream.Sink, document string) *flowtest.Flow {
	f := flowtest.New(t, s.Def(options))
	f.Options.Clock = node.SystemClock{}
	f.Load(document)
	return f
}

// expect fails the test if texts differ.
func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestSinkConform(t *testing.T) {
	m := new(memory)
	flowtest.Conform(t, flowtest.Case{
		Kind: "memory_sink", Kinds: []*node.Def{sink(m).Def(options)},
		Changes: func() int {
			_, records := m.count()
			return records
		},
		Document: "- {kind: memory_sink, name: n, answer: receipt, ports: {out: [{name: next}], error: [{name: failed}]}}",
		Payload:  value.String("x"), Allocs: -1, Example: []value.Value{value.Int(1)},
	})
}

// TestSinkRecords shows which payloads are messages, and what is taken of them.
func TestSinkRecords(t *testing.T) {
	f := func(config, payload, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			var seen []string
			m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
				for i, r := range records {
					s := string(r.Raw)
					if r.HasKey {
						s += " key=" + r.Key
					}
					if r.ID != "" {
						s += " id=" + r.ID
					}
					if !r.Header.IsNull() {
						s += " header=" + r.Header.String()
					}
					if !r.Time.IsZero() {
						s += " time=" + r.Time.UTC().Format(time.RFC3339)
					}
					if p, ok := r.Fields.Get("partition"); ok {
						s += " partition=" + p.String()
					}
					seen = append(seen, s+" "+strings.Join(r.Texts, ","))
					done(i, value.Null(), nil)
				}
			}}
			s := sink(m)
			s.Texts = []string{"topic"}
			flow := serve(t, s, "- {kind: memory_sink, name: n"+config+"}")
			if got := flow.SendJSON("n", payload); got != "none" {
				seen = append(seen, got)
			}
			expect(t, config+" "+payload, strings.Join(seen, "; "), want)
		})
	}
	f("", `7`, `7 all`)
	f("", `{"a":1}`, `{"a":1} all`)
	f("", `{"body":{"a":1}}`, `{"a":1} all`)
	f("", `{"body":1,"more":2}`, `{"body":1,"more":2} all`)
	f("", `{"body":1,"key":2,"id":"x","partition":3}`, `1 key=2 id=x partition=3 all`)
	f("", `{"body":1,"key":null,"header":null,"time":null,"id":null}`, `1 all`)
	f("", `{"body":1,"header":{"a":"b","n":1,"l":["x",2],"z":null}}`, `1 header={"a":"b","n":"1","l":["x","2"]} all`)
	f("", `{"body":1,"time":"2030-01-01T00:00:00Z"}`, `1 time=2030-01-01T00:00:00Z all`)
	f("", `{"body":1,"time":"noon"}`, `error: time: must be a time, or a text as in RFC 3339, got string`)
	f("", `{"body":1,"header":[]}`, `error: header: must be a map, got list`)
	f("", `{"body":1,"header":{"a":{}}}`, `error: header.a: must be text, or a list of texts, got map`)
	f("", `[1,{"body":2},[3]]`, `1 all; 2 all; [3] all`)
	f("", `[]`, ``)
	f("", `[1,{"body":1,"time":2},{"body":1,"header":3}]`, "error: message 1: time: must be a time, or a text as in RFC 3339, got integer\nmessage 2: header: must be a map, got integer")
	f(", encode: text", `["a",1,{"b":2}]`, `a all; 1 all; {"b":2} all`)
	f(", encode: raw", `"a"`, `a all`)
	f(", encode: raw", `1`, `error: body: must be text or binary, got integer; encode: json takes any value`)
	f(", topic: 'a.${self.body.c}'", `[{"body":{"c":"x"}},{"body":{"c":2}}]`, `{"c":"x"} a.x; {"c":2} a.2`)
	f(", topic: 'a.${self.c}'", `{"d":2}`, `error: topic: no such key: c`)
}

func TestSinkFindings(t *testing.T) {
	s := sink(&memory{})
	s.Texts, s.Batches = []string{"topic"}, true
	f := flowtest.New(t, s.Def(options))
	check := func(config, want string) {
		t.Helper()
		list := f.Check("- {kind: memory_sink, name: n, " + config + "}")
		got := ""
		for _, d := range list {
			got += d.Path + ": " + d.Msg
		}
		expect(t, config, got, want)
	}
	check("topic: '${a'", `topic: a "${" has no "}"`)
	check("max_in_flight: 0", `max_in_flight: want an integer from 1 to 1000000, got 0`)
	check("batch: {count: 5, bytes: 1KiB, linger: 1s}", ``)
	check("timeout: 0s", `timeout: want a duration such as "5s" from 1ms to 24h0m0s, got 0s`)
}

// TestSinkAnswers shows what packets are answered with.
func TestSinkAnswers(t *testing.T) {
	fail := func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
		for i, r := range records {
			switch text := string(r.Raw); text {
			case `"bad"`:
				done(i, value.Null(), errors.New("refused"))
			case `"panic"`:
				panic("ouch")
			case `"never"`:
			case `"twice"`:
				done(i, value.String("first"), nil)
				done(i, value.String("second"), errors.New("second"))
				done(-1, value.Null(), nil)
				done(len(records), value.Null(), nil)
			case `"lost"`:
				done(i, value.Null(), fmt.Errorf("%w: reset", stream.ErrLost))
			default:
				done(i, value.String("at "+text), nil)
			}
		}
	}
	f := func(answer, payload, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			flow := serve(t, sink(&memory{write: fail}), "- {kind: memory_sink, name: n, timeout: 2s, answer: "+answer+"}")
			began := time.Now()
			expect(t, payload, flow.SendJSON("n", payload), want)
			if took := time.Since(began); took > 3*time.Second {
				t.Errorf("%s took %s", payload, took)
			}
		})
	}
	f("none", `1`, `none`)
	f("receipt", `1`, `"at 1"`)
	f("receipt", `[1,2]`, `["at 1","at 2"]`)
	f("receipt", `[]`, `[]`)
	f("receipt", `"twice"`, `"first"`)
	f("none", `"bad"`, `error: refused`)
	f("none", `[1,"bad",2,"bad"]`, "error: message 1: refused\nmessage 3: refused")
	f("none", `"panic"`, `error: panic in Write: ouch`)
	f("none", `"never"`, `error: not confirmed within 2s`)
	f("none", `[1,"never"]`, `error: not confirmed within 2s`)
	f("none", `"lost"`, `error: connection lost: reset`)
}

// TestSinkErrorPort has the payload in the data of an error.
func TestSinkErrorPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
			for i := range records {
				done(i, value.Null(), stream.ErrLost)
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, ports: {error: [{name: dead}]}}")
		f.Probe("dead").Do(flowtest.None)
		expect(t, "answer", f.SendJSON("n", `{"body":{"a":1}}`), "none")
		e := node.Describe(f.Probe("dead").Payloads()[0].AsError())
		expect(t, "error", fmt.Sprint(e.Status, " ", e.Code, " ", e.Data), `503 lost {"body":{"a":1}}`)
	})
}

// TestSinkLateAnswer ignores what the writer says of a record that was given up, also
// when the memory of its delivery might be in use again.
func TestSinkLateAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var late []func()
		m := &memory{write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
			for i := range records {
				if call == 1 {
					late = append(late, func() { done(i, value.String("late"), nil) })
					continue
				}
				for _, f := range late {
					f()
				}
				done(i, value.String("in time"), nil)
				for _, f := range late {
					f()
				}
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 1s, answer: receipt}")
		expect(t, "first", f.SendJSON("n", `1`), `error: not confirmed within 1s`)
		for range 10 {
			expect(t, "later", f.SendJSON("n", `2`), `"in time"`)
		}
	})
}

// TestSinkBlocked waits for a Write that does not return until its context ends.
func TestSinkBlocked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(ctx context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
			if call == 1 {
				<-ctx.Done()
			}
			for i := range records {
				done(i, value.Null(), ctx.Err())
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 1s}")
		first := f.Start("n", value.Int(1))
		synctest.Wait()
		second := f.Start("n", value.Int(2))
		expect(t, "first", flowtest.Show(first.Response()), `error: not confirmed within 1s`)
		got := flowtest.Show(second.Response())
		if got != "none" && got != `error: not confirmed within 1s` {
			t.Errorf("second: got %s", got)
		}
		expect(t, "third", f.SendJSON("n", `3`), `none`)
	})
}

// TestSinkCancel answers soon when the process ends.
func TestSinkCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(context.Context, int, []stream.Record, func(int, value.Value, error)) {}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 1h}")
		began := time.Now()
		call := f.Start("n", value.Int(1))
		synctest.Wait()
		call.Cancel()
		expect(t, "answer", flowtest.Show(call.Response()), "error: process cancelled: context canceled")
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("the end of a cancelled process took %s", took)
		}
	})
}

// TestSinkConnect tries at the start, goes on in the background, and stops the start if
// the system refuses.
func TestSinkConnect(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{connect: func(context.Context, int) error {
				return &stream.RefusedError{Field: "sasl.password", Err: errors.New("wrong password")}
			}}
			f := flowtest.New(t, sink(m).Def(options))
			f.Options.Clock = node.SystemClock{}
			_, err := f.Apply("- kind: memory_sink\n  name: n\n  sasl:\n    password: secret\n")
			if err == nil || !strings.Contains(err.Error(), "test.yaml:4:15: sasl.password: wrong password") {
				t.Errorf("got %v", err)
			}
			expect(t, "connects, closes", fmt.Sprint(m.connects, m.closes), "1 1")
		})
	})
	t.Run("later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{connect: func(ctx context.Context, attempt int) error {
				switch {
				case attempt == 1: // a black hole
					<-ctx.Done()
					return context.Cause(ctx)
				case attempt < 5:
					return errors.New("refused")
				case attempt == 5:
					panic("ouch")
				}
				return nil
			}}
			began := time.Now()
			f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 4s}")
			if took := time.Since(began); took != 5*time.Second {
				t.Errorf("the start took %s, want 5s", took)
			}
			expect(t, "answer", f.SendJSON("n", `1`), "none")
			expect(t, "connects", fmt.Sprint(m.connects), "6")
			if n := strings.Count(f.Log(), "connecting failed"); n != 5 || strings.Count(f.Log(), "msg=connected ") != 1 {
				t.Errorf("got %d warnings in %s", n, f.Log())
			}
		})
	})
	t.Run("never", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{connect: func(context.Context, int) error { return errors.New("refused") }}
			f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 2s}")
			expect(t, "answer", f.SendJSON("n", `1`), "error: not connected within 2s: refused")
		})
	})
	t.Run("lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{
				connect: func(_ context.Context, attempt int) error {
					if attempt == 2 || attempt == 3 {
						return errors.New("refused")
					}
					return nil
				},
				write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
					for i := range records {
						if call == 1 {
							done(i, value.Null(), stream.ErrLost)
							continue
						}
						done(i, value.Null(), nil)
					}
				},
			}
			f := serve(t, sink(m), "- {kind: memory_sink, name: n}")
			expect(t, "first", f.SendJSON("n", `[1,2,3]`), "error: message 0: connection lost\nmessage 1: connection lost\nmessage 2: connection lost")
			expect(t, "second", f.SendJSON("n", `2`), "none")
			expect(t, "connects", fmt.Sprint(m.connects), "4")
		})
	})
}

// TestSinkBatch sends at a count, at a size and after a time, in order.
func TestSinkBatch(t *testing.T) {
	f := func(batch string, payloads int, wantSizes string, wantTook time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			s := sink(m)
			s.Batches = true
			f := serve(t, s, "- {kind: memory_sink, name: n, batch: "+batch+"}")
			began := time.Now()
			var calls []*flowtest.Call
			for i := range payloads {
				calls = append(calls, f.Start("n", value.Int(int64(1000+i))))
				synctest.Wait()
			}
			for _, c := range calls {
				expect(t, "answer", flowtest.Show(c.Response()), "none")
			}
			expect(t, "sizes of "+batch, fmt.Sprint(m.sizes), wantSizes)
			if took := time.Since(began); took != wantTook {
				t.Errorf("%s took %s, want %s", batch, took, wantTook)
			}
			if !slices.IsSorted(m.got) {
				t.Errorf("%s: out of order: %s", batch, m)
			}
		})
	}
	f("{count: 3, linger: 1s}", 7, "[3 3 1]", time.Second)
	f("{count: 100, bytes: 12, linger: 1s}", 7, "[3 3 1]", time.Second)
	f("{linger: 0s}", 3, "[1 1 1]", 0)
	f("{count: 1}", 2, "[1 1]", 0)
	f("{linger: 10s}", 2, "[2]", 10*time.Second)
}

// TestSinkExpects does not wait for more records than the sources upstream can have in
// flight.
func TestSinkExpects(t *testing.T) {
	f := func(fields string, maxCalls int) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			m := &memory{}
			s := sink(m)
			s.Batches = true
			f := flowtest.New(t, s.Def(options), ticks().Def(options))
			f.Options.Clock = node.SystemClock{}
			f.Load("- {kind: ticks, name: t, " + fields + ", ports: {out: [{name: n, port: in}]}}\n- {kind: memory_sink, name: n, batch: {linger: 1h}, timeout: 2h}")
			synctest.Wait()
			if calls, records := m.count(); calls > maxCalls || (records > 95) != (maxCalls > 0) {
				t.Errorf("%s: got %d calls with %d records, want at most %d", fields, calls, records, maxCalls)
			}
		})
	}
	f("max_in_flight: 10", 20) // the last ones, fewer than 5, may linger
	f("order: total", 100)
	f("batch: {count: 10, linger: 0s}, max_in_flight: 20", 10)
	f("max_in_flight: 256", 0) // all 100 linger
}

// ticks is a source of 100 messages.
func ticks() stream.Source {
	return stream.Source{
		Kind: "ticks", Summary: "Ticks.", Page: node.Page{Example: "- {kind: ticks, name: t}\n"},
		Traits: stream.Traits{Raw: true},
		Ends:   func(schema.Config) bool { return true },
		Open:   func(*node.Init) (stream.Reader, error) { return &ticker{}, nil },
	}
}

type ticker struct{ n int }

func (*ticker) Connect(context.Context, stream.Host) error   { return nil }
func (*ticker) Settle(context.Context, stream.Settled) error { return nil }
func (*ticker) Fields(*stream.Message, *value.MapBuilder)    {}
func (*ticker) Close(context.Context) error                  { return nil }

func (r *ticker) Read(_ context.Context, room stream.Room) ([]stream.Message, error) {
	messages := make([]stream.Message, min(room.Messages, 100-r.n))
	for i := range messages {
		messages[i] = stream.Message{Body: value.Int(int64(r.n)), Offset: int64(r.n)}
		r.n++
	}
	if r.n == 100 {
		return messages, io.EOF
	}
	return messages, nil
}

// TestSinkRoom keeps max_in_flight, with lists that are larger.
func TestSinkRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var open, most atomic.Int64
		m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
			n := open.Add(int64(len(records)))
			most.Store(max(most.Load(), n))
			for i := range records {
				time.AfterFunc(time.Millisecond, func() {
					open.Add(-1)
					done(i, value.Null(), nil)
				})
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, max_in_flight: 5}")
		elems := make([]value.Value, 103)
		for i := range elems {
			elems[i] = value.Int(int64(1000 + i))
		}
		expect(t, "answer", flowtest.Show(f.Send("n", value.List(elems...))), "none")
		if most.Load() > 5 || len(m.got) != 103 || !slices.IsSorted(m.got) {
			t.Errorf("%d in flight, %d written: %s", most.Load(), len(m.got), m)
		}
	})
}

// TestSinkCalls has one call of Write at a time, or several.
func TestSinkCalls(t *testing.T) {
	for _, calls := range []int{1, 4} {
		synctest.Test(t, func(t *testing.T) {
			m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
				<-time.After(time.Second)
				for i := range records {
					done(i, value.Null(), nil)
				}
			}}
			s := sink(m)
			s.Batches, s.Calls = true, calls
			f := serve(t, s, "- {kind: memory_sink, name: n, batch: {count: 10}}")
			began := time.Now()
			expect(t, "answer", flowtest.Show(f.Send("n", value.List(make([]value.Value, 80)...))), "none")
			if took, want := time.Since(began), 8*time.Second/time.Duration(calls); took != want || m.most != calls {
				t.Errorf("%d calls: took %s, want %s; %d at a time", calls, took, want, m.most)
			}
		})
	}
}

// TestSinkReload goes on with one connection under load, and takes another one when the
// settings change; each packet is answered well, and written once.
func TestSinkReload(t *testing.T) {
	m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
		for i := range records {
			if rand.IntN(8) == 0 {
				time.AfterFunc(time.Duration(1+rand.IntN(2000))*time.Microsecond, func() { done(i, value.Null(), nil) })
				continue
			}
			done(i, value.Null(), nil)
		}
	}}
	s := sink(m)
	s.Batches = true
	f := serve(t, s, "- {kind: memory_sink, name: n}")
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var sent, failed atomic.Int64
	for range 8 {
		senders.Go(func() {
			for ctx.Err() == nil {
				resp, ok, err := f.Engine().Run(context.Background(), "n", value.Int(sent.Add(1)))
				if err != nil || !ok && resp.IsError() {
					t.Errorf("got %v, %v", resp, err)
					failed.Add(1)
				}
			}
		})
	}
	for i := range 100 {
		f.Load(fmt.Sprintf("- {kind: memory_sink, name: n}\n- {kind: memory_sink, name: other%d}", i))
	}
	m.mu.Lock()
	connects := m.connects - 100 // of the others
	m.mu.Unlock()
	if connects != 1 {
		t.Errorf("%d connections, want 1", connects)
	}
	for i := range 20 {
		f.Load(fmt.Sprintf("- {kind: memory_sink, name: n, topic: t%d}", i))
	}
	cancel()
	senders.Wait()
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := make(map[string]bool)
	for _, text := range m.got {
		if seen[text] {
			t.Errorf("%s was written twice", text)
		}
		seen[text] = true
	}
	if int64(len(seen)) != sent.Load()-failed.Load() {
		t.Errorf("%d written, %d sent, %d failed", len(seen), sent.Load(), failed.Load())
	}
}

// TestSinkHammer cancels processes, reloads, and has a writer with all faults, while
// lists and single messages come. Each call ends.
func TestSinkHammer(t *testing.T) {
	m := &memory{write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
		if call%97 == 0 {
			panic("ouch")
		}
		for i := range records {
			switch rand.IntN(16) {
			case 0:
				time.AfterFunc(time.Duration(1+rand.IntN(3000))*time.Microsecond, func() { done(i, value.Null(), nil) })
			case 1:
				done(i, value.Null(), errors.New("refused"))
			case 2:
				done(i, value.Null(), stream.ErrLost)
			case 3: // never
			case 4:
				done(i, value.Null(), nil)
				done(i, value.Null(), nil)
			default:
				done(i, value.Null(), nil)
			}
		}
	}}
	s := sink(m)
	s.Calls = 3
	document := "- {kind: memory_sink, name: n, timeout: 20ms, answer: receipt, max_in_flight: 64}"
	f := serve(t, s, document)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var ended atomic.Int64
	for range 16 {
		group.Go(func() {
			for ctx.Err() == nil {
				own, leave := context.WithTimeout(context.Background(), time.Duration(rand.IntN(10_000))*time.Microsecond)
				payload := value.Int(1)
				if rand.IntN(4) == 0 {
					payload = value.List(value.Int(1), value.Int(2), value.Int(3))
				}
				_, _, _ = f.Engine().Run(own, "n", payload)
				leave()
				ended.Add(1)
			}
		})
	}
	for i := 0; i < 40 || ended.Load() < 200; i++ {
		f.Load(document)
	}
	stop()
	group.Wait()
}

// TestSinkClose writes what lingers, and gives up what is not confirmed in time.
func TestSinkClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{}
		s := sink(m)
		s.Batches = true
		f := serve(t, s, "- {kind: memory_sink, name: n, batch: {linger: 1h}, timeout: 2h}")
		call := f.Start("n", value.Int(1))
		synctest.Wait()
		began := time.Now()
		f.Close()
		expect(t, "answer", flowtest.Show(call.Response()), "none")
		if took := time.Since(began); took > time.Second || m.closes != 1 {
			t.Errorf("the end took %s, with %d closes", took, m.closes)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(context.Context, int, []stream.Record, func(int, value.Value, error)) {}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 2h}")
		call := f.Start("n", value.Int(1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := f.Engine().Shutdown(ctx); err != nil {
			t.Error(err)
		}
		if got := flowtest.Show(call.Response()); !strings.HasPrefix(got, "error: ") {
			t.Errorf("got %s", got)
		}
		if took := time.Since(began); took > 2*time.Second {
			t.Errorf("the end took %s", took)
		}
		if m.closes != 1 {
			t.Errorf("%d closes", m.closes)
		}
	})
}

// TestSinkOutage keeps little of the packets that nothing takes.
func TestSinkOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := errors.New("down")
		m := &memory{connect: func(context.Context, int) error { return down }}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n, timeout: 10ms}")
		for range 1000 {
			expect(t, "answer", f.SendJSON("n", `1`), "error: not connected within 10ms: down")
		}
	})
}

// TestSinkHangsUp has a system that accepts connections and loses each.
func TestSinkHangsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(_ context.Context, _ int, records []stream.Record, done func(int, value.Value, error)) {
			for i := range records {
				done(i, value.Null(), stream.ErrLost)
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n}\n")
		for at := time.Now(); time.Since(at) < 10*time.Second; {
			f.Send("n", value.String("x"))
		}
		if m.connects < 4 || m.connects > 12 { // after waits of 50, 100, 200, 400, 800 ms and 1.5 s at least
			t.Errorf("got %d connections in 10 s", m.connects)
		}
	})
}

// TestSinkConnectsSoon has a system that loses each connection, but takes a message before: that
// one is not waited for like one that hangs up.
func TestSinkConnectsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{write: func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
			for i := range records {
				if call%2 == 0 {
					done(i, value.Null(), stream.ErrLost)
				} else {
					done(i, value.Null(), nil)
				}
			}
		}}
		f := serve(t, sink(m), "- {kind: memory_sink, name: n}\n")
		for at := time.Now(); time.Since(at) < 10*time.Second; {
			f.Send("n", value.String("x"))
		}
		if m.connects < 90 {
			t.Errorf("got %d connections in 10 s", m.connects)
		}
	})
}

// TestSinkNotOpen sends a message at the port init, before the sink has opened.
func TestSinkNotOpen(t *testing.T) {
	engine, err := uniflow.New(uniflow.Options{Kinds: append(std.Defs(""), sink(&memory{}).Def(options)), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	document := spec.Document{File: "t.yaml", Data: []byte("- {kind: memory_sink, name: out, ports: {init: [{name: out}]}}\n")}
	if _, err = engine.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{document}}); err == nil || !strings.Contains(err.Error(), "link the port active") {
		t.Errorf("got %v", err)
	}
}
