package core_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

func cacheStoreDoc(driver, source, fields string) string {
	return fmt.Sprintf("- {kind: cache, name: n, key: self.k, store: {driver: %s, source: '%s'%s, ports: {out: [{name: next}]}}\n", driver, source, fields)
}

// TestCacheStore has two programs with one store.
func TestCacheStore(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			_, _, source := servertest.StartStore(t, driver)
			of := func(k string) value.Value { return value.Map(value.Field{Name: "k", Value: value.String(k)}) }
			a, b := program(t, cacheStoreDoc(driver, source, "}")), program(t, cacheStoreDoc(driver, source, "}"))
			calls := 0
			for _, f := range []*flowtest.Flow{a, b} {
				f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
					calls++
					k, _ := pkt.Payload.Get("k")
					switch k.String() {
					case "fails":
						return node.Answer(value.Error(errors.New("down")))
					case "nested":
						return node.Answer(value.List(value.Error(errors.New("down"))))
					}
					return node.Answer(value.List(value.Int(int64(calls)), value.Binary([]byte{0, 255}), value.Time(time.Unix(1e9, 7).UTC()), value.Duration(time.Minute), k))
				})
			}
			first := a.Send("n", of("x"))
			if calls != 1 || first.IsError() {
				t.Fatalf("%d calls, got %s", calls, flowtest.Show(first))
			}
			for range 3 {
				for _, f := range []*flowtest.Flow{a, b} {
					if r := f.Send("n", of("x")); !r.Payload.Equal(first.Payload) || calls != 1 {
						t.Errorf("%d calls, got %s, want %s", calls, flowtest.Show(r), flowtest.Show(first))
					}
				}
			}
			if got := fmt.Sprint(a.Figure("cache_hits_total"), a.Figure("cache_misses_total"), b.Figure("cache_hits_total"), b.Figure("cache_misses_total")); got != "3 1 3 0" {
				t.Errorf("got %s hits and misses", got)
			}
			for _, k := range []string{"fails", "nested"} {
				calls = 0
				a.Send("n", of(k))
				b.Send("n", of(k))
				if calls != 2 {
					t.Errorf("%s: %d calls, want 2", k, calls)
				}
			}

			// Packets of one program wait for one call.
			hold := make(chan struct{})
			a.Probe("next").Do(a.Until(hold, flowtest.Echo))
			before := len(a.Arrivals())
			one, two, three := a.Start("n", of("w")), a.Start("n", of("w")), a.Start("n", of("w"))
			a.Probe("next").Wait(4)
			close(hold)
			for _, c := range []*flowtest.Call{one, two, three} {
				if r := c.Response(); !r.Payload.Equal(of("w")) {
					t.Errorf("got %s", flowtest.Show(r))
				}
			}
			if n := len(a.Arrivals()) - before; n != 1 {
				t.Errorf("%d calls, want 1", n)
			}

			// No answer is there after its time.
			c, d := program(t, cacheStoreDoc(driver, source, "}, ttl: 150ms")), program(t, cacheStoreDoc(driver, source, "}, ttl: 150ms"))
			made := make(map[int64]time.Time)
			for _, f := range []*flowtest.Flow{c, d} {
				f.Probe("next").Do(func(node.Process, node.Packet) node.Result {
					made[int64(len(made))] = time.Now()
					return node.Answer(value.Int(int64(len(made) - 1)))
				})
			}
			for end := time.Now().Add(time.Second); time.Now().Before(end); {
				for _, f := range []*flowtest.Flow{c, d} {
					asked := time.Now()
					n, _ := f.Send("n", of("t")).Payload.AsInt()
					if age := asked.Sub(made[n]); age > 150*time.Millisecond+100*time.Millisecond {
						t.Fatalf("an answer is %v old", age)
					}
				}
			}
			if n := len(made); n < 3 || n > 8 {
				t.Errorf("%d calls, want one for each 150ms", n)
			}
		})
	}
}

// TestCacheStoreUndo has a process that fails after the answer.
func TestCacheStoreUndo(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		t.Run(driver, func(t *testing.T) {
			_, _, source := servertest.StartStore(t, driver)
			doc := `- {kind: pipe, name: p, ports: {"out[0]": [{name: n}], "out[1]": [{name: then}]}}` + "\n" + cacheStoreDoc(driver, source, "}")
			a, b := program(t, doc), program(t, doc)
			of := value.Map(value.Field{Name: "k", Value: value.String("x")})
			seen := ""
			a.Probe("then").Do(func(node.Process, node.Packet) node.Result {
				seen = "kept until the process fails"
				return node.Answer(value.Error(errors.New("rolled back")))
			})
			if r := a.Send("p", of); !r.IsError() || seen == "" {
				t.Fatalf("got %s", flowtest.Show(r))
			}
			b.Probe("next").Do(flowtest.Answer(value.String("made again")))
			if r := b.Send("n", of); r.Payload.String() != "made again" {
				t.Errorf("got %s, want an answer of its own", flowtest.Show(r))
			}
		})
	}
}

// TestCacheStoreOutage kills the store while a packet is on its way.
func TestCacheStoreOutage(t *testing.T) {
	for _, driver := range []string{"redis", "postgres"} {
		for _, rule := range []string{"refuse", "pass"} {
			t.Run(driver+" "+rule, func(t *testing.T) {
				kill, restart, source := servertest.StartStore(t, driver)
				f := program(t, cacheStoreDoc(driver, source, ", unavailable: "+rule+"}"))
				calls := 0
				f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
					if calls++; calls == 1 {
						kill()
					}
					return node.Answer(value.Int(int64(calls)))
				})
				of := value.Map(value.Field{Name: "k", Value: value.String("x")})
				if r := f.Send("n", of); r.IsError() {
					t.Errorf("killed while it is on its way: got %s", flowtest.Show(r))
				}
				for i := range 3 {
					r := f.Send("n", of)
					if rule == "pass" {
						if n, _ := r.Payload.AsInt(); n != int64(i+2) {
							t.Errorf("while the store is away: got %s", flowtest.Show(r))
						}
					} else if e := node.Describe(r.Payload.AsError()); !r.IsError() || e.Status != 503 || !e.Outage {
						t.Errorf("while the store is away: got %s", flowtest.Show(r))
					}
				}
				restart()
				for deadline := time.Now().Add(20 * time.Second); ; {
					one, two := f.Send("n", of), f.Send("n", of)
					if !one.IsError() && one.Payload.Equal(two.Payload) {
						break
					}
					if time.Now().After(deadline) {
						t.Fatal("the store is not used again")
					}
				}
			})
		}
	}
}
