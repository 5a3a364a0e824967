package streams

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/node"
)

// A desk is what all nodes dedupe of an engine have in common: who waits for whom. Its lock
// guards their marks, too.
type desk struct {
	sync.Mutex
	families map[node.Process]*family // by the process that ends last
}

// Close has nothing to release.
func (d *desk) Close() error { return nil }

// A family is a process and those that it waits for. The desk guards it.
type family struct {
	holds    []*flight // whose first payload is of it
	waits    map[*rival]struct{}
	followed bool // it has a deferred function that forgets it
}

// marks are the keys that have been seen. The desk guards them.
type marks struct {
	seen       *simplelru.LRU[string, time.Time] // until when; zero is for ever
	flights    map[string]*flight
	held       int // flights that are answered
	duplicates uint64
}

func newMarks(capacity int) (*marks, error) {
	seen, err := simplelru.NewLRU[string, time.Time](capacity, nil)
	return &marks{seen: seen, flights: make(map[string]*flight)}, err
}

// Close has nothing to release.
func (m *marks) Close() error { return nil }

func (m *marks) marked(key string, now time.Time) bool {
	until, ok := m.seen.Peek(key)
	return ok && (until.IsZero() || now.Before(until))
}

// mark marks a key. Marks are in the order in which they expire.
func (m *marks) mark(key string, now, until time.Time) {
	for {
		_, oldest, ok := m.seen.GetOldest()
		if !ok || oldest.IsZero() || now.Before(oldest) {
			break
		}
		m.seen.RemoveOldest()
	}
	m.seen.Add(key, until)
}

// A flight is a key that is not marked, and whose first payload is on its way, or answered
// by a process that has not ended. The desk guards it.
type flight struct {
	key      string
	node     *dedupe      // that has sent the payload
	owner    node.Process // of the payload; the one that ends last
	turn     int          // counts the payloads that were sent
	at       int          // in the holds of the owner's family
	answered bool         // well
	until    time.Time    // of one that is answered; zero is for ever
	others   []*rival     // that wait
}

func (f *flight) expired(now time.Time) bool { return !f.until.IsZero() && !now.Before(f.until) }

// A rival is a payload of a key, which may have to wait.
type rival struct {
	waiting
	node          *dedupe
	process, root node.Process
	key           string
	flight        *flight // that it waits for; guarded by the desk
}

// An outcome is what a payload that has waited goes on with. It is claimed.
type outcome struct {
	rival  *rival
	result node.Result
}

// outcomes are told without the lock of the desk, as they run the rest of processes.
type outcomes []outcome

func (all outcomes) tell() {
	for _, o := range all {
		o.rival.done(o.result)
	}
}

// The methods below that are not said to lock are called with the lock held.

// family returns that of a process.
func (d *desk) family(root node.Process) *family {
	fam := d.families[root]
	if fam == nil {
		fam = &family{}
		d.families[root] = fam
	}
	return fam
}

// begin sends the first payload of a flight, or the next one after a failure.
func (d *desk) begin(f *flight, r *rival) node.Result {
	f.node, f.owner, f.answered = r.node, r.root, false
	f.turn++
	turn := f.turn
	fam := d.family(r.root)
	if !fam.followed {
		fam.followed = true
		d.follow(r.root)
	}
	f.at = len(fam.holds)
	fam.holds = append(fam.holds, f)
	if r.process != r.root {
		r.process.Defer(func() { d.answer(f, turn, false) }) // if it was not answered
	}
	return node.SendThen(0, r.payload, func(_ node.Process, resp node.Response) node.Result {
		d.answer(f, turn, !resp.IsError())
		return node.Respond(resp)
	})
}

// follow learns how a process ends.
func (d *desk) follow(root node.Process) {
	root.Enlist(node.PhaseMark, func(_ context.Context, failure error) (kept bool, err error) {
		d.end(root, failure == nil)
		return failure == nil, nil
	})
}

// answer notes the answer to the payload of a flight. It locks.
func (d *desk) answer(f *flight, turn int, good bool) {
	var after outcomes
	defer func() { after.tell() }()
	d.Lock()
	defer d.Unlock()
	if f.turn != turn || f.answered {
		return
	}
	if !good {
		after = d.land(f, false)
		return
	}
	m := f.node.marks
	if m.held >= f.node.capacity {
		after = d.land(f, true)
		return
	}
	f.answered, f.until = true, f.node.until()
	m.held++
	others := f.others[:0]
	for _, r := range f.others {
		if r.root == f.owner { // they fail together
			after = d.duplicate(after, r)
		} else {
			others = append(others, r)
		}
	}
	clear(f.others[len(others):])
	f.others = others
}

