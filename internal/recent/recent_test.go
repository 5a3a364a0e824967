package recent_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/recent"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// sleep advances the clock of the bubble.
func sleep(d time.Duration) { <-time.After(d) }

func TestMain(m *testing.M) { leak.Main(m) }

// A program has processes, which those watch that it has been given.
type program struct {
	sync.Mutex
	watching map[int]watch
	last     int
}

type watch struct {
	o *observe.Observer
	r *observe.Recorder
}

func (p *program) watch(o *observe.Observer, r *observe.Recorder) (func(), error) {
	p.Lock()
	defer p.Unlock()
	if p.watching == nil {
		p.watching = make(map[int]watch)
	}
	p.last++
	id := p.last
	p.watching[id] = watch{o, r}
	return func() {
		p.Lock()
		defer p.Unlock()
		delete(p.watching, id)
	}, nil
}

func (p *program) watchers() int {
	p.Lock()
	defer p.Unlock()
	return len(p.watching)
}

// run runs a process.
func (p *program) run(t observe.Timeline) {
	p.Lock()
	defer p.Unlock()
	for _, w := range p.watching {
		if w.r != nil && w.r.Filter(observe.Trace{}) {
			w.r.Ended(&t)
		}
	}
}

// receive lets a node receive a packet.
func (p *program) receive(id string, payload value.Value) {
	p.Lock()
	defer p.Unlock()
	for _, w := range p.watching {
		if w.o != nil && w.o.Filter(node.Ref{ID: id}) {
			w.o.Received(observe.Packet{Process: process{}, Payload: payload})
		}
	}
}

type process struct{ node.Process }

func (process) ID() string { return "1" }

func ended(t *testing.T, r *recent.Recent) recent.Ended {
	t.Helper()
	e, err := r.Processes()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestLook records while a client asks, and for a minute after: nothing watches the
// processes before and later, and what was kept is forgotten.
func TestLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p program
		r := recent.New(p.watch)
		defer r.Close()
		p.run(observe.Timeline{Process: "before"})
		if got := ended(t, r).List; len(got) != 0 {
			t.Errorf("got %d processes from before the look", len(got))
		}
		for range 5 {
			sleep(50 * time.Second)
			p.run(observe.Timeline{Process: "a", Start: time.Now()})
			if tl, err := r.Process("a"); err != nil || tl == nil {
				t.Fatalf("got %v, %v, want the process", tl, err)
			}
		}
		sleep(59 * time.Second)
		if got := ended(t, r).List; len(got) != 5 || p.watchers() != 1 {
			t.Errorf("got %d processes and %d that watch, want 5 and 1", len(got), p.watchers())
		}
		sleep(61 * time.Second)
		if p.watchers() != 0 {
			t.Error("the processes are watched although no client asks")
		}
		if got := ended(t, r).List; len(got) != 0 {
			t.Errorf("%d processes were kept", len(got))
		}
	})
}

// TestKeep records although no client looks, in the memory that was said, until the end.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p program
		r := recent.New(p.watch)
		if err := r.Keep(3 << 20); err != nil {
			t.Fatal(err)
		}
		for i := range 10 {
			p.run(observe.Timeline{Process: fmt.Sprint(i), Start: time.Now(), First: new(value.String(strings.Repeat("x", 1<<20)))})
			sleep(time.Hour)
		}
		if got := ended(t, r).List; len(got) != 2 || got[0].Process != "9" {
			t.Errorf("got %d processes, want the last 2 of 1 MiB", len(got))
		}
		sleep(time.Hour)
		if got := ended(t, r).List; len(got) != 2 || p.watchers() != 1 {
			t.Errorf("got %d processes and %d that watch after a look has ended", len(got), p.watchers())
		}
		if r.Close(); p.watchers() != 0 {
			t.Error("the processes are watched after the end")
		}
	})
}

