package dialogue_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func user(name string) value.Value {
	return value.Map(value.Field{Name: "user", Value: value.String(name)})
}

// TestSessionBusy fills the queue of a session, and lets one wait for too long, and one leave.
func TestSessionBusy(t *testing.T) {
	f := newFlow(t)
	f.Load("- {kind: session, name: s, key: self.user, queue: 2, patience: 10s, ports: {out: [{name: work}]}}\n")
	release := make(chan struct{})
	f.Probe("work").Do(f.Until(release, flowtest.Echo))
	first := f.Start("s", user("ann"))
	f.Probe("work").Wait(1)
	left, late := f.Start("s", user("ann")), f.Start("s", user("ann"))
	f.Sleep(time.Second)
	if got := flowtest.Show(f.Send("s", user("ann"))); got != "error: 2 processes wait for this session already" {
		t.Errorf("a queue that is full: got %s", got)
	}
	left.Cancel()
	if got := flowtest.Show(left.Response()); !strings.HasPrefix(got, "error: ") {
		t.Errorf("one that has left: got %s", got)
	}
	f.Sleep(10 * time.Second)
	if got := flowtest.Show(late.Response()); got != "error: another process has had this session for 10s" {
		t.Errorf("one that has waited for too long: got %s", got)
	}
	next := f.Start("s", user("ann"))
	f.Sleep(time.Second)
	close(release)
	for i, call := range []*flowtest.Call{first, next} {
		if resp := call.Response(); resp.IsError() {
			t.Errorf("process %d: got %s", i, flowtest.Show(resp))
		}
	}
	if got := f.Probe("work").Len(); got != 2 {
		t.Errorf("%d processes have had the session, want 2", got)
	}
}

// TestSessionWithin lets a process come to its session again, also in children and in
// parallel branches: it has it already. A forked child has none.
func TestSessionWithin(t *testing.T) {
	f := newFlow(t)
	f.Load(`
- {kind: session, name: s, key: self.user, ports: {out: [{name: again}, {name: again}]}}
- {kind: session, name: again, key: self.user, ports: {out: [{name: note}]}}
- {kind: remember, name: note, append: {n: 1}, ports: {out: [{name: look}]}}
- {kind: recall, name: look, ports: {out: [{name: list}]}}
- {kind: snippet, name: list, language: cel, code: '[{"user": input.user}, {"user": input.user}]', ports: {out: [{name: loop}]}}
- {kind: for, name: loop, ports: {'out[0]': [{name: child}]}}
- {kind: session, name: child, key: self.user, ports: {out: [{name: inner}]}}
- {kind: remember, name: inner, append: {n: 2}, ports: {out: [{name: part}]}}
- {kind: fork, name: part, ports: {out: [{name: later}]}}
- {kind: sleep, name: later, interval: 1s, ports: {out: [{name: forked}]}}
- {kind: recall, name: forked, ports: {error: [{name: failed}]}}
- {kind: session, name: check, key: self.user, ports: {out: [{name: all}]}}
- {kind: recall, name: all}
`)
	if resp := f.Send("s", user("ann")); resp.IsError() {
		t.Fatal(flowtest.Show(resp))
	}
	if got, want := flowtest.Show(f.Send("check", user("ann"))), 6; strings.Count(got, "1")+strings.Count(got, "2") != want {
		t.Errorf("got %s, want %d items in n", got, want)
	}
	f.Sleep(2 * time.Second)
	if got := f.Probe("failed").String(); strings.Count(got, "this process has no session") != 4 {
		t.Errorf("forked processes: got %s", got)
	}
}

// TestSessionConflict lets two engines change one session concurrently: the second fails.
func TestSessionConflict(t *testing.T) {
	for name, fields := range stores(t) {
		if name == "memory" {
			continue // of one engine
		}
		t.Run(name, func(t *testing.T) {
			one, two := newFlow(t), newFlow(t)
			for _, f := range []*flowtest.Flow{one, two} {
				f.Options.Clock = node.SystemClock{}
				f.Load(counter(fields))
			}
			for i := range 2 {
				release := make(chan struct{})
				one.Probe("end").Do(one.Until(release, flowtest.Echo))
				call := one.Start("s", user("ann"))
				one.Probe("end").Wait(2*i + 1)
				if got, want := visits(two, "ann"), fmt.Sprint(2*i+1); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				close(release)
				if got := flowtest.Show(call.Response()); got != "error: save the session: another engine has changed it meanwhile" {
					t.Errorf("got %s", got)
				}
				one.Probe("end").Do(flowtest.Echo)
				if got, want := visits(one, "ann"), fmt.Sprint(2*i+2); got != want {
					t.Errorf("after that: got %s, want %s", got, want)
				}
			}
		})
	}
}

