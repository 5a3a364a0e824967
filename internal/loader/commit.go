package loader

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A request is a batch on its way through the committer. Its handler must not
// touch it until done is sent to.
type request struct {
	key      string // empty for none
	digest   digest // of the key
	lines    []byte
	accepted int
	rejected []byte // verdicts as JSON, without the brackets
	refused  [reasons]int
	split    *splitter // that has made the lines and verdicts
	batch    Batch     // the events for the store, if there is one

	done chan struct{} // room for one; sent to when the rest is set

	answer    outcome
	duplicate bool
	err       error    // it could not be written
	twin      *request // of the same group, with the same key, before it
}

// scratch is memory that the committer reuses.
type scratch struct {
	group, fresh []*request
	records      []record
	seen         map[digest]*request
	gone         []uint64
	mark         []byte
	batches      []Batch
}

// groupBytes is how much is gathered for one fsync at most, beyond the batch that
// is past it: the more there is, the longer the first of the group waits.
const groupBytes = 16 << 20

// commitAll is the committer: it takes what waits, as a group, until the queue is
// closed. While a group is being written the next one gathers.
func (l *Loader) commitAll() {
	probe := time.NewTicker(l.opts.probeEvery)
	defer probe.Stop()
	l.scratch.seen = make(map[digest]*request)
	for {
		select {
		case r, ok := <-l.queue:
			if !ok {
				return
			}
			l.commit(l.gather(r))
		case <-probe.C:
			if l.failing.Load() != nil {
				l.probe()
			}
		}
	}
}

// size is how much a request counts in a group. Verdicts are in the mark of a
// store, which is to stay small.
func (r *request) size() int { return len(r.lines) + 64*len(r.rejected) }

// gather returns a request with those that wait behind it.
func (l *Loader) gather(r *request) []*request {
	group := append(l.scratch.group[:0], r)
	limit := groupBytes
	if l.opts.Store != nil {
		limit = storeGroup
	}
	for size := r.size(); size < limit; {
		select {
		case r, ok := <-l.queue:
			if !ok {
				return group // and the next receive ends the committer
			}
			group = append(group, r)
			size += r.size()
			continue
		default:
		}
		break
	}
	l.scratch.group = group
	return group
}

// commit writes a group and lets its handlers answer.
func (l *Loader) commit(group []*request) {
	fresh := l.scratch.fresh[:0]
	clear(l.scratch.seen)
	for _, r := range group {
		if r.key == "" {
			fresh = append(fresh, r)
			continue
		}
		if r.answer, r.duplicate = l.window.find(r.digest); r.duplicate {
			continue
		}
		if r.twin = l.scratch.seen[r.digest]; r.twin == nil {
			l.scratch.seen[r.digest] = r
			fresh = append(fresh, r)
		}
	}
	l.scratch.fresh = fresh
	if len(fresh) > 0 {
		l.store(fresh)
	}
	for _, r := range group {
		if r.twin != nil {
			r.answer, r.err, r.duplicate = r.twin.answer, r.twin.err, r.twin.err == nil
		}
	}
	for i, r := range group {
		group[i] = nil // the memory is the handler's again
		r.done <- struct{}{}
	}
	clear(fresh)
	clear(l.scratch.records)
}

// store writes batches, or fails all of them.
func (l *Loader) store(fresh []*request) {
	late, err := l.write(fresh)
	for e := (*RefusedError)(nil); errors.As(err, &e); { // each time fewer events are left
		left, ok := l.refuse(fresh, e)
		if !ok {
			break
		}
		fresh = left
		late, err = l.write(fresh)
	}
	if err != nil {
		l.failed(err)
		for _, r := range fresh {
			r.err = err
		}
		return
	}
	for _, r := range fresh {
		r.answer = outcome{uint32(r.accepted), string(r.rejected)}
		if r.key != "" && late == nil {
			l.remember(r.digest, r.answer, l.journal.number)
		}
		l.counts.batches.Add(1)
		l.counts.accepted.Add(uint64(r.accepted))
		l.counts.bytes.Add(uint64(len(r.lines)))
		for i, n := range r.refused {
			l.counts.rejected[i].Add(uint64(n))
		}
	}
	l.metrics.groups.Observe(float64(len(fresh)))
	l.counts.files.Store(int64(l.sink.Files()))
	if late != nil {
		l.failed(late)
		return
	}
	l.works()
	err = l.journal.turn()
	if err != nil && !l.piled {
		l.log.Warn("journals pile up", "error", err)
	}
	l.piled = err != nil
}

// write makes batches durable: events, then records. What is in the store is
// taken, even if the journal has no record of it yet: then late says why, and
// mend makes up for it before anything else is written.
func (l *Loader) write(fresh []*request) (late, err error) {
	if err := l.mend(); err != nil {
		return nil, err
	}
	l.broken = true // until all went well
	records := l.scratch.records[:0]
	for _, r := range fresh {
		rec := record{key: r.key, accepted: uint64(r.accepted), rejected: r.rejected}
		if len(r.lines) > 0 {
			if rec.span, err = l.sink.Append(r.lines); err != nil {
				return nil, err
			}
		}
		if len(r.lines) > 0 || r.key != "" {
			records = append(records, rec)
		}
	}
	l.scratch.records = records
	began := time.Now()
	if err := l.sink.Sync(); err != nil {
		return nil, err
	}
	l.metrics.synced(time.Since(began))
	if l.opts.Store != nil {
		if err := l.put(fresh, records); err != nil {
			return nil, err
		}
	}
	if len(records) > 0 {
		if err := l.journal.append(records); err != nil {
			if stored(l.opts.Store, fresh) {
				return err, nil
			}
			return nil, err
		}
	}
	l.broken = false
	return nil, nil
}

// stored reports whether a group is in a store once it was put there.
func stored(s Store, group []*request) bool {
	return s != nil && slices.ContainsFunc(group, func(r *request) bool { return r.accepted > 0 })
}

// mend makes the files say again what was promised, after an error.
func (l *Loader) mend() error {
	if !l.broken {
		return nil
	}
	// The journal comes first: a record that vouches for events which are cut
	// would be believed at the next start.
	if err := l.journal.mend(); err != nil {
		return err
	}
	if err := l.redo(); err != nil {
		return err
	}
	if err := l.sink.Cut(l.journal.base.end); err != nil {
		return err
	}
	l.broken = false
	return nil
}

// failed notes that nothing can be written. What a failed write has left is taken
// away at once if that can be done, so that readers of the files do not see it
// for long, and a full disk has its space back.
func (l *Loader) failed(err error) {
	why := err.Error()
	if l.failing.Swap(&why) == nil {
		l.log.Error("events cannot be written: batches are refused until they can", "error", err)
	}
	if err := l.mend(); err != nil {
		l.log.Debug("not mended yet", "error", err)
	}
}

// works notes that writing works.
func (l *Loader) works() {
	if l.failing.Load() != nil {
		l.failing.Store(nil)
		l.log.Info("events can be written again")
	}
}

// probeBytes is how much a probe writes. A disk with less room is as good as full.
const probeBytes = 64 << 10

// probe finds out whether the disk can be written again. While it cannot, batches
// are refused before they are read; so they cannot find out.
func (l *Loader) probe() {
	err := l.mend()
	if err == nil {
		err = probeFolder(l.opts.Dir)
	}
	if err != nil {
		l.log.Debug("events still cannot be written", "error", err)
		return
	}
	l.works()
}

// probeFolder writes a file and removes it.
func probeFolder(dir string) error {
	path := filepath.Join(dir, "probe.tmp")
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.Write(make([]byte, probeBytes)); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), remove(path))
}
