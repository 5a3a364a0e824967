package arm

import (
	"bytes"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// Locks are what a CPU profile says about channels and locks.
type Locks struct {
	// S1 is the share of runtime.selectgo that its locks and the queues of
	// waiting goroutines take; 0 where nothing selects.
	S1 float64
	// S2 is the share of the process that selects, channel operations, and
	// mutexes that were not free take.
	S2 float64
	// Samples is how many there were, of 10 ms each.
	Samples int64
}

// selecting is where a select happens, and insideSelect what of it S1 is about:
// the locks of the channels, taken one after the other, and what it takes to
// wait in their queues. unlock2 and selunlock are left out, as they are in the
// founding article.
var (
	selecting    = []string{"runtime.selectgo"}
	insideSelect = []string{"runtime.sellock", "runtime.acquireSudog", "runtime.lock2"}
)

// contended are the functions that S2 counts, with all they call: selects and
// channel operations, blocked or not, and the slow paths of mutexes, ours among
// them, as only these are what contention costs.
func contended() []string {
	return []string{
		"runtime.selectgo", "runtime.selectnbsend", "runtime.selectnbrecv", "runtime.chansend", "runtime.chanrecv",
		"sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow",
		"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow",
		"sync.(*RWMutex).Lock", "sync.(*Cond).Wait",
		"sync.runtime_Semacquire", "sync.runtime_notifyList", "internal/sync.runtime_Semacquire", "internal/sync.runtime_Semrelease",
		"github.com/uniflow-labs/uniflow/lock.(*Mutex).",
	}
}

// lockShares reads S1 and S2 from a CPU profile.
func lockShares(data []byte) (Locks, error) {
	p, err := profile.Parse(bytes.NewReader(data))
	if err != nil {
		return Locks{}, err
	}
	return locksOf(p), nil
}

func locksOf(p *profile.Profile) Locks {
	var total, selects, inside, s2, samples int64
	names := contended()
	for _, s := range p.Sample {
		weight := s.Value[len(s.Value)-1] // nanoseconds of CPU
		samples += s.Value[0]
		total += weight
		stack := functions(s)
		if at := index(stack, selecting); at >= 0 {
			selects += weight
			if index(stack[:at], insideSelect) >= 0 { // called by the select
				inside += weight
			}
		}
		if index(stack, names) >= 0 {
			s2 += weight
		}
	}
	return Locks{S1: ratio(inside, selects), S2: ratio(s2, total), Samples: samples}
}

// copyShare reads from a heap profile, taken at rate 1, which share of the bytes
// that were ever allocated under a design's functions is copies of events; all
// is how many bytes that is of.
func copyShare(data []byte, d *Design) (share float64, all int64, err error) {
	p, err := profile.Parse(bytes.NewReader(data))
	if err != nil {
		return 0, 0, err
	}
	share, all = copiesOf(p, d)
	return share, all, nil
}

func copiesOf(p *profile.Profile, d *Design) (share float64, all int64) {
	space := 1 // alloc_objects, alloc_space, inuse_objects, inuse_space
	for i, t := range p.SampleType {
		if t.Type == "alloc_space" {
			space = i
		}
	}
	var copies int64
	for _, s := range p.Sample {
		stack := functions(s)
		if index(stack, d.Under) < 0 {
			continue
		}
		all += s.Value[space]
		if index(stack, d.Copies) >= 0 {
			copies += s.Value[space]
		}
	}
	return ratio(copies, all), all
}

// functions returns the stack of a sample, innermost first, inlined ones included.
func functions(s *profile.Sample) []string {
	var stack []string
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function != nil {
				stack = append(stack, line.Function.Name)
			}
		}
	}
	return stack
}

// index returns where the outermost function that begins like one of the names
// is, or -1.
func index(stack, names []string) int {
	for i, function := range slices.Backward(stack) {
		if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(function, name) }) {
			return i
		}
	}
	return -1
}

func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return float64(a) / float64(b)
}
