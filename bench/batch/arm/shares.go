package arm

import (
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/profiles"
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
	share, _ = shareOf(p, len(p.SampleType)-1, nil, contended)
	return share, samples
}

// copyShare returns the share of copies in the bytes that a design's functions
// have allocated, and how many bytes these are.
func copyShare(p *profile.Profile, d *Design) (share float64, all int64) {
	space := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_space" })
	return shareOf(p, space, d.Under, d.Copies)
}

// shareOf returns the share of samples with a function of part on the stack, in
// those with a function of whole; in all if whole is nil.
func shareOf(p *profile.Profile, value int, whole, part []string) (share float64, all int64) {
	var counted int64
	for _, s := range p.Sample {
		stack := profiles.Stack(s)
		if whole != nil && !begins(stack, whole) {
			continue
		}
		all += s.Value[value]
		if begins(stack, part) {
			counted += s.Value[value]
		}
	}
	return float64(counted) / float64(max(all, 1)), all
}

// begins reports whether a function on the stack begins with one of the prefixes.
func begins(stack, prefixes []string) bool {
	return slices.ContainsFunc(stack, func(function string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
	})
}
