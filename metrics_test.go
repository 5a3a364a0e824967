package uniflow_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func engineWith(t *testing.T, opts uniflow.Options) *uniflow.Engine {
	t.Helper()
	opts.Kinds = std.Defs("cel")
	e, err := uniflow.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return e
}

func document(text string) uniflow.Source {
	return uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(text)}}}
}

const twoSteps = `
- {kind: snippet, name: first, language: cel, code: self + 1, ports: {out: [{name: second, port: in}]}}
- {kind: snippet, name: second, language: cel, code: self * 2}
- {kind: nop}
- {kind: nop}
`

// TestMetricsAcrossReloads goes on counting through reloads: nodes by name, nodes
// without a name by kind. Removed nodes no longer count.
func TestMetricsAcrossReloads(t *testing.T) {
	e := engineWith(t, uniflow.Options{Metrics: true})
	apply := func(text string, want bool) {
		t.Helper()
		list, err := e.Apply(t.Context(), document(text))
		if ok := err == nil && !list.HasErrors(); ok != want {
			t.Fatalf("got %v, %v, want it applied: %v", list, err, want)
		}
	}
	run := func() {
		t.Helper()
		if _, _, err := e.Run(t.Context(), "first", value.Int(1)); err != nil {
			t.Fatal(err)
		}
	}
	packets := func() map[string]uint64 {
		counts := make(map[string]uint64)
		for _, n := range e.Metrics().Nodes {
			if _, twice := counts[n.Kind+" "+n.Name]; twice {
				t.Errorf("got %s %s twice", n.Kind, n.Name)
			}
			counts[n.Kind+" "+n.Name] = n.Packets
		}
		return counts
	}
	apply(twoSteps, true)
	run()
	apply(twoSteps, true)
	run()
	apply("- {kind: nonsense}", false)
	apply(twoSteps, true)
	run()
	m := e.Metrics()
	if m.Started != 3 || m.Ended[observe.Answered] != 3 || m.InFlight != 0 || m.Generation != 3 || m.Reloads != 2 || m.Refused != 1 {
		t.Errorf("got %+v", m)
	}
	if got := packets(); got["snippet first"] != 3 || got["snippet second"] != 3 || len(got) != 3 {
		t.Errorf("got packets %v, want 3 of each snippet, and the nops as one", got)
	}
	apply("- {kind: snippet, name: first, language: cel, code: self}", true)
	run()
	if err := e.Shutdown(t.Context()); err != nil { // which waits for what was replaced
		t.Fatal(err)
	}
	if m := e.Metrics(); m.Started != 4 || len(m.Nodes) != 1 || m.Nodes[0].Packets != 4 {
		t.Errorf("got %d started, nodes %v after shutdown, want 4, and the one that is left", m.Started, m.Nodes)
	}
}

// TestMetricsUnderReload never counts backwards, as a counter must not.
func TestMetricsUnderReload(t *testing.T) {
	e := engineWith(t, uniflow.Options{Metrics: true})
	if list, err := e.Apply(t.Context(), document(twoSteps)); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, _, err := e.Run(t.Context(), "first", value.Int(1)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		defer close(done)
		for range 50 {
			if list, err := e.Apply(t.Context(), document(twoSteps)); err != nil || list.HasErrors() {
				t.Error(list, err)
				return
			}
		}
	})
	var last, lastFirst uint64
	for going := true; going; {
		select {
		case <-done:
			going = false
		default:
		}
		m := e.Metrics()
		ended := m.Ended[observe.Answered]
		if ended < last {
			t.Fatalf("got %d ended after %d", ended, last)
		}
		last = ended
		for _, n := range m.Nodes {
			if n.Name == "first" {
				if n.Packets < lastFirst {
					t.Fatalf("got %d packets after %d", n.Packets, lastFirst)
				}
				lastFirst = n.Packets
			}
		}
	}
	wg.Wait()
	m := e.Metrics()
	if total := m.Ended[observe.Answered]; m.Started != total || lastFirst > total {
		t.Errorf("got %d started, %d ended, %d packets", m.Started, total, lastFirst)
	}
}

// TestTooManyRecorders refuses what the engine could not keep apart.
func TestTooManyRecorders(t *testing.T) {
	if _, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel"), Recorders: make([]observe.Recorder, 65)}); err == nil {
		t.Error("got no error")
	}
}

// TestWatch lets a process be watched from a call until it is released, also after a reload.
func TestWatch(t *testing.T) {
	e := engineWith(t, uniflow.Options{})
	apply := func() {
		t.Helper()
		if list, err := e.Apply(t.Context(), document(twoSteps)); err != nil || list.HasErrors() {
			t.Fatal(list, err)
		}
	}
	run := func() {
		t.Helper()
		if _, _, err := e.Run(t.Context(), "first", value.Int(1)); err != nil {
			t.Fatal(err)
		}
	}
	var received, recorded int
	apply()
	run()
	release, err := e.Watch(&observe.Observer{Received: func(observe.Packet) { received++ }}, &observe.Recorder{Payloads: true, Ended: func(line *observe.Timeline) {
		recorded++
		if !line.Spans[0].Payload.Equal(value.Int(1)) || !line.Spans[1].Payload.Equal(value.Int(2)) || !line.Response.Equal(value.Int(4)) || line.Spans[1].Parent != 0 {
			t.Errorf("got %+v", line)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	run()
	apply()
	run()
	release()
	run()
	if received != 4 || recorded != 2 {
		t.Errorf("got %d packets and %d processes, want 4 and 2", received, recorded)
	}
	for range 32 {
		if _, err = e.Watch(nil, &observe.Recorder{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = e.Watch(nil, &observe.Recorder{}); err == nil {
		t.Error("got no error for one recorder too many")
	}
}

// TestWatchedUnderReload records every process, whatever is attached, taken off
// and replaced meanwhile.
func TestWatchedUnderReload(t *testing.T) {
	var recorded atomic.Uint64
	e := engineWith(t, uniflow.Options{Metrics: true, Recorders: []observe.Recorder{{
		Traces: true,
		Ended: func(line *observe.Timeline) {
			recorded.Add(1)
			if len(line.Spans) != 2 || line.Outcome != observe.Answered {
				t.Errorf("got %+v, want two spans of a process that was answered", line)
			}
		},
	}}})
	if list, err := e.Apply(t.Context(), document(twoSteps)); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	loop := func(f func()) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					f()
				}
			}
		})
	}
	for range 2 {
		loop(func() {
			if got, _, err := e.Run(t.Context(), "first", value.Int(1)); err != nil || !got.Equal(value.Int(4)) {
				t.Errorf("got %v, %v, want 4", got, err)
			}
		})
	}
	loop(func() { e.LabelGoroutines()() })
	var received, late atomic.Uint64
	loop(func() {
		release, err := e.Watch(
			&observe.Observer{Received: func(observe.Packet) { received.Add(1) }},
			&observe.Recorder{Ended: func(*observe.Timeline) { late.Add(1) }})
		if err != nil {
			t.Error(err)
			return
		}
		release()
		release() // does nothing
	})
	for range 30 {
		if list, err := e.Apply(t.Context(), document(twoSteps)); err != nil || list.HasErrors() {
			t.Error(list, err)
		}
	}
	close(done)
	wg.Wait()
	if err := e.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if m := e.Metrics(); m.Started != recorded.Load() || m.Ended[observe.Answered] != m.Started || m.InFlight != 0 {
		t.Errorf("got %d recorded, metrics %+v", recorded.Load(), m)
	}
}
