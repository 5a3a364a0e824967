package schedule_test

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/schedule"
)

// A program is one life of a program with a schedule, over a journal that outlives it.
type program struct {
	*flowtest.Flow
	clock *leaping
}

// begin starts a program at a time.
func begin(t *testing.T, at string, store journal.Store) *program {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	p := &program{flowtest.New(t, schedule.Defs()...), &leaping{Fake: clock.New(now)}}
	p.Options.Clock, p.Options.Metrics, p.Options.Journal, p.Options.Grace = p.clock, true, store, time.Second
	p.clock.Begin()
	p.Engine()
	return p
}

func (p *program) end() {
	p.Close() // while the clock stands still: nothing more is due
	p.clock.End()
	p.clock.Close()
}

// after lets some time pass, and returns the ticks of that program.
func (p *program) after(d time.Duration) string {
	p.Sleep(d + moment)
	all := strings.Fields(got(p.Flow))
	slices.Sort(all) // several run concurrently
	return strings.Join(all, " ")
}

// ended lets time pass until so many ticks have come and no run is under way: commits take real time.
func (p *program) ended(t *testing.T, ticks int) string {
	t.Helper()
	for t.Context().Err() == nil {
		all := p.after(time.Microsecond)
		runs, err := p.Options.Journal.List(t.Context(), journal.Filter{States: []journal.State{journal.Running}})
		if err != nil {
			t.Fatal(err)
		}
		if len(strings.Fields(all)) >= ticks && len(runs) == 0 {
			return all
		}
	}
	t.Fatalf("got %s, want %d ticks", got(p.Flow), ticks)
	return ""
}

const durable = ", durability: checkpoint"

