package keep

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/servertest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m, servertest.Stop) }

// An engine is one of several that have one store.
type engine struct {
	t *testing.T
	Store
}

// openers open one place twice: as two engines, where it is a database.
func openers(t *testing.T) map[string]func(*testing.T) [2]engine {
	table := "t" + strings.ToLower(rand.Text()) // it stays when the test runs again
	places := map[string]map[string]string{
		InMemory:   {},
		"sqlite":   {"driver": "sqlite", "source": filepath.Join(t.TempDir(), "db")},
		"redis":    {"driver": "redis", "source": "redis://:secret@" + servertest.StartRedis(t, servertest.RedisOptions{Password: "secret"}).Addr() + "/1"},
		"postgres": {"driver": "postgres", "source": "postgres://postgres@" + servertest.Postgres(t).Addr + "/postgres", "table": table},
	}
	open := make(map[string]func(*testing.T) [2]engine)
	for name, fields := range places {
		open[name] = func(t *testing.T) (both [2]engine) {
			for i := range both {
				if i == 1 && name == InMemory {
					both[1] = both[0]
					break
				}
				var all []value.Field
				for name, text := range fields {
					all = append(all, value.Field{Name: name, Value: value.String(text)})
				}
				cfg, list := Fields("things", "things", ".").Decode(schema.RawOf(value.Map(all...)))
				if err := list.Err(); err != nil {
					t.Fatal(err)
				}
				p, err := New(&node.Init{Pool: new(node.Pool), Clock: node.SystemClock{}, Log: slog.New(slog.DiscardHandler)}, cfg, "things")
				if err != nil {
					t.Fatal(err)
				}
				s, err := p.Open(t.Context(), (*node.Memory)(nil).Account("things"))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := s.Close(); err != nil {
						t.Error(err)
					}
				})
				both[i] = engine{t, s}
			}
			return both
		}
	}
	return open
}

// epoch is whole milliseconds, as databases keep no more.
var epoch = time.UnixMilli(1e12)

func (c engine) load(key string, now time.Time) Kept {
	c.t.Helper()
	k, err := c.Load(c.t.Context(), key, now)
	if err != nil {
		c.t.Fatal(err)
	}
	return k
}

func (c engine) save(key string, k Kept, n int64, until time.Time) error {
	if k.Values, k.Until = value.Null(), until; n != 0 {
		k.Values = value.Map(value.Field{Name: "n", Value: value.Int(n)})
	}
	return c.Save(c.t.Context(), key, k, epoch)
}

func n(k Kept) string {
	v, _ := k.Values.Get("n")
	return fmt.Sprint(v, k.There)
}

// TestStores is what every store does.
func TestStores(t *testing.T) {
	for name, open := range openers(t) {
		t.Run(name, func(t *testing.T) {
			both := open(t)
			a, b := both[0], both[1]
			expect := func(what, got, want string) {
				t.Helper()
				if got != want {
					t.Errorf("%s: got %s, want %s", what, got, want)
				}
			}
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Error(err)
				}
			}
			conflict := func(what string, err error) {
				t.Helper()
				if !errors.Is(err, ErrConflict) {
					t.Errorf("%s: got %v, want a conflict", what, err)
				}
			}
			never := time.Time{}

			fresh := a.load("k", epoch)
			expect("nothing", n(fresh), "null false")
			must(a.save("k", fresh, 1, never))
			expect("what another engine has saved", n(b.load("k", epoch.Add(1e6*time.Hour))), "1 true")
			expect("another key", n(b.load("K", epoch)), "null false")
			conflict("a second first", b.save("k", fresh, 2, never))

			first := a.load("k", epoch)
			must(b.save("k", b.load("k", epoch), 3, epoch.Add(time.Second)))
			conflict("a change of what has changed", a.save("k", first, 4, never))
			conflict("a removal of what has changed", a.save("k", first, 0, never))
			expect("after conflicts", n(a.load("k", epoch)), "3 true")
			if k := a.load("k", epoch); !k.Until.Equal(epoch.Add(time.Second)) {
				t.Errorf("it is kept until %v", k.Until)
			}

			expired := a.load("k", epoch.Add(time.Second))
			expect("expired", n(expired), "null false")
			must(a.Save(t.Context(), "k", Kept{expired.Stamp, value.Map(value.Field{Name: "n", Value: value.Int(5)})}, epoch.Add(time.Second)))
			expect("in place of what has expired", n(b.load("k", epoch)), "5 true")

			must(b.save("k", b.load("k", epoch), 0, never))
			expect("removed", n(a.load("k", epoch)), "null false")
			must(b.save("k", b.load("k", epoch), 0, never))
			if name != InMemory { // see Memory
				conflict("a change of what was removed", a.save("k", first, 6, never))
			}
		})
	}
}

// TestOneWins has engines that claim one key concurrently: one of them has it.
func TestOneWins(t *testing.T) {
	for name, open := range openers(t) {
		t.Run(name, func(t *testing.T) {
			both := open(t)
			for round := range 20 {
				key := fmt.Sprint("round", round)
				won := make([]error, 8)
				var all sync.WaitGroup
				for i := range won {
					all.Go(func() {
						c := both[i%2]
						k, err := c.Load(t.Context(), key, epoch)
						if err == nil && !k.There {
							err = c.save(key, k, int64(i+1), time.Time{})
						} else if err == nil {
							err = ErrConflict
						}
						won[i] = err
					})
				}
				all.Wait()
				winner := 0
				for i, err := range won {
					switch {
					case err == nil && winner == 0:
						winner = i + 1
					case err == nil:
						t.Fatalf("%d and %d have won", winner, i+1)
					case !errors.Is(err, ErrConflict):
						t.Fatal(err)
					}
				}
				if got := n(both[0].load(key, epoch)); got != fmt.Sprint(winner, " true") {
					t.Fatalf("%d has won, and there is %s", winner, got)
				}
			}
		})
	}
}
