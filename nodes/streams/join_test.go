package streams_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// sides lead payloads to both in-ports of a join n.
const sides = "- {kind: if, name: side, when: self.side == \"l\", ports: {'out[0]': [{name: n, port: 'in[0]'}], 'out[1]': [{name: n, port: 'in[1]'}]}}\n"

func joinDocument(config, ports string) string {
	return sides + "- {kind: join, name: n, keys: {left: self.id, right: self.id}, within: 10s, " + config + "ports: {" + ports + "}}"
}

// send sends payloads such as l1 and r2, one after the other.
func sendSides(f *flowtest.Flow, texts ...string) (calls []*flowtest.Call) {
	for i, text := range texts {
		calls = append(calls, f.Start("side", value.Map(
			value.Field{Name: "side", Value: value.String(text[:1])}, value.Field{Name: "id", Value: value.String(text[1:])}, value.Field{Name: "n", Value: value.Int(int64(i))})))
		synctest.Wait()
	}
	return calls
}

func TestJoin(t *testing.T) {
	f := func(config, ports string, texts []string, wantPairs, wantSingles, wantAnswers string) {
		t.Helper()
		bubble(t, joinDocument(config, ports), func(t *testing.T, f *flowtest.Flow) {
			f.Probe("pair").Do(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Answer(value.String(sidesOf(pkt.Payload)))
			})
			calls := sendSides(f, texts...)
			expect(t, "answers", answers(calls), wantAnswers)
			got := ""
			for _, p := range f.Probe("pair").Payloads() {
				got += sidesOf(p) + " "
			}
			expect(t, "pairs", got, wantPairs)
			if wantSingles != "" {
				got = ""
				for _, p := range f.Probe("single").Payloads() {
					n, _ := p.Get("n")
					got += n.String() + " "
				}
				expect(t, "singles", got, wantSingles)
			}
			if waits := f.Figure("join_waiting"); waits != 0 {
				t.Errorf("%v wait", waits)
			}
		})
	}
	both := "'out[0]': [{name: pair}], 'out[1]': [{name: single}]"
	one := "'out[0]': [{name: pair}]"
	f("", both, []string{"l1", "r1"}, "0+1 ", "", `"0+1", "0+1"`)
	f("", both, []string{"r1", "l2", "l1", "r2"}, "2+0 1+3 ", "", `"2+0", "1+3", "2+0", "1+3"`)
	f("", both, []string{"l1", "l1", "r1", "r1", "l1"}, "0+2 1+3 ", "4 ", `"0+2", "1+3", "0+2", "1+3", {"side":"l","id":"1","n":4}`)
	f("", one, []string{"l1"}, "", "", "error: no partner has come in time")
	f("mode: left, ", both, []string{"l1", "r2"}, "0+ ", "1 ", `"0+", {"side":"r","id":"2","n":1}`)
	f("max: 2, ", both, []string{"l1", "l2", "l3", "r1"}, "0+3 ", "1 ", `"0+3", {"side":"l","id":"2","n":1}, error: too many payloads wait for a partner, "0+3"`)
}

// sidesOf shows the numbers of a pair.
func sidesOf(pair value.Value) string {
	left, _ := pair.Get("left")
	right, _ := pair.Get("right")
	l, _ := left.Get("n")
	r, _ := right.Get("n")
	text := l.String() + "+"
	if !right.IsNull() {
		text += r.String()
	}
	return text
}

// TestJoinDrain gives back what waits, and pairs it in the next generation.
func TestJoinDrain(t *testing.T) {
	document := joinDocument("", "'out[0]': [{name: pair}], 'out[1]': [{name: single}]")
	bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
		calls := sendSides(f, "l1", "l2")
		calls[1].Cancel()
		expect(t, "left", flowtest.Show(calls[1].Response()), "error: process cancelled: context canceled")
		f.Load(document)
		resp := calls[0].Response()
		if d := node.Describe(resp.Payload.AsError()); d == nil || d.Code != "replaced" || !d.Outage {
			t.Errorf("got %s", flowtest.Show(resp))
		}
		calls = sendSides(f, "r2", "l1", "r1")
		_ = answers(calls[1:])
		expect(t, "pair", sidesOf(f.Probe("pair").Payloads()[0]), "1+2")
		expect(t, "r2 has no partner", flowtest.Show(calls[0].Response()), `{"side":"r","id":"2","n":0}`)
	})
}