// TestCatchUp checks which ticks are made up for that were due while the program was down.
func TestCatchUp(t *testing.T) {
	f := func(fields, jitter, want string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "runs.db")
		open := func() journal.Store {
			s, err := sqlite.Open(file, sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		document := func(more string) string { return doc("cron: '0 * * * *', overlap: allow" + durable + fields + more) }
		p := begin(t, "2026-03-01T11:59:00Z", open())
		p.Load(document(""))
		p.Sleep(time.Minute)
		if got := p.ended(t, 1); got != "2026-03-01T12:00:00Z" {
			t.Errorf("%s: before the restart: got %s", fields, got)
		}
		p.end()
		for range 2 { // a second restart finds nothing to make up for
			p = begin(t, "2026-03-01T15:30:00Z", open())
			p.Load(document(jitter))
			p.Sleep(time.Minute)
			if got := p.ended(t, len(strings.Fields(want))); got != want {
				t.Errorf("%s: got %q, want %q", fields, got, want)
			}
			p.end()
			want = ""
		}
	}
	f("", "", "")
	f(", catch_up: none", "", "")
	f(", catch_up: last", ", jitter: 20m", "2026-03-01T15:00:00Z")
	f(", catch_up: all", ", jitter: 20m", "2026-03-01T13:00:00Z 2026-03-01T14:00:00Z 2026-03-01T15:00:00Z")
}

// TestCatchUpIsBounded checks that at most 100 ticks are made up for, the latest, and that overlap applies to them.
func TestCatchUpIsBounded(t *testing.T) {
	f := func(fields string, ticks int, first string) {
		t.Helper()
		store := memory.New()
		p := begin(t, "2026-03-01T12:00:00Z", store)
		p.Load(doc(fields + durable + ", catch_up: all"))
		p.Sleep(time.Minute)
		p.ended(t, 1)
		p.end()
		p = begin(t, "2026-06-01T12:00:30.5Z", store.Reopen())
		p.Load(doc(fields + durable + ", catch_up: all"))
		all := strings.Fields(p.ended(t, ticks))
		if len(all) != ticks || all[0] != first {
			t.Errorf("%s: got %d ticks, want %d, the first %s: %.60q", fields, len(all), ticks, first, all)
		}
		p.end()
	}
	f("cron: '* * * * *', overlap: allow", 100, "2026-06-01T10:21:00Z")
	f("interval: 1m, overlap: queue", 100, "2026-06-01T10:21:00Z")
	f("cron: '* * * * *', overlap: skip", 1, "2026-06-01T10:21:00Z")
}

// TestTickOnce checks that a clock that jumps makes no tick run twice, and no storm of ticks.
func TestTickOnce(t *testing.T) {
	store := memory.New()
	p := begin(t, "2026-03-01T12:00:00Z", store)
	defer p.end()
	p.Load(doc("cron: '0 * * * *', overlap: allow, catch_up: all" + durable))
	want := "2026-03-01T13:00:00Z 2026-03-01T14:00:00Z"
	p.Sleep(2 * time.Hour)
	if got := p.ended(t, 2); got != want {
		t.Fatalf("got %s", got)
	}
	p.clock.leap(-2 * time.Hour) // set back: both are due again
	if got := p.after(2 * time.Hour); got != want {
		t.Errorf("after the clock was set back: got %s", got)
	}
	p.clock.leap(1000 * time.Hour)
	p.Sleep(2 * time.Minute)
	if got := strings.Fields(p.ended(t, 102)); len(got) != 102 {
		t.Errorf("after the clock was set forward: got %d ticks, want 2 and 100", len(got))
	}
}

// TestOtherPlan checks that ticks of a plan that has changed are not made up for.
func TestOtherPlan(t *testing.T) {
	store := memory.New()
	p := begin(t, "2026-03-01T12:00:00Z", store)
	p.Load(doc("cron: '0 * * * *', catch_up: all" + durable))
	p.Sleep(time.Hour)
	p.ended(t, 1)
	p.end()
	p = begin(t, "2026-03-01T15:30:00Z", store.Reopen())
	defer p.end()
	p.Load(doc("cron: '*/5 * * * *', catch_up: all, overlap: allow" + durable))
	if got := p.after(0); got != "" {
		t.Errorf("got %s", got)
	}
}

// A lameStore commits nothing once it has crashed.
type lameStore struct {
	*memory.Store
	crashed atomic.Bool
}

func (s *lameStore) Commit(ctx context.Context, b *journal.Batch) error {
	if s.crashed.Load() {
		return errors.New("the program has crashed")
	}
	return s.Store.Commit(ctx, b)
}

// TestTickWaits checks that a tick whose start the journal cannot take is made up for by the next program.
func TestTickWaits(t *testing.T) {
	store := &lameStore{Store: memory.New()}
	p := begin(t, "2026-03-01T11:59:00Z", store)
	document := doc("cron: '0 * * * *', catch_up: last" + durable)
	p.Load(document)
	p.Sleep(time.Minute)
	if got := p.ended(t, 1); got != "2026-03-01T12:00:00Z" {
		t.Fatalf("got %s", got)
	}
	store.crashed.Store(true)
	if got := p.after(time.Hour); got != "2026-03-01T12:00:00Z" {
		t.Errorf("without a journal: got %s", got)
	}
	p.end()
	p = begin(t, "2026-03-01T13:30:00Z", store.Reopen())
	defer p.end()
	p.Load(document)
	if got := p.ended(t, 1); got != "2026-03-01T13:00:00Z" {
		t.Errorf("after the restart: got %s", got)
	}
}

// TestDurableOverlap checks that a run that is under way counts for overlap.
func TestDurableOverlap(t *testing.T) {
	p := begin(t, "2026-03-01T12:00:00Z", memory.New())
	defer p.end()
	ended := make(chan struct{})
	p.Probe("job").Do(func(node.Process, node.Packet) node.Result {
		return node.Block(func(ctx context.Context) node.Result {
			if err := p.clock.Wait(ctx, ended); err != nil {
				return node.Fail(err)
			}
			return node.None()
		})
	})
	p.Load(doc("interval: 1m, overlap: queue" + durable))
	p.Sleep(3 * time.Minute)
	for p.Probe("job").Len() == 0 && t.Context().Err() == nil { // its commit takes real time
		p.Sleep(time.Microsecond)
	}
	if got := p.after(0); got != "2026-03-01T12:01:00Z" {
		t.Errorf("got %s, want the others to wait", got)
	}
	figures(t, p.Flow, "ticks=1 running=1 queued=2")
	close(ended)
	if got := len(strings.Fields(p.ended(t, 3))); got != 3 {
		t.Errorf("got %d ticks after the end, want 3", got)
	}
}

// TestDurableRefused checks what is refused.
func TestDurableRefused(t *testing.T) {
	p := begin(t, "2026-03-01T12:00:00Z", memory.New())
	defer p.end()
	list, err := p.Apply(doc("interval: 1m, catch_up: last"))
	if err != nil || !strings.Contains(list.Error(), "without durability") {
		t.Errorf("got %v, %v", list, err)
	}
	f := flow(t, "2026-03-01T12:00:00Z")
	if list, err := f.Apply(doc("interval: 1m" + durable)); !strings.Contains(errors.Join(err, list.Err()).Error(), "--journal") {
		t.Errorf("got %v, %v", list, err)
	}
}
