package batch

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A testIntake is an intake that records the calls of its environment.
type testIntake struct {
	*intake
	full   chan struct{} // if not nil, there is no room
	passed []string      // the events of each chunk that was passed on
	calls  []string
}

func newTestIntake(s settings) *testIntake {
	s.sep, s.largest, s.epoch = s.format.separator(), 20, 7
	if s.laneCount == 0 {
		s.laneCount, s.laneShards = 1, 1
	}
	s.log = newThrottledLogger(slog.New(slog.DiscardHandler))
	g := &testIntake{}
	s.onDrop = func(d Dropped) { g.calls = append(g.calls, fmt.Sprintf("dropped %s %v", join(d.Events), d.Reason)) }
	lanes := make([]*lane, s.laneCount)
	for i := range lanes {
		lanes[i] = &lane{id: i}
	}
	s.chunkEvents, s.chunkBytes = 4, 12
	g.intake = newIntake(&s, lanes, newArenas(4, 12), intakeEnv{
		reserve: func(*chunk) <-chan struct{} { return g.full },
		enqueue: func(c *chunk, n int) {
			c.n = n
			g.passed = append(g.passed, fmt.Sprintf("%d:%d:%s", c.lane.id, c.base, c.arena.buf))
		},
		unsaved: func() { g.calls = append(g.calls, "unsaved") },
		dropped: func() { g.calls = append(g.calls, "counted") },
	})
	return g
}

// put adds an event that is its own encoding.
func (g *testIntake) put(key uint64, event string) (Ticket, bool, error) {
	s := g.lock(key)
	defer s.mu.Unlock()
	if s.mu.open == nil {
		if room, err := g.begin(s); s.mu.open == nil {
			return Ticket{}, room != nil, err
		}
	}
	t, room, err := g.add(s, append(s.mu.open.arena.buf, event...), nil, true)
	return t, room != nil, err
}

func (g *testIntake) accept(t *testing.T, events ...string) {
	t.Helper()
	for _, e := range events {
		if _, full, err := g.put(0, e); full || err != nil {
			t.Fatalf("%q: full %v, %v", e, full, err)
		}
	}
}

func (g *testIntake) wantPassed(t *testing.T, chunks ...string) {
	t.Helper()
	if !slices.Equal(g.passed, chunks) {
		t.Errorf("passed on %q, want %q", g.passed, chunks)
	}
	g.passed = nil
}

// TestIntakeChunks passes a chunk on when it has all its events, when the next event does
// not fit, and when the next one would probably not.
func TestIntakeChunks(t *testing.T) {
	g := newTestIntake(settings{})
	g.accept(t, "a", "b", "c", "d")
	g.wantPassed(t, "0:0:a\nb\nc\nd\n")
	g.accept(t, "1234", "1234567")
	g.wantPassed(t, "0:4:1234\n", "0:5:1234567\n")
	g.accept(t, "a large event 123")                   // one of its own
	g.wantPassed(t, "0:6:", "0:6:a large event 123\n") // the chunk for an event of usual size stays empty
	g.accept(t, "x")
	g.sealLane(0, false)
	g.sealLane(0, false) // nothing is open
	g.wantPassed(t, "0:7:x\n")
	if n := g.accepted(0); n != 8 {
		t.Errorf("%d events accepted, want 8", n)
	}
}

func TestIntakeRefuses(t *testing.T) {
	g := newTestIntake(settings{})
	g.accept(t, "a")
	f := func(encode func(dst []byte) ([]byte, error), want error, text string) {
		t.Helper()
		s := g.lock(0)
		defer s.mu.Unlock()
		buf, failed := encode(s.mu.open.arena.buf)
		if _, _, err := g.add(s, buf, failed, false); !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want %v: %s", err, want, text)
		}
	}
	f(func(dst []byte) ([]byte, error) { return append(dst, "half"...), errAway }, ErrEncode, "away")
	f(func(dst []byte) ([]byte, error) { return append(dst, "half"...), errAway }, errAway, "")
	f(func(dst []byte) ([]byte, error) { return dst, nil }, ErrEncode, "nothing was appended")
	f(func(dst []byte) ([]byte, error) { return append(dst, "a\nb"...), nil }, ErrEncode, "newline")
	f(func([]byte) ([]byte, error) { return []byte("without dst"), nil }, ErrEncode, "not appended to dst")
	f(func(dst []byte) ([]byte, error) { return append(dst, strings.Repeat("x", 20)...), nil }, ErrTooLarge, "20 bytes, the limit is 19")
	g.accept(t, "b")
	g.close()
	g.wantPassed(t, "0:0:a\nb\n") // nothing of what was refused
	if n := g.rejected.Load(); n != 6 {
		t.Errorf("%d rejected, want 6", n)
	}
}

