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
