package keep

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// limiters open one store twice, as two engines.
func limiters(t *testing.T) map[string][2]Limiter {
	table := "t" + strings.ToLower(rand.Text())
	all := make(map[string][2]Limiter)
	for driver, source := range map[string]string{"redis": "redis://" + servertest.StartRedis(t, servertest.RedisOptions{}).Addr(), "postgres": servertest.Postgres(t).PostgresURL()} {
		var both [2]Limiter
		for i := range both {
			cfg, list := SharedFields("limits", ".", "passes").Decode(schema.RawOf(value.Map(value.Field{Name: "driver", Value: value.String(driver)},
				value.Field{Name: "source", Value: value.String(source)}, value.Field{Name: "table", Value: value.String(table)})))
			if err := list.Err(); err != nil {
				t.Fatal(err)
			}
			p, err := New(&node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler)}, cfg, "limits")
			if err == nil {
				both[i], err = p.OpenLimiter(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := both[i].Close(); err != nil {
					t.Error(err)
				}
			})
		}
		all[driver] = both
	}
	return all
}

// TestLimiterRate has engines that take tokens concurrently, as fast as they can. In no window do more pass than its
// time allows, and a refusal says when there is a token.
func TestLimiterRate(t *testing.T) {
	for name, both := range limiters(t) {
		for _, q := range []Quota{{Rate: 40, Burst: 1}, {Rate: 100, Burst: 20}, {Rate: 3, Burst: 50}, {Rate: 50_000, Burst: 10}} {
			t.Run(fmt.Sprintf("%s %v", name, q), func(t *testing.T) {
				type pass struct{ from, to time.Time } // when it was decided
				var mu sync.Mutex
				var passes []pass
				var all sync.WaitGroup
				key, end := rand.Text(), time.Now().Add(500*time.Millisecond)
				for i := range 6 {
					all.Go(func() {
						for from := time.Now(); from.Before(end); from = time.Now() {
							wait, err := both[i%2].Take(t.Context(), key, "", q)
							to := time.Now()
							if err != nil || wait < 0 {
								t.Errorf("got %v, %v", wait, err)
								return
							}
							if most := time.Duration(float64(time.Second)/q.Rate)*time.Duration(7) + time.Millisecond; wait > most {
								t.Errorf("wait for %v, want at most %v", wait, most)
							}
							if wait == 0 {
								mu.Lock()
								passes = append(passes, pass{from, to})
								mu.Unlock()
							}
						}
					})
				}
				all.Wait()
				for i, a := range passes {
					for _, b := range passes[i:] {
						n := 0
						from, to := min(a.from.UnixNano(), b.from.UnixNano()), max(a.to.UnixNano(), b.to.UnixNano())
						if len(passes) > 400 && i%50 != 0 { // all windows of many would take long
							continue
						}
						for _, p := range passes {
							if p.from.UnixNano() >= from && p.to.UnixNano() <= to {
								n++
							}
						}
						if most := float64(q.Burst) + q.Rate*float64(to-from)/1e9 + 1e-6; float64(n) > most {
							t.Fatalf("%d passed in %v, want at most %.1f", n, time.Duration(to-from), most)
						}
					}
				}
				if least := min(float64(q.Burst), 1); float64(len(passes)) < least {
					t.Errorf("%d passed", len(passes))
				}
				t.Logf("%d passed", len(passes))
			})
		}
	}
}

// TestLimiterLeases has as many leases as there may be, and a rate with them.
func TestLimiterLeases(t *testing.T) {
	for name, both := range limiters(t) {
		t.Run(name, func(t *testing.T) {
			q := Quota{Concurrency: 2}
			take := func(i int, key, lease string, q Quota) time.Duration {
				t.Helper()
				wait, err := both[i].Take(t.Context(), key, lease, q)
				if err != nil {
					t.Fatal(err)
				}
				return wait
			}
			if take(0, "k", "a", q) != 0 || take(1, "k", "b", q) != 0 {
				t.Fatal("two do not pass")
			}
			if take(0, "k", "c", q) != Crowded || take(1, "k", "c", q) != Crowded {
				t.Error("three pass")
			}
			if take(0, "other", "c", q) != 0 {
				t.Error("another key does not pass")
			}
			if err := both[0].Renew(t.Context(), map[string]string{"a": "k", "gone": "k", "x": "nothing"}); err != nil {
				t.Error(err)
			}
			if take(0, "k", "c", q) != Crowded {
				t.Error("a renewal has made room")
			}
			if err := both[1].Release(t.Context(), "k", "a"); err != nil { // any engine
				t.Error(err)
			}
			if take(0, "k", "c", q) != 0 || take(1, "k", "d", q) != Crowded {
				t.Error("want room for one")
			}

			q = Quota{Rate: 1.0 / 3600, Burst: 2, Concurrency: 1}
			if take(0, "both", "a", q) != 0 || take(1, "both", "b", q) != Crowded {
				t.Error("want one lease")
			}
			both[0].Release(t.Context(), "both", "a")
			if take(1, "both", "b", q) != 0 {
				t.Error("a refusal has taken a token")
			}
			both[0].Release(t.Context(), "both", "b")
			if wait := take(0, "both", "c", q); wait < 59*time.Minute || wait > time.Hour {
				t.Errorf("got %v, want an hour", wait)
			}
		})
	}
}
