package flow

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// heapRoom is how many bytes may be allocated between two collections however
// small the heap is, and largeRoom however large. Go's own rule lets a heap of 256
// MiB, which bodies may take, grow to 512 before it is collected. A server that answers from a heap of 3 MB would collect it
// some fifty times a second by Go's own rule, which doubles: that was 1.3 µs of
// 17.2 µs of CPU per request of the ping workflow. Between the two Go's rule is
// as it stands.
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

// tuneCollector adapts the garbage collector until stop is called. It leaves a
// program alone whose user has set GOGC or GOMEMLIMIT.
func tuneCollector(getenv func(string) string) (stop func()) {
	if getenv("GOGC") != "" || getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	c := &collector{}
	c.mu.percent = defaultPercent
	before := debug.SetGCPercent(defaultPercent)
	c.watch()
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.mu.stopped = true
		debug.SetGCPercent(before)
	}
}

// defaultPercent is Go's own rule; maxPercent is enough for a heap of 3 MB.
// minPercent bounds what collecting a huge heap costs.
const (
	minPercent     = 25
	defaultPercent = 100
	maxPercent     = 1000
)

// watch has the percentage adapted after the next collection, by leaving it an
// object to find.
func (c *collector) watch() {
	runtime.AddCleanup(new(sentinel), (*collector).adapt, c)
}

// A sentinel is garbage that is found by the next collection. It holds a pointer
// so that it is not packed together with other small objects, which would keep
// it alive.
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