// end settles what a process holds. It locks.
func (d *desk) end(root node.Process, good bool) {
	var after outcomes
	defer func() { after.tell() }()
	d.Lock()
	defer d.Unlock()
	fam := d.families[root]
	if fam == nil {
		return
	}
	for len(fam.holds) > 0 {
		f := fam.holds[len(fam.holds)-1]
		after = append(after, d.land(f, good && f.answered)...)
	}
	delete(d.families, root)
}

// land ends the turn of a flight. If it was good, the key is marked, and those that wait
// are duplicates; else the next of them is let through.
func (d *desk) land(f *flight, good bool) (after outcomes) {
	n, m := f.node, f.node.marks
	fam := d.families[f.owner]
	last := len(fam.holds) - 1
	fam.holds[f.at] = fam.holds[last]
	fam.holds[f.at].at = f.at
	fam.holds[last] = nil
	fam.holds = fam.holds[:last]
	if f.answered {
		m.held--
	}
	f.turn++ // a late answer does not count
	others := f.others
	f.others = nil
	if good {
		delete(m.flights, f.key)
		m.mark(f.key, n.clock.Now(), n.until())
		for _, r := range others {
			after = d.duplicate(after, r)
		}
		return after
	}
	for i, r := range others {
		d.unpark(r)
		if !r.claim() {
			continue // its process has ended
		}
		f.others = others[i+1:]
		after = append(after, outcome{r, d.begin(f, r)})
		return d.untie(after, f)
	}
	delete(m.flights, f.key)
	return after
}

// duplicate adds that one that has waited is a duplicate.
func (d *desk) duplicate(after outcomes, r *rival) outcomes {
	d.unpark(r)
	if !r.claim() {
		return after
	}
	r.node.marks.duplicates++
	return append(after, outcome{r, r.node.duplicate(r.payload)})
}

// untie adds the failures of those whose process the new owner of a flight waits for.
func (d *desk) untie(after outcomes, f *flight) outcomes {
	if len(d.families[f.owner].waits) == 0 {
		return after
	}
	others := f.others[:0]
	for _, r := range f.others {
		switch {
		case r.root == f.owner || !d.waitsFor(f.owner, r.root):
			others = append(others, r)
		case r.claim():
			d.unpark(r)
			after = append(after, outcome{r, node.Fail(errDeadlock)})
		}
	}
	clear(f.others[len(others):])
	f.others = others
	return after
}

// park makes a payload wait for a flight, unless its process has ended.
func (d *desk) park(r *rival, f *flight) {
	if !r.open() {
		return
	}
	r.flight = f
	f.others = append(f.others, r)
	fam := d.family(r.root)
	if fam.waits == nil {
		fam.waits = make(map[*rival]struct{})
	}
	fam.waits[r] = struct{}{}
}

// leave forgets a payload whose process ends. It locks.
func (d *desk) leave(r *rival) {
	d.Lock()
	defer d.Unlock()
	if f := r.flight; f != nil {
		if i := slices.Index(f.others, r); i >= 0 {
			f.others = slices.Delete(f.others, i, i+1)
		}
		d.unpark(r)
	}
}

// unpark notes that a payload does not wait any more.
func (d *desk) unpark(r *rival) {
	fam := d.families[r.root]
	if fam == nil {
		return
	}
	if delete(fam.waits, r); len(fam.waits) == 0 && !fam.followed {
		delete(d.families, r.root)
	}
}

// waitsFor reports whether a process waits for a key of another one, or of one that waits
// for that.
func (d *desk) waitsFor(from, other node.Process) bool {
	seen := make(map[node.Process]bool)
	var reaches func(node.Process) bool
	reaches = func(p node.Process) bool {
		fam := d.families[p]
		if p == other || fam == nil || seen[p] {
			return p == other
		}
		seen[p] = true
		for r := range fam.waits {
			if reaches(r.flight.owner) {
				return true
			}
		}
		return false
	}
	return reaches(from)
}