// TestIntakeNoRoom accepts nothing while there is no room for a chunk, and loses nothing.
func TestIntakeNoRoom(t *testing.T) {
	g := newTestIntake(settings{})
	g.accept(t, "a")
	g.full = make(chan struct{})
	g.accept(t, "b") // the open chunk has room
	if _, full, err := g.put(0, "too long now"); !full || err != nil {
		t.Errorf("full %v, %v", full, err)
	}
	if _, full, err := g.put(0, "c"); !full || err != nil {
		t.Errorf("full %v, %v", full, err)
	}
	g.wantPassed(t, "0:0:a\nb\n")
	g.full = nil
	g.accept(t, "c")
	g.close()
	g.wantPassed(t, "0:2:c\n")
}

func TestIntakeClosed(t *testing.T) {
	g := newTestIntake(settings{})
	g.close()
	if _, _, err := g.put(0, "a"); err != ErrClosed {
		t.Errorf("got %v, want ErrClosed", err)
	}
	if err := g.dropNewest(0, []byte("a"), nil); err != ErrClosed || len(g.calls) > 0 {
		t.Errorf("got %v, want ErrClosed; the intake called %q", err, g.calls)
	}
	if g.accepted(0) != 0 {
		t.Error("an event was accepted after close")
	}
}

// TestIntakeCloseRace closes while events are added. Each that was accepted is passed on.
func TestIntakeCloseRace(t *testing.T) {
	g := newTestIntake(settings{laneCount: 1, laneShards: 4})
	var mu sync.Mutex
	passed := 0
	g.env.enqueue = func(_ *chunk, n int) {
		mu.Lock()
		defer mu.Unlock()
		passed += n
	}
	var all sync.WaitGroup
	accepted := make([]int, 4)
	begun := make(chan struct{}, 4)
	for i := range accepted {
		all.Go(func() {
			for {
				if _, _, err := g.put(0, "x"); err != nil {
					return
				}
				if accepted[i]++; accepted[i] == 100 {
					begun <- struct{}{}
				}
			}
		})
	}
	for range accepted {
		<-begun
	}
	g.close()
	all.Wait()
	want := 0
	for _, n := range accepted {
		want += n
	}
	if passed != want || g.accepted(0) != uint64(want) {
		t.Errorf("%d events passed on, %d counted, want %d", passed, g.accepted(0), want)
	}
}

func TestIntakeDropNewest(t *testing.T) {
	g := newTestIntake(settings{})
	if err := g.dropNewest(0, []byte("a"), nil); err != nil {
		t.Error(err)
	}
	if err := g.dropNewest(0, nil, errAway); !errors.Is(err, ErrEncode) {
		t.Errorf("got %v, want ErrEncode", err)
	}
	if want := []string{"counted", "dropped a full"}; !slices.Equal(g.calls, want) || g.accepted(0) != 1 {
		t.Errorf("the intake called %q, want %q", g.calls, want)
	}
}

// TestIntakeShrinks gives memory back when a chunk is passed on that has to wait.
func TestIntakeShrinks(t *testing.T) {
	g := newTestIntake(settings{})
	var c *chunk
	g.env.enqueue = func(x *chunk, _ int) { c = x }
	g.accept(t, "a")
	if g.sealLane(0, true); cap(c.arena.buf) > 2 || string(c.arena.buf) != "a\n" || len(c.arena.ends) != 1 {
		t.Errorf("%d bytes for %q", cap(c.arena.buf), c.arena.buf)
	}
}

// TestIntakeUnsaved says once that events wait for the disk, until they are read.
func TestIntakeUnsaved(t *testing.T) {
	g := newTestIntake(settings{ahead: true})
	g.accept(t, "a", "b")
	if want := []string{"unsaved"}; !slices.Equal(g.calls, want) {
		t.Errorf("the intake called %q, want %q", g.calls, want)
	}
	for w := range g.newEvents {
		if got := string(w.events.buf); got != "a\nb\n" || w.receipt == nil {
			t.Errorf("got %q", got)
		}
		g.close() // what was read is not reused
		if n := w.memory.refs.Load(); n != 2 {
			t.Errorf("%d references to the memory, want one of the chunk and one of the reader", n)
		}
		w.memory.release()
	}
}

// TestIntakeLanes keeps a key on its lane.
func TestIntakeLanes(t *testing.T) {
	g := newTestIntake(settings{laneCount: 3, laneShards: 1, ordered: true})
	for key := range uint64(30) {
		for range 2 {
			if _, _, err := g.put(key, string(rune('a'+key%26))); err != nil {
				t.Fatal(err)
			}
		}
	}
	g.close()
	lanes := make(map[byte]map[byte]bool)
	for _, p := range g.passed {
		for _, e := range strings.Fields(p[strings.LastIndex(p, ":")+1:]) {
			if lanes[p[0]] == nil {
				lanes[p[0]] = make(map[byte]bool)
			}
			lanes[p[0]][e[0]] = true
		}
	}
	if len(lanes) != 3 {
		t.Errorf("events on %d lanes, want 3", len(lanes))
	}
	for lane, events := range lanes {
		for other, more := range lanes {
			for e := range events {
				if other != lane && e > 'd' && more[e] { // a to d are the keys of two
					t.Errorf("event %c is on two lanes", e)
				}
			}
		}
	}
}
