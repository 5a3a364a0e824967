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

// The room is how many bytes may be allocated between two collections. By Go's own rule the
// heap may double, so a server with a heap of 3 MB would collect some fifty times a second. But
// nearly all that a busy program has resident is the room: it is as small as it can be while
// collections take no more of the processors than share, between leastRoom and mostRoom. A large
// heap has room for Go's own rule, and at most largeRoom: one of 256 MiB, which bodies may take,
// would grow to 512 MiB.
const (
	leastRoom = 8 << 20
	mostRoom  = 32 << 20
	largeRoom = 96 << 20

	share = 0.04
)

// A collector keeps the garbage collector's percentage at what gives its room.
type collector struct {
	mu struct {
		sync.Mutex
		percent  int
		room     float64 // bytes
		gc, user float64 // processor time so far, in seconds: of collections, and of all else
		stopped  bool
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
	c.mu.room, c.mu.percent = leastRoom, firstPercent
	before := debug.SetGCPercent(firstPercent)
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

	// firstPercent is for the first collection, which Go begins at 4 MiB times the percentage.
	firstPercent = 100 * leastRoom / (4 << 20)
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
	sample := []metrics.Sample{
		{Name: "/cpu/classes/gc/mark/assist:cpu-seconds"}, {Name: "/cpu/classes/gc/mark/dedicated:cpu-seconds"}, {Name: "/cpu/classes/gc/pause:cpu-seconds"},
		{Name: "/cpu/classes/user:cpu-seconds"},
		// The percentage is one of all that a collection reads.
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"}, {Name: "/gc/scan/globals:bytes"},
	}
	metrics.Read(sample)
	gc := sample[0].Value.Float64() + sample[1].Value.Float64() + sample[2].Value.Float64()
	user := sample[3].Value.Float64()
	c.mu.room = nextRoom(c.mu.room, gc-c.mu.gc, user-c.mu.user)
	c.mu.gc, c.mu.user = gc, user
	percent := percentOf(c.mu.room, float64(sample[4].Value.Uint64()+sample[5].Value.Uint64()+sample[6].Value.Uint64()))
	if percent*10 < c.mu.percent*9 || percent*9 > c.mu.percent*10 { // setting it stops the world
		c.mu.percent = percent
		debug.SetGCPercent(percent)
	}
	c.watch()
}

// nextRoom returns the room after a collection: gc is what that has taken, and user what the
// program has since the one before, in seconds. Twice the room halves the share.
func nextRoom(room, gc, user float64) float64 {
	if gc <= 0 || user <= 0 {
		return room
	}
	wanted := min(2*room, max(room/2, room*gc/(gc+user)/share))
	return min(mostRoom, max(leastRoom, (room+wanted)/2))
}

// percentOf returns the percentage that gives a room, if a collection reads so many bytes.
func percentOf(room, scanned float64) int {
	scanned = max(1, scanned)
	if scanned > largeRoom {
		return int(max(minPercent, 100*largeRoom/scanned))
	}
	return int(min(maxPercent, max(defaultPercent, 100*room/scanned)))
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
