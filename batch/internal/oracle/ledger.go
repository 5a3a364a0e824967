package oracle

import (
	"fmt"
	"sync"
)

// A Ledger makes events and keeps what the processor reported about them.
// Its methods may be called from any number of goroutines. The zero value is
// ready to use.
type Ledger struct {
	mu struct {
		sync.Mutex
		fates    map[uint64]*fate // by Event.ID
		made     uint64           // the largest ID made by Next
		seq      map[uint64]uint64
		problems []string
	}
}

// A fate is what the processor reported about an event.
type fate struct {
	event    Event
	accepted bool
	rejected error  // of Add
	dropped  string // the reason
	returned bool
}

// Next makes an event of a key, with a payload of pad bytes. Where order matters,
// the caller must not interleave Next and the addition of the event with Next and the
// addition of another event of the key.
func (l *Ledger) Next(key uint64, pad int) *Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.seq == nil {
		l.mu.seq = make(map[uint64]uint64)
	}
	l.mu.seq[key]++
	l.mu.made++
	e := Event{ID: l.mu.made, Key: key, Seq: l.mu.seq[key], Pad: pad}
	l.knowLocked(e)
	return &e
}

// Know adds an event that was made elsewhere. Next must not return its number.
func (l *Ledger) Know(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.knowLocked(e)
}

func (l *Ledger) knowLocked(e Event) {
	if l.mu.fates == nil {
		l.mu.fates = make(map[uint64]*fate)
	}
	l.mu.fates[e.ID] = &fate{event: e}
}

// Added records the result of adding an event, and returns it.
func (l *Ledger) Added(e *Event, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	f := l.fateLocked(e.ID)
	if f == nil {
		return err
	}
	f.accepted, f.rejected = err == nil, err
	return err
}

// Dropped records that the processor reported an event as dropped, and why.
func (l *Ledger) Dropped(raw []byte, reason string) {
	l.reported(raw, "dropped as "+reason, func(id uint64, f *fate) {
		if f.dropped != "" {
			l.problemLocked("event %d: dropped as %s, then as %s", id, f.dropped, reason)
		}
		if f.returned {
			l.problemLocked("event %d: returned by Close, and dropped as %s", id, reason)
		}
		f.dropped = reason
	})
}

// Returned records that Close returned an event.
func (l *Ledger) Returned(raw []byte) {
	l.reported(raw, "returned by Close", func(id uint64, f *fate) {
		if f.returned {
			l.problemLocked("event %d: returned twice", id)
		}
		if f.dropped != "" {
			l.problemLocked("event %d: dropped as %s, and returned by Close", id, f.dropped)
		}
		f.returned = true
	})
}

func (l *Ledger) reported(raw []byte, as string, note func(id uint64, f *fate)) {
	e, err := Parse(raw)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.problemLocked("%s: %v", as, err)
	} else if f := l.fateLocked(e.ID); f != nil {
		note(e.ID, f)
	}
}

// Counts are the events of a Ledger by what the processor reported.
type Counts struct {
	Made, Accepted, Rejected, Dropped, Returned int
}

func (l *Ledger) Count() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := Counts{Made: len(l.mu.fates)}
	for _, f := range l.mu.fates {
		if f.accepted {
			t.Accepted++
		}
		if f.rejected != nil {
			t.Rejected++
		}
		if f.dropped != "" {
			t.Dropped++
		}
		if f.returned {
			t.Returned++
		}
	}
	return t
}

// fateLocked returns the fate of an event, nil (and a problem) when the ledger
// never made it.
func (l *Ledger) fateLocked(id uint64) *fate {
	f := l.mu.fates[id]
	if f == nil {
		l.problemLocked("event %d was never made", id)
	}
	return f
}

func (l *Ledger) problemLocked(format string, args ...any) {
	if len(l.mu.problems) < maxProblems {
		l.mu.problems = append(l.mu.problems, fmt.Sprintf(format, args...))
	}
}

// maxProblems is how many problems are kept: the first ones are enough.
const maxProblems = 20
