package flow

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestTuneCollector sees the percentage go up for a small heap, and back.
func TestTuneCollector(t *testing.T) {
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	tuneCollector(func(string) string { return "50" }, 1<<30)()
	if got := percent(); got != 100 {
		t.Errorf("with GOGC set: got %d %%, want it left at 100", got)
	}
	stop := tuneCollector(func(string) string { return "" }, 1<<40)
	for range 1000 { // cleanups run some time after a collection
		runtime.GC()
		if percent() > 100 {
			break
		}
	}
	if got := percent(); got <= 100 || got > maxPercent {
		t.Errorf("with a small heap: got %d %%, want more than 100 and at most %d", got, maxPercent)
	}
	stop()
	if got := percent(); got != 100 {
		t.Errorf("after stop: got %d %%, want 100", got)
	}
}

// TestRoom runs programs that work for some time for each MiB that they allocate: the room
// settles where collections take their share, or at a bound.
func TestRoom(t *testing.T) {
	f := func(gc, userPerMiB, want float64) {
		t.Helper()
		for _, room := range []float64{leastRoom, mostRoom} {
			for range 20 {
				room = nextRoom(room, gc, room/(1<<20)*userPerMiB)
			}
			if room < 0.99*want || room > 1.01*want {
				t.Errorf("got %.2f MiB, want %.2f", room/(1<<20), want/(1<<20))
			}
		}
	}
	f(0.002, 0.1, leastRoom)
	f(0.002, 0.003, 0.002/0.003*(1-share)/share*(1<<20)) // 16 MiB
	f(0.010, 0.003, mostRoom)
	if got := nextRoom(20<<20, 0, 1); got != 20<<20 {
		t.Errorf("without a measurement: got %v, want the room as it was", got)
	}
}

// TestPercent gives a heap its room, and one that is small or large what Go's rule and the bounds say.
func TestPercent(t *testing.T) {
	f := func(scanned float64, want int) {
		t.Helper()
		if got := percentOf(16<<20, scanned); got != want {
			t.Errorf("%v bytes: got %d %%, want %d", scanned, got, want)
		}
	}
	f(0, maxPercent)
	f(4<<20, 400)
	f(64<<20, defaultPercent)
	f(192<<20, 50)
	f(4<<30, minPercent)
}
