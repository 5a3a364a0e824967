package core_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// program loads a document as one of several programs with a store.
func program(t *testing.T, document string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, std.Defs("cel")...)
	f.Options.Clock = node.SystemClock{}
	f.Load(document)
	return f
}

func code(r node.Response) string {
	if !r.IsError() {
		return "passed"
	}
	return node.Describe(r.Payload.AsError()).Code
}

// TestLimitStore has two programs with one store.
func TestLimitStore(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			_, _, source := servertest.StartStore(t, driver)
			doc := func(fields string) string {
				return fmt.Sprintf("- {kind: limit, name: n, key: self.k, %s, store: {driver: %s, source: '%s'}, ports: {out: [{name: next}]}}\n", fields, driver, source)
			}
			of := func(k string) value.Value { return value.Map(value.Field{Name: "k", Value: value.String(k)}) }

			a, b := program(t, doc("rate: 6/h")), program(t, doc("rate: 6/h"))
			var mu sync.Mutex
			got := make(map[string]int)
			var all sync.WaitGroup
			for _, e := range []*flowtest.Flow{a, b} {
				engine := e.Engine()
				for range 8 {
					all.Go(func() {
						for _, k := range []string{"x", "y"} {
							_, _, err := engine.Run(t.Context(), "n", of(k))
							c := "passed " + k
							if err != nil {
								d := node.Describe(err)
								if c = d.Code; d.Status != 429 || d.RetryAfter < 9*time.Minute || d.RetryAfter > 10*time.Minute {
									t.Errorf("got %v (%d, after %v), want 429 and the time to the next token", err, d.Status, d.RetryAfter)
								}
							}
							mu.Lock()
							got[c]++
							mu.Unlock()
						}
					})
				}
			}
			all.Wait()
			if fmt.Sprint(got) != "map[passed x:6 passed y:6 rate:20]" {
				t.Errorf("got %v", got)
			}
			if n := a.Figure("limit_passed_total") + b.Figure("limit_passed_total"); n != 12 {
				t.Errorf("%v have passed, want 12", n)
			}

			a, b = program(t, doc("concurrency: 2")), program(t, doc("concurrency: 2"))
			hold := make(chan struct{})
			a.Probe("next").Do(a.Until(hold, flowtest.Echo))
			b.Probe("next").Do(b.Until(hold, flowtest.Echo))
			first, second := a.Start("n", of("z")), b.Start("n", of("z"))
			a.Probe("next").Wait(1)
			b.Probe("next").Wait(1)
			if n := a.Figure("limit_in_flight") + b.Figure("limit_in_flight"); n != 2 {
				t.Errorf("%v on their way, want 2", n)
			}
			if got := code(a.Send("n", of("z"))) + " " + code(b.Send("n", of("z"))); got != "concurrency concurrency" {
				t.Errorf("got %s", got)
			}
			close(hold)
			first.Response()
			second.Response()
			for range 20 { // who has an answer may send the next to any program
				if got := code(a.Send("n", of("z"))) + " " + code(b.Send("n", of("z"))); got != "passed passed" {
					t.Fatalf("got %s", got)
				}
			}
			a.Probe("next").Do(func(node.Process, node.Packet) node.Result { panic("it fails") })
			a.Send("n", of("z"))
			a.Send("n", of("z"))
			if got := code(b.Send("n", of("z"))); got != "passed" {
				t.Errorf("after processes that failed: got %s", got)
			}
		})
	}
}

// TestLimitStoreOutage kills the store while a packet is on its way.
func TestLimitStoreOutage(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		for _, rule := range []string{"refuse", "pass"} {
			t.Run(driver+" "+rule, func(t *testing.T) {
				kill, restart, source := servertest.StartStore(t, driver)
				f := program(t, fmt.Sprintf("- {kind: limit, name: n, rate: 3/h, concurrency: 5, store: {driver: %s, source: '%s', unavailable: %s}, ports: {out: [{name: next}]}}\n", driver, source, rule))
				if got := code(f.Send("n", value.Int(1))); got != "passed" {
					t.Fatal(got)
				}
				f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
					kill()
					return node.Answer(pkt.Payload)
				})
				if got := code(f.Send("n", value.Int(1))); got != "passed" {
					t.Errorf("killed while it is on its way: got %s", got)
				}
				f.Probe("next").Do(flowtest.Echo)
				for range 5 {
					r := f.Send("n", value.Int(1))
					if rule == "pass" {
						if r.IsError() {
							t.Errorf("while the store is away: got %s", flowtest.Show(r))
						}
					} else if e := node.Describe(r.Payload.AsError()); !r.IsError() || e.Status != 503 || !e.Outage {
						t.Errorf("while the store is away: got %s", flowtest.Show(r))
					}
				}
				if n := f.Figure("limit_unavailable_total"); rule == "pass" != (n == 5) {
					t.Errorf("%v packets have passed without the store", n)
				}
				restart()
				for deadline := time.Now().Add(20 * time.Second); code(f.Send("n", value.Int(1))) != "rate"; {
					if time.Now().After(deadline) {
						t.Fatal("the store is not used again")
					}
				}
			})
		}
	}
}

// TestStoreRefused has stores that do not let the program in, or are not there: the start says so, and shows no password.
func TestStoreRefused(t *testing.T) {
	redis := servertest.StartRedis(t, servertest.RedisOptions{Password: "right"}).Addr()
	_, _, postgres := servertest.StartStore(t, "postgres")
	for _, kind := range []string{"limit, rate: 1", "cache", "publish, topic: a", "subscribe, topic: a"} {
		for _, c := range []struct{ driver, source, want string }{
			{"redis", "redis://:wrong-one@" + redis, "store.source: "},
			{"postgres", strings.Replace(postgres, "/postgres", "/nothing", 1), "nothing"},
		} {
			f := flowtest.New(t, std.Defs("cel")...)
			f.Options.Clock = node.SystemClock{}
			list, err := f.Apply(fmt.Sprintf("- {kind: %s, name: n, store: {driver: %s, source: '%s'}}\n", kind, c.driver, c.source))
			got := fmt.Sprint(list, err)
			if !strings.Contains(got, c.want) || strings.Contains(got, "wrong-one") {
				t.Errorf("%s in %s: got %s, want %s", kind, c.driver, got, c.want)
			}
		}
	}
}
