package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// benchFlow serves a document, and returns what sends payloads to a node n.
func benchFlow(tb testing.TB, document string) (f *flowtest.Flow, send func(value.Value)) {
	tb.Helper()
	f = flowtest.New(tb, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	f.Load(document)
	return f, func(payload value.Value) {
		if _, _, err := f.Engine().Run(tb.Context(), "n", payload); err != nil {
			tb.Fatal(err)
		}
	}
}

// events are payloads of some keys, all of one time.
func events(keys int) []value.Value {
	all := make([]value.Value, keys)
	for i := range all {
		all[i] = value.Map(
			value.Field{Name: "time", Value: value.Time(time.Unix(1_600_000_000, 0))}, value.Field{Name: "key", Value: value.String(fmt.Sprint("page ", i))},
			value.Field{Name: "n", Value: value.Int(int64(i))})
	}
	return all
}

// countWindows counts payloads, by key; windows stay open.
const countWindows = "- {kind: window, name: n, size: 1h, key: self.key, idle: 24h, max: 1000000, ack: early, init: 0, step: acc + 1, ports: {out: [{name: end, port: in}], late: [{name: end, port: in}]}}\n- {kind: nop, name: end}\n"

// openWindows are how many windows are open meanwhile.
var openWindows = []int{1, 1000, 100_000}

// BenchmarkWindow is a process with a payload that is counted in one of the open windows; empty is a process
// without a window.
func BenchmarkWindow(b *testing.B) {
	run := func(name, document string, keys int) {
		b.Run(name, func(b *testing.B) {
			f, send := benchFlow(b, document)
			all := events(keys)
			for _, e := range all {
				send(e)
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				send(all[i%keys])
				i++
			}
			b.StopTimer()
			f.Close()
		})
	}
	run("empty", "- {kind: nop, name: n}\n", 1000)
	for _, open := range openWindows {
		run(fmt.Sprint("open=", open), countWindows, open)
	}
}

// BenchmarkWindowTurn is a process whose payload begins a window, and ends another: of many keys, or of one.
func BenchmarkWindowTurn(b *testing.B) {
	run := func(name, config string, open int, keys int64) {
		b.Run(fmt.Sprint(name, "/open=", open), func(b *testing.B) {
			f, send := benchFlow(b, fmt.Sprintf("- {kind: window, name: n, key: self.key, max: 1000000, ack: early, init: 0, step: acc + 1, "+config+", ports: {out: [{name: end, port: in}]}}\n- {kind: nop, name: end}\n", time.Duration(open)*time.Millisecond))
			at := time.Unix(1_600_000_000, 0)
			i := int64(0)
			next := func() {
				send(value.Map(value.Field{Name: "time", Value: value.Time(at)}, value.Field{Name: "key", Value: value.Int(i % keys)}))
				at = at.Add(time.Millisecond)
				i++
			}
			for range open {
				next()
			}
			b.ReportAllocs()
			for b.Loop() {
				next()
			}
			b.StopTimer()
			if got := f.Figure("window_open"); got < float64(open)-1 || got > float64(open)+1 {
				b.Errorf("%v windows are open", got)
			}
			f.Close()
		})
	}
	for _, open := range openWindows {
		run("sessions", "gap: %s", open, 1_000_000_000)
		run("of one key", "size: 1ms, late: %s", open, 1)
	}
}

// waiting are a window and a join in which packets of one process wait together, 1000 of them; packets are the
// payloads for them.
var waiting = map[string]struct {
	document string
	packets  func() []node.Out
	most     float64 // allocations for a packet
}{
	"window": {"- {kind: source, name: from, ports: {'out[0]': [{name: n, port: in}]}}\n" +
		"- {kind: window, name: n, size: 1h, max: 1000, ports: {out: [{name: end, port: in}], late: [{name: end, port: in}]}}\n- {kind: nop, name: end}\n", func() (all []node.Out) {
		for _, e := range events(1000) {
			all = append(all, node.Out{Payload: e})
		}
		return all
	}, 14},
	"join": {"- {kind: source, name: from, ports: {'out[0]': [{name: n, port: 'in[0]'}], 'out[1]': [{name: n, port: 'in[1]'}]}}\n" +
		"- {kind: join, name: n, keys: {left: self.key, right: self.key}, within: 1h, ports: {'out[0]': [{name: end, port: in}], 'out[1]': [{name: end, port: in}]}}\n- {kind: nop, name: end}\n", func() (all []node.Out) {
		for port := range 2 {
			for _, e := range events(500) {
				all = append(all, node.Out{Port: port, Payload: e})
			}
		}
		return all
	}, 21},
}

// together returns what sends 1000 packets in one process, and waits for their answers.
func together(tb testing.TB, name string) (f *flowtest.Flow, send func()) {
	tb.Helper()
	f, _ = benchFlow(tb, waiting[name].document)
	source, packets := f.Source("from"), waiting[name].packets()
	return f, func() {
		resp := source.Run(tb.Context(), node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		}))
		if resp.IsError() {
			tb.Fatal(resp.Payload.AsError())
		}
	}
}

// BenchmarkWaiting is a packet that waits for its window, or for its partner.
func BenchmarkWaiting(b *testing.B) {
	for name := range waiting {
		b.Run(name, func(b *testing.B) {
			f, send := together(b, name)
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				if n%1000 == 0 {
					send()
				}
				n++
			}
			b.StopTimer()
			f.Close()
		})
	}
}

// BenchmarkWindowMap is the loop by hand: a count in a map.
func BenchmarkWindowMap(b *testing.B) {
	for _, open := range openWindows {
		b.Run(fmt.Sprint("open=", open), func(b *testing.B) {
			type span struct {
				key   string
				start int64
			}
			counts := make(map[span]int)
			all := events(open)
			i := 0
			for b.Loop() {
				key, _ := all[i%open].Get("key")
				at, _ := all[i%open].Get("time")
				t, _ := at.AsTime()
				text, _ := key.AsString()
				counts[span{text, t.Truncate(time.Hour).UnixNano()}]++
				i++
			}
		})
	}
}

// BenchmarkJoinMap is the loop by hand: those that wait are in a map.
func BenchmarkJoinMap(b *testing.B) {
	waits := make(map[string]value.Value)
	packets := waiting["join"].packets()
	i, pairs := 0, 0
	for b.Loop() {
		p := packets[i%1000]
		key, _ := p.Payload.Get("key")
		text, _ := key.AsString()
		if _, ok := waits[text]; ok {
			delete(waits, text)
			pairs++
		} else {
			waits[text] = p.Payload
		}
		i++
	}
}

// TestWindowAllocs bounds what a payload allocates that is counted, however many windows are open.
func TestWindowAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	for _, open := range openWindows {
		f, send := benchFlow(t, countWindows)
		all := events(open)
		for _, e := range all {
			send(e)
		}
		i := 0
		got := testing.AllocsPerRun(1000, func() {
			send(all[i%open])
			i++
		})
		if t.Logf("%d windows: %v", open, got); got > 6 {
			t.Errorf("%d windows: got %v allocations for a payload, want at most 6", open, got)
		}
		f.Close()
	}
}

// TestWaitingAllocs bounds what a packet allocates that waits.
func TestWaitingAllocs(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks allocate, too
	}
	for name, w := range waiting {
		f, send := together(t, name)
		got := testing.AllocsPerRun(20, send) / 1000
		if t.Logf("%s: %v", name, got); got > w.most {
			t.Errorf("%s: got %v allocations for a packet, want at most %v", name, got, w.most)
		}
		f.Close()
	}
}
