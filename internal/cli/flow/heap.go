package flow

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/memory"
)

// heapRoom is how many bytes may be allocated between two collections, at least, and
// largeRoom at most. By Go's own rule the heap may double between two collections. A
// server with a heap of 3 MB would collect some fifty times a second: that took 1.3 µs
// of 17.2 µs of CPU per request of the ping workflow. A heap of 256 MiB, which bodies
// may take, would grow to 512 MiB. Between the bounds Go's rule holds.
const (
	heapRoom  = 32 << 20
	largeRoom = 96 << 20
)

// A collector keeps the garbage collector's percentage at what gives heapRoom.
type collector struct {
	mu struct {
		sync.Mutex
		percent int
		stopped bool
	}
}

// tuneCollector adapts the garbage collector until stop is called, unless GOGC or
// GOMEMLIMIT is set. It collects more where little is left of limit, the bytes that the
// program may take.
func tuneCollector(getenv func(string) string, limit int64) (stop func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	most := debug.SetMemoryLimit(limit - limit/4)
	c := &collector{}
	c.mu.percent = defaultPercent
	before := debug.SetGCPercent(defaultPercent)
	c.watch()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.stopped = true
		debug.SetGCPercent(before)
		debug.SetMemoryLimit(most)
	}
}

// defaultPercent is Go's own rule; maxPercent is enough for a heap of 3 MB.
// minPercent bounds what collecting a huge heap costs.
const (
	minPercent     = 25
	defaultPercent = 100
	maxPercent     = 1000
)

// watch calls adapt after the next collection, which finds a sentinel.
func (c *collector) watch() {
	runtime.AddCleanup(new(sentinel), (*collector).adapt, c)
}

// A sentinel is garbage for the next collection. It has a pointer so that it does not
// share its memory with other small objects, which could keep it alive.
type sentinel struct{ _ *byte }

func (c *collector) adapt() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.stopped {
		return
	}
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	live := max(1, sample[0].Value.Uint64())
	percent := int(min(maxPercent, max(defaultPercent, 100*heapRoom/live)))
	if live > largeRoom {
		percent = int(max(minPercent, 100*largeRoom/live))
	}
	if percent*10 < c.mu.percent*9 || percent*9 > c.mu.percent*10 { // setting it stops the world
		c.mu.percent = percent
		debug.SetGCPercent(percent)
	}
	c.watch()
}

// bound sets how much memory nodes may hold, unless a setting says so, and tunes the
// collector until stop is called.
func (a commands) bound(s *settings.Settings) (stop func()) {
	limit := memory.Limit()
	if s.Memory == 0 {
		s.Memory = app.Size(limit / 2)
	}
	return tuneCollector(a.Getenv, limit)
}