// TestSessionReader renews a session that it has only read, and does not mind that another
// engine has changed it meanwhile.
func TestSessionReader(t *testing.T) {
	for name, fields := range stores(t) {
		if name == "memory" {
			continue // of one engine
		}
		t.Run(name, func(t *testing.T) {
			one, two := newFlow(t), newFlow(t)
			for _, f := range []*flowtest.Flow{one, two} {
				f.Load(counter("ttl: 1h, "+fields) + "- {kind: session, name: read, key: self.user, ttl: 1h, " + fields + ", ports: {out: [{name: look}]}}\n")
			}
			visits(one, "ann")
			one.Sleep(20 * time.Minute)
			release := make(chan struct{})
			one.Probe("look").Do(one.Until(release, flowtest.Answer(value.String("seen"))))
			call := one.Start("read", user("ann"))
			one.Probe("look").Wait(1)
			if got := visits(two, "ann"); got != "2" {
				t.Errorf("got %s, want 2", got)
			}
			close(release)
			if got := flowtest.Show(call.Response()); got != `"seen"` {
				t.Errorf("got %s", got)
			}
			if got := visits(one, "ann"); got != "3" {
				t.Errorf("got %s, want 3", got)
			}
		})
	}
}

// TestSessionCleared ends a session in one engine, while a process of another one has it: it
// is not there again afterwards. One that has expired meanwhile may be.
func TestSessionCleared(t *testing.T) {
	for name, fields := range stores(t) {
		if name == "memory" {
			continue // of one engine
		}
		t.Run(name, func(t *testing.T) {
			const conflict = "error: save the session: another engine has changed it meanwhile"
			one, two := newFlow(t), newFlow(t)
			for _, f := range []*flowtest.Flow{one, two} {
				f.Load(counter("ttl: 1h, "+fields) +
					"- {kind: session, name: read, key: self.user, ttl: 1h, " + fields + ", ports: {out: [{name: look}]}}\n" +
					"- {kind: session, name: leave, key: self.user, ttl: 1h, " + fields + ", ports: {out: [{name: forget}]}}\n- {kind: remember, name: forget, clear: true}\n")
			}
			f := func(node, probe string, age time.Duration, end func(), want, wantVisits string) {
				t.Helper()
				visits(one, "ann")
				one.Sleep(20 * time.Minute)
				release := make(chan struct{})
				one.Probe(probe).Do(one.Until(release, flowtest.Answer(value.String("seen"))))
				seen := one.Probe(probe).Len()
				call := one.Start(node, user("ann"))
				one.Probe(probe).Wait(seen + 1)
				end()
				one.Sleep(age)
				close(release)
				if got := flowtest.Show(call.Response()); got != want {
					t.Errorf("%s: got %s, want %s", node, got, want)
				}
				one.Probe("end").Do(flowtest.Echo)
				if got := visits(one, "ann"); got != wantVisits {
					t.Errorf("%s: got %s visits afterwards, want %s", node, got, wantVisits)
				}
			}
			leave := func() {
				if resp := two.Send("leave", user("ann")); resp.IsError() {
					t.Error(flowtest.Show(resp))
				}
			}
			f("read", "look", 0, leave, `"seen"`, "1")
			f("s", "end", 0, leave, conflict, "1")
			f("s", "end", 2*time.Hour, func() { // another session removes what has expired
				two.Sleep(5 * time.Hour)
				visits(two, "bob")
			}, `"seen"`, "4")
		})
	}
}

// TestSessionCapacity drops the sessions that were not used longest.
func TestSessionCapacity(t *testing.T) {
	f := newFlow(t)
	f.Load(counter("store: {capacity: 2}"))
	for _, step := range []struct{ user, want string }{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"c", "1"}, {"a", "3"}, {"b", "1"}, {"c", "1"}} {
		if got := visits(f, step.user); got != step.want {
			t.Errorf("%s: got %s, want %s", step.user, got, step.want)
		}
	}
}

// TestSessionHammer changes a few sessions by many processes, of which some are cancelled.
func TestSessionHammer(t *testing.T) {
	f := newFlow(t)
	f.Load(counter("queue: 1000"))
	var calls []*flowtest.Call
	for i := range 400 {
		call := f.Start("s", user(fmt.Sprint(i%3)))
		if calls = append(calls, call); i%7 == 0 {
			call.Cancel()
		}
	}
	want := map[string]int{}
	for i, call := range calls {
		if resp := call.Response(); !resp.IsError() {
			want[fmt.Sprint(i%3)]++
		}
	}
	for name, n := range want {
		if got := visits(f, name); got != fmt.Sprint(n+1) {
			t.Errorf("%s: got %s visits, want %d", name, got, n+1)
		}
	}
}
