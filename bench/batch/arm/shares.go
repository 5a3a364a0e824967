package arm

import (
	"slices"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// contended are prefixes of the functions that the share of locks counts, with
// all they call: selects and channel operations, blocked or not, and the slow
// paths of mutexes.
var contended = []string{
	"runtime.selectgo", "runtime.selectnbsend", "runtime.selectnbrecv", "runtime.chansend", "runtime.chanrecv",
	"sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow",
	"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow",
	"sync.(*RWMutex).Lock", "sync.(*Cond).Wait",
	"sync.runtime_Semacquire", "sync.runtime_notifyList", "internal/sync.runtime_Semacquire", "internal/sync.runtime_Semrelease",
	"github.com/uniflow-labs/uniflow/lock.(*Mutex).",
}

// lockShare returns the share of contended functions in a CPU profile, and the
// number of its samples.
func lockShare(p *profile.Profile) (share float64, samples int64) {
	for _, s := range p.Sample {
		samples += s.Value[0]
	}
	share, _ = program.ProfileShare(p, len(p.SampleType)-1, nil, contended)
	return share, samples
}

// copyShare returns the share of copies in the bytes that a design's functions
// have allocated, and how many bytes these are.
func copyShare(p *profile.Profile, d *Design) (share float64, all int64) {
	space := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_space" })
	return program.ProfileShare(p, space, d.Under, d.Copies)
}
