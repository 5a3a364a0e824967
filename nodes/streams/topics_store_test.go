package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// topicsProgram is one of several programs with a store.
func topicsProgram(t *testing.T, driver, source, more string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("cel")...)
	f.Options.Clock = node.SystemClock{}
	f.Load(strings.NewReplacer("STORE", fmt.Sprintf("store: {driver: %s, source: '%s'%s}", driver, source, more)).Replace(
		"- {kind: publish, name: tell, topic: 'room.${self.room}', STORE}\n" +
			"- {kind: subscribe, name: live, topic: 'room.${self}', buffer: 5000, STORE, ports: {out: [{name: next}]}}\n" +
			"- {kind: subscribe, name: brief, topic: 'room.${self}', lifetime: 1ms, STORE, ports: {out: [{name: next}]}}\n" +
			"- {kind: subscribe, name: alone, topic: 'room.${self}', ports: {out: [{name: other}]}}\n"))
	return f
}

// until waits for what a program does by itself.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it does not happen", what)
		}
	}
}

func post(room string, n int, body value.Value) value.Value {
	return value.Map(value.Field{Name: "room", Value: value.String(room)}, value.Field{Name: "n", Value: value.Int(int64(n))}, value.Field{Name: "body", Value: body})
}

// TestTopicsStore publishes in two programs that share their topics.
func TestTopicsStore(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			_, _, source := servertest.StartStore(t, driver)
			a, b := topicsProgram(t, driver, source, ""), topicsProgram(t, driver, source, "")
			for _, f := range []*flowtest.Flow{a, b} {
				f.Start("live", value.String("x"))
				f.Start("alone", value.String("x"))
				until(t, "subscribed", func() bool { return f.Figure("subscribe_subscriptions") == 2 })
			}
			bodies := []value.Value{
				value.Null(), value.String(""), value.Binary([]byte{0, 255, 7}), value.String(strings.Repeat("é", 4_000)), value.Time(time.Unix(1e9, 5).UTC()),
				value.List(value.Error(errors.New("what it says"))), value.String(strings.Repeat("a", 5_900)), value.Binary(make([]byte, 1<<20)),
			}
			const each = 60
			for n := range each {
				for _, f := range []*flowtest.Flow{a, b} {
					expect(t, "the answer", flowtest.Show(f.Send("tell", post("x", n, bodies[n%len(bodies)]))), `{"subscriptions":1}`)
				}
				a.Send("tell", post("nowhere", n, value.Null()))
			}
			for _, f := range []*flowtest.Flow{a, b} {
				f.Probe("next").Wait(2 * each)
				count := make(map[int64]int)
				for _, v := range f.Probe("next").Payloads() {
					n, _ := v.Get("n")
					i, _ := n.AsInt()
					count[i]++
					body, _ := v.Get("body")
					want := bodies[int(i)%len(bodies)]
					if flowtest.Show(node.Response{Payload: body}) != flowtest.Show(node.Response{Payload: want}) {
						t.Fatalf("message %d is another one", i)
					}
				}
				if len(count) != each {
					t.Errorf("%d messages, want %d", len(count), each)
				}
				for i, n := range count {
					if n != 2 {
						t.Errorf("message %d has come %d times, want once from each program", i, n)
					}
				}
				if n := f.Probe("other").Len(); n != 0 {
					t.Errorf("%d payloads at a subscription without a store", n)
				}
			}
		})
	}
}

// TestTopicsStoreOrder has what one program has published come in order.
func TestTopicsStoreOrder(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			_, _, source := servertest.StartStore(t, driver)
			a, b := topicsProgram(t, driver, source, ""), topicsProgram(t, driver, source, "")
			b.Start("live", value.String("x"))
			until(t, "subscribed", func() bool { return b.Figure("subscribe_subscriptions") == 1 })
			for n := range 200 {
				a.Send("tell", post("x", n, value.String(strings.Repeat("a", n%7*2_000))))
			}
			b.Probe("next").Wait(200)
			for i, v := range b.Probe("next").Payloads() {
				if n, _ := v.Get("n"); !n.Equal(value.Int(int64(i))) {
					t.Fatalf("got message %s at %d", n, i)
				}
			}
		})
	}
}

// TestTopicsStoreOutage kills the store and starts it again.
func TestTopicsStoreOutage(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		for _, rule := range []string{"refuse", "pass"} {
			t.Run(driver+" "+rule, func(t *testing.T) {
				kill, restart, source := servertest.StartStore(t, driver)
				a, b := topicsProgram(t, driver, source, ", unavailable: "+rule), topicsProgram(t, driver, source, ", unavailable: "+rule)
				a.Start("live", value.String("x"))
				b.Start("live", value.String("x"))
				for _, f := range []*flowtest.Flow{a, b} {
					until(t, "subscribed", func() bool { return f.Figure("subscribe_subscriptions") == 1 })
				}
				a.Send("tell", post("x", 1, value.Null()))
				b.Probe("next").Wait(1)
				kill()
				for range 3 {
					r := a.Send("tell", post("x", 2, value.Null()))
					if rule == "pass" {
						expect(t, "while the store is away", flowtest.Show(r), `{"subscriptions":1}`)
					} else if e := node.Describe(r.Payload.AsError()); !r.IsError() || e.Status != 503 || !e.Outage {
						t.Errorf("while the store is away: got %s", flowtest.Show(r))
					}
				}
				if rule == "refuse" { // soon it is known that messages of others do not come
					until(t, "a subscription is refused", func() bool { return a.Send("brief", value.String("y")).IsError() })
				} else if r := a.Send("brief", value.String("y")); r.IsError() {
					t.Errorf("subscribed while the store is away: got %s", flowtest.Show(r))
				}
				restart()
				n := 10
				until(t, "a message comes again", func() bool {
					n++
					a.Send("tell", post("x", n, value.Null()))
					return b.Probe("next").Len() > 1
				})
			})
		}
	}
}
