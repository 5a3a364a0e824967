package recent

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// Limits of the processes that are kept.
const (
	// Slow is the least duration of a process that is kept for longer than others.
	Slow = 100 * time.Millisecond

	maxRecorded = 200     // processes a second
	maxKept     = 200     // processes that failed; as many that were slow, and others
	maxBytes    = 8 << 20 // of all, unless Recent.Keep says another number
	spanBytes   = 320     // of a span without its payload
)

// Ended are processes that have ended.
type Ended struct {
	Since      time.Time           // when they began to be recorded
	Unrecorded uint64              // how many started since without being recorded: more than 200 a second
	List       []*observe.Timeline // the newest first; must not be changed
}

// Processes looks at the processes that have ended since a client began to look. Those that
// failed, and those that were slow, are kept for longer than others.
func (r *Recent) Processes() (Ended, error) {
	p, err := r.lookAtProcesses()
	if p == nil {
		return Ended{}, err
	}
	return p.ended(), nil
}

// Process looks at one process that has ended, by its id. It returns nil for one that is not kept.
func (r *Recent) Process(id string) (*observe.Timeline, error) {
	p, err := r.lookAtProcesses()
	if p == nil {
		return nil, err
	}
	return p.find(id), nil
}

// lookAtProcesses returns nil after Close.
func (r *Recent) lookAtProcesses() (*processes, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil, nil
	}
	most, gone := maxBytes, func() { r.processes = nil }
	if r.keep > 0 {
		most, gone = r.keep, nil
	}
	l, err := look(r, r.processes, func() (*processes, *observe.Observer, *observe.Recorder) {
		p := &processes{most: most, since: time.Now(), pace: rate.NewLimiter(maxRecorded, maxRecorded/4)}
		return p, nil, &observe.Recorder{Filter: p.filter, Payloads: true, Ended: p.add}
	}, gone)
	if err != nil {
		return nil, err
	}
	r.processes = l
	return l.what, nil
}

type processes struct {
	most       int // bytes of all that are kept
	since      time.Time
	pace       *rate.Limiter
	unrecorded atomic.Uint64

	mu    sync.Mutex
	kept  [classes][]*observe.Timeline // the oldest first
	bytes int
}

// The classes of processes. Memory is taken from the first ones first.
const (
	other = iota
	slow
	failed
	classes
)

func classOf(t *observe.Timeline) int {
	switch {
	case t.Failed:
		return failed
	case t.Duration >= Slow:
		return slow
	}
	return other
}

// filter is a [observe.Recorder.Filter].
func (p *processes) filter(observe.Trace) bool {
	if p.pace.Allow() {
		return true
	}
	p.unrecorded.Add(1)
	return false
}

func (p *processes) add(t *observe.Timeline) {
	p.mu.Lock()
	defer p.mu.Unlock()
	class := classOf(t)
	p.kept[class] = append(p.kept[class], t)
	p.bytes += bytesOf(t)
	if len(p.kept[class]) > maxKept {
		p.drop(class)
	}
	for class := range p.kept {
		for p.bytes > p.most && len(p.kept[class]) > 0 {
			p.drop(class)
		}
	}
}

// drop drops the oldest of a class.
func (p *processes) drop(class int) {
	p.bytes -= bytesOf(p.kept[class][0])
	p.kept[class][0] = nil
	p.kept[class] = p.kept[class][1:]
}

// bytesOf estimates the memory of a timeline.
func bytesOf(t *observe.Timeline) int {
	n := spanBytes * (1 + len(t.Spans))
	n += sizeOf(t.First) + sizeOf(t.Response)
	for i := range t.Spans {
		n += sizeOf(t.Spans[i].Payload) + len(t.Spans[i].Error)
	}
	return n
}

func sizeOf(payload *value.Value) int {
	if payload == nil {
		return 0
	}
	return payload.Size()
}

func (p *processes) ended() Ended {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.Concat(p.kept[:]...)
	slices.SortFunc(all, func(a, b *observe.Timeline) int { return b.Start.Compare(a.Start) })
	return Ended{Since: p.since, Unrecorded: p.unrecorded.Load(), List: all}
}

func (p *processes) find(id string) *observe.Timeline {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, list := range p.kept {
		for _, t := range list {
			if t.Process == id {
				return t
			}
		}
	}
	return nil
}