// TestKept keeps processes that failed, and slow ones, for longer than others, in bounded memory.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p program
		r := recent.New(p.watch)
		defer r.Close()
		ended(t, r)
		run := func(n int, tl observe.Timeline) {
			for i := range n {
				tl.Process, tl.Start = fmt.Sprint(tl.Process, i), time.Now()
				p.run(tl)
				sleep(10 * time.Millisecond)
				ended(t, r)
			}
		}
		run(3, observe.Timeline{Process: "failed", Failed: true})
		run(3, observe.Timeline{Process: "slow", Duration: recent.Slow})
		run(1000, observe.Timeline{Process: "other"})
		e := ended(t, r)
		count := func(what string) (n int) {
			for _, tl := range e.List {
				if strings.HasPrefix(tl.Process, what) {
					n++
				}
			}
			return n
		}
		if count("failed") != 3 || count("slow") != 3 || count("other") != 200 {
			t.Errorf("got %d failed, %d slow and %d others, want 3, 3, 200", count("failed"), count("slow"), count("other"))
		}
		if !slices.IsSortedFunc(e.List, func(a, b *observe.Timeline) int { return b.Start.Compare(a.Start) }) {
			t.Error("the newest is not the first")
		}
		large := new(value.String(strings.Repeat("x", 1<<20)))
		run(20, observe.Timeline{Process: "large", First: large})
		if e = ended(t, r); count("large") != 7 || count("other") != 0 || count("failed") != 3 {
			t.Errorf("got %d large, %d others and %d failed, want 7 within 8 MiB, none and 3", count("large"), count("other"), count("failed"))
		}
		for range 1000 { // more than 200 a second
			p.run(observe.Timeline{Process: "burst"})
		}
		if e = ended(t, r); e.Unrecorded < 900 || count("burst")+int(e.Unrecorded) != 1000 {
			t.Errorf("%d were left out and %d recorded, want 1000", e.Unrecorded, count("burst"))
		}
	})
}

// TestPackets keeps the last packets of a port, at a bounded pace, and no large ones.
func TestPackets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p program
		r := recent.New(p.watch)
		defer r.Close()
		packets := func(id string) ([]recent.Packet, uint64) {
			t.Helper()
			list, skipped, err := r.Packets(id)
			if err != nil {
				t.Fatal(err)
			}
			return list, skipped
		}
		packets("a")
		for i := range 100 {
			p.receive("a", value.Int(int64(i)))
			p.receive("b", value.Int(-1))
			sleep(100 * time.Millisecond)
		}
		list, skipped := packets("a")
		if len(list) != 16 || skipped != 0 || !list[0].Payload.Equal(value.Int(99)) {
			t.Errorf("got %d packets, %d left out, the first %v", len(list), skipped, list[0].Payload)
		}
		for range 100 {
			p.receive("a", value.String(strings.Repeat("x", 64<<10)))
		}
		list, skipped = packets("a")
		if skipped < 80 || list[0].Payload != nil || list[0].Size < 64<<10 {
			t.Errorf("got %d left out, the first kept: %v, of %d bytes", skipped, list[0].Payload != nil, list[0].Size)
		}
		for i := range 40 {
			packets(fmt.Sprint("other", i))
			sleep(time.Millisecond)
		}
		if p.watchers() != 16 {
			t.Errorf("%d nodes are watched, want 16", p.watchers())
		}
		sleep(61 * time.Second)
		if p.watchers() != 0 {
			t.Errorf("%d nodes are watched although no client asks", p.watchers())
		}
	})
}

// BenchmarkPackets has a packet at a node that is looked at, beyond the pace that is kept.
func BenchmarkPackets(b *testing.B) {
	var p program
	r := recent.New(p.watch)
	defer r.Close()
	if _, _, err := r.Packets("a"); err != nil {
		b.Fatal(err)
	}
	o, packet := p.watching[1].o, observe.Packet{Process: process{}, Payload: value.Int(1)}
	b.ReportAllocs()
	for b.Loop() {
		o.Received(packet)
	}
}