// TestJoinModel sends payloads in any order, with clients that leave, pairs that fail and reloads, and tries again what
// has failed: each is in one good pair, as there are as many of each side.
func TestJoinModel(t *testing.T) {
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(31, seed))
		document := joinDocument("", "'out[0]': [{name: pair}]")
		bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
			var mu sync.Mutex
			good := make(map[int64]int)
			f.Probe("pair").Do(func(_ node.Process, pkt node.Packet) node.Result {
				mu.Lock()
				defer mu.Unlock()
				if rnd.IntN(3) == 0 {
					return node.Fail(errors.New("down"))
				}
				for _, side := range []string{"left", "right"} {
					v, _ := pkt.Payload.Get(side)
					n, _ := v.Get("n")
					i, _ := n.AsInt()
					good[i]++
				}
				return node.None()
			})
			const messages = 200
			var group sync.WaitGroup
			for i := range int64(messages) {
				side, key := "l", i/2%7
				if i%2 == 1 {
					side = "r"
				}
				group.Go(func() {
					for try := range 200 {
						_, _, err := f.Engine().Run(t.Context(), "side", value.Map(
							value.Field{Name: "side", Value: value.String(side)}, value.Field{Name: "id", Value: value.Int(key)}, value.Field{Name: "n", Value: value.Int(i)}))
						if err == nil {
							return
						}
						<-time.After(time.Duration(1+try%5) * time.Millisecond)
					}
					t.Errorf("payload %d does not end well", i)
				})
				if i%20 == 0 {
					gone, leave := context.WithCancel(t.Context())
					group.Go(func() {
						_, _, _ = f.Engine().Run(gone, "side", value.Map(value.Field{Name: "side", Value: value.String(side)}, value.Field{Name: "id", Value: value.String("gone")}))
					})
					<-time.After(time.Millisecond)
					leave()
				}
				if i%70 == 69 {
					f.Load(document)
				}
			}
			group.Wait()
			for i := range int64(messages) {
				if good[i] != 1 {
					t.Errorf("seed %d: payload %d is in %d good pairs", seed, i, good[i])
				}
			}
		})
	}
}

// TestOrderKeepsApart warns of a source that sends no two messages of a key at a time to what waits for a second one.
func TestOrderKeepsApart(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	warned := func(order, links, node string) (n int) {
		for _, d := range f.Check("- {kind: generate, name: a, order: " + order + ", max_in_flight: 20000, ports: {out: [" + links + "], error: [{name: x}]}}\n- {kind: nop, name: x}\n- " + node) {
			if strings.Contains(d.Msg, `the source "a" has order: key`) {
				n++
			}
		}
		return n
	}
	for node, links := range map[string]string{
		"{kind: debounce, name: n, quiet: 1s, ports: {out: [{name: x}]}}":                                                               "{name: n, port: in}",
		"{kind: join, name: n, within: 1s, keys: {left: self.a, right: self.b}, ports: {'out[0]': [{name: x}], 'out[1]': [{name: x}]}}": "{name: n, port: 'in[0]'}, {name: n, port: 'in[1]'}",
	} {
		if warned("key", links, node) != 1 || warned("none", links, node) != 0 {
			t.Errorf("%s is not warned of order: key alone", node)
		}
	}
}

func TestDebounce(t *testing.T) {
	f := func(config string, pauses []time.Duration, wantSent, wantAnswers string, wantTook time.Duration) {
		t.Helper()
		bubble(t, "- {kind: debounce, name: n, quiet: 2s, key: self.k, "+config+"ports: {out: [{name: sent}]}}", func(t *testing.T, f *flowtest.Flow) {
			f.Probe("sent").Do(flowtest.Echo)
			began := time.Now()
			var calls []*flowtest.Call
			for i, pause := range pauses {
				<-time.After(pause)
				calls = append(calls, start(f, fmt.Sprintf(`{"k":%d,"n":%d}`, i%2, i))...)
			}
			expect(t, config+"answers", answers(calls), wantAnswers)
			expect(t, config+"sent", f.Probe("sent").String(), wantSent)
			if took := time.Since(began); took != wantTook {
				t.Errorf("%s: took %s, want %s", config, took, wantTook)
			}
		})
	}
	s := time.Second
	four := []time.Duration{0, s / 2, s / 2, s / 2}
	f("", four, `[{"k":0,"n":2},{"k":1,"n":3}]`, `{"k":0,"n":2}, {"k":1,"n":3}, {"k":0,"n":2}, {"k":1,"n":3}`, 3500*time.Millisecond)
	f("keep: first, ", four, `[{"k":0,"n":0},{"k":1,"n":1}]`, `{"k":0,"n":0}, {"k":1,"n":1}, {"k":0,"n":0}, {"k":1,"n":1}`, 3500*time.Millisecond)
	f("keep: list, ", four[:3], `[[{"k":1,"n":1}],[{"k":0,"n":0},{"k":0,"n":2}]]`, `[{"k":0,"n":0},{"k":0,"n":2}], [{"k":1,"n":1}], [{"k":0,"n":0},{"k":0,"n":2}]`, 3*time.Second)
	f("", []time.Duration{0, s / 10, 3 * s}, `[{"k":0,"n":0},{"k":1,"n":1},{"k":0,"n":2}]`, `{"k":0,"n":0}, {"k":1,"n":1}, {"k":0,"n":2}`, 5100*time.Millisecond)
	f("max_wait: 2500ms, ", []time.Duration{0, s, s * 9 / 10}, `[{"k":0,"n":2},{"k":1,"n":1}]`, `{"k":0,"n":2}, {"k":1,"n":1}, {"k":0,"n":2}`, 3*time.Second)
	f("max: 2, ", []time.Duration{0, s / 2, s / 2}, `[{"k":0,"n":0},{"k":1,"n":1},{"k":0,"n":2}]`, `{"k":0,"n":0}, {"k":1,"n":1}, {"k":0,"n":2}`, 3*s)
}

// TestDebounceDrain sends what waits when the workflow is replaced.
func TestDebounceDrain(t *testing.T) {
	const document = "- {kind: debounce, name: n, quiet: 1h, ports: {out: [{name: sent}]}}"
	bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
		calls := start(f, "1", "2", "3")
		calls[2].Cancel()
		_ = calls[2].Response()
		f.Load(document)
		expect(t, "answers", answers(calls[:2]), "2, 2")
		expect(t, "sent", f.Probe("sent").String(), "[2]")
	})
}
