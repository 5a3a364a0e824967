package loader

import (
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
)

// A request is a batch on its way through the committer. Its handler must not
// touch it until it has received from done.
type request struct {
	key      string // empty for none
	digest   digest // of the key
	lines    []byte
	accepted int
	rejected []byte // verdicts as JSON, without the brackets
	refused  [reasons]int
	split    *splitter // which has made the lines and verdicts
	batch    Batch     // the events for the store, if there is one

	done chan struct{} // room for one; sent to when the fields below are set

	answer    outcome
	duplicate bool
	err       error    // it could not be written
	first     *request // with the same key, earlier in the same group; nil if none
}

// scratch is memory that the committer reuses.
type scratch struct {
	requests, fresh []*request
	seen            map[digest]*request
	group           group
	encoded         []byte // the group
	batches         []Batch
}

// groupBytes is the size at which a group is written without waiting for more
// batches: the larger the group, the longer its first batch waits.
const groupBytes = 16 << 20

// commitAll is the committer: it takes all requests that wait, as a group, until
// the queue is closed. While it writes a group, the next one gathers.
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

// size is how much a request counts in a group. Verdicts count more: they are in
// the mark of a store, which must stay small.
func (r *request) size() int { return len(r.lines) + 64*len(r.rejected) }

// gather returns a request with those that wait behind it.
func (l *Loader) gather(r *request) []*request {
	requests := append(l.scratch.requests[:0], r)
	limit := groupBytes
	if l.opts.Store != nil {
		limit = storeGroup
	}
	for size := r.size(); size < limit; {
		select {
		case r, ok := <-l.queue:
			if !ok {
				return requests // and the next receive ends the committer
			}
			requests = append(requests, r)
			size += r.size()
			continue
		default:
		}
		break
	}
	l.scratch.requests = requests
	return requests
}

// commit writes a group and lets its handlers answer.
func (l *Loader) commit(requests []*request) {
	err := l.repair() // which may remember keys that the store has
	fresh := l.scratch.fresh[:0]
	clear(l.scratch.seen)
	for _, r := range requests {
		if r.key == "" {
			fresh = append(fresh, r)
			continue
		}
		if r.answer, r.duplicate = l.window.find(r.digest); r.duplicate {
			continue
		}
		if r.first = l.scratch.seen[r.digest]; r.first == nil {
			l.scratch.seen[r.digest] = r
			fresh = append(fresh, r)
		}
	}
	l.scratch.fresh = fresh
	if len(fresh) > 0 {
		l.commitFresh(fresh, err)
	}
	for _, r := range requests {
		if r.first != nil {
			r.answer, r.err, r.duplicate = r.first.answer, r.first.err, r.first.err == nil
		}
	}
	for i, r := range requests {
		requests[i] = nil // the memory is the handler's again
		r.done <- struct{}{}
	}
	clear(fresh)
	clear(l.scratch.group.records)
}

// commitFresh writes batches that are not duplicates, or fails all of them, as it
// does if err says that repair has failed: then some may be duplicates.
func (l *Loader) commitFresh(fresh []*request, err error) {
	var journalErr error
	if err == nil {
		journalErr, err = l.write(fresh)
	}
	for e := (*RefusedError)(nil); errors.As(err, &e); { // each time fewer events are left
		left, ok := l.refuse(fresh, e)
		if !ok {
			break
		}
		fresh = left
		journalErr, err = l.write(fresh)
	}
	if err != nil {
		l.writeFailed(err)
		for _, r := range fresh {
			r.err = err
		}
		return
	}
	for _, r := range fresh {
		r.answer = outcome{uint32(r.accepted), string(r.rejected)}
		if r.key != "" && journalErr == nil {
			l.remember(r.digest, r.answer)
		}
		l.counts.batches.Add(1)
		l.counts.accepted.Add(uint64(r.accepted))
		l.counts.bytes.Add(uint64(len(r.lines)))
		for i, n := range r.refused {
			l.counts.rejected[i].Add(uint64(n))
		}
	}
	l.metrics.groups.Observe(float64(len(fresh)))
	l.countFiles()
	if journalErr != nil {
		l.writeFailed(journalErr)
		return
	}
	l.writeWorked()
}

// countFiles notes how many files of events there are.
func (l *Loader) countFiles() {
	if l.files != nil {
		l.counts.files.Store(int64(l.files.count))
	}
}

// write makes batches durable: events first, then the journal. What is in the
// store is taken, even if the journal could not be written: then journalErr says
// why, and repair copies it to the journal before anything else is written.
func (l *Loader) write(fresh []*request) (journalErr, err error) {
	if err := l.repair(); err != nil {
		return nil, err
	}
	l.broken = true // until all has succeeded
	before := l.journal.totals
	g := group{events: before.events, batches: before.batches, end: before.end, records: l.scratch.group.records[:0]}
	for _, r := range fresh {
		if len(r.lines) > 0 && l.files != nil {
			if err := l.files.append(r.lines); err != nil {
				return nil, err
			}
			g.end = l.files.end
		}
		if len(r.lines) > 0 || r.key != "" {
			g.records = append(g.records, record{key: r.key, accepted: uint64(r.accepted), rejected: r.rejected})
		}
	}
	l.scratch.group = g
	if l.files != nil {
		began := time.Now()
		if err := l.files.sync(); err != nil {
			return nil, err
		}
		l.metrics.synced(time.Since(began))
	}
	if len(g.records) > 0 {
		l.scratch.encoded = g.append(l.scratch.encoded[:0])
		if l.opts.Store != nil {
			if err := l.putInStore(fresh, l.scratch.encoded); err != nil {
				return nil, err
			}
		}
		if err := l.journal.append(&g, l.scratch.encoded); err != nil {
			if inStore(l.opts.Store, fresh) {
				return err, nil
			}
			return nil, err
		}
	}
	l.broken = false
	return nil, nil
}

// inStore reports whether the store has any of a group after putInStore.
func inStore(s Store, fresh []*request) bool {
	return s != nil && slices.ContainsFunc(fresh, func(r *request) bool { return r.accepted > 0 })
}

// repair restores what was promised after an error: it removes events that no
// record of the journal covers.
func (l *Loader) repair() error {
	if !l.broken {
		return nil
	}
	// The journal comes first: if events were cut, and then a record of them came
	// back, the next start would take them for written.
	if err := l.journal.repair(); err != nil {
		return err
	}
	if err := l.replayMark(); err != nil {
		return err
	}
	if l.files != nil {
		if err := l.files.cut(l.journal.totals.end); err != nil {
			return err
		}
	}
	l.broken = false
	return nil
}

// writeFailed notes that nothing can be written. It removes what the failed write
// has left, if that is possible now: readers of the files should not see it, and a
// full disk has its space back.
func (l *Loader) writeFailed(err error) {
	why := err.Error()
	if l.failing.Swap(&why) == nil {
		l.log.Error("events cannot be written: batches are refused until they can", "error", err)
	}
	if err := l.repair(); err != nil {
		l.log.Debug("not repaired yet", "error", err)
	}
}

// writeWorked notes that events can be written.
func (l *Loader) writeWorked() {
	if l.failing.Load() != nil {
		l.failing.Store(nil)
		l.log.Info("events can be written again")
	}
}

// probeBytes is how much a probe writes. A disk with less room counts as full.
const probeBytes = 64 << 10

// probe finds out whether the disk can be written again. Batches cannot find out:
// they are refused before they are read.
func (l *Loader) probe() {
	err := l.repair()
	if err == nil {
		err = probeFolder(l.opts.fs, l.opts.Dir)
	}
	if err != nil {
		l.log.Debug("events still cannot be written", "error", err)
		return
	}
	l.writeWorked()
}

// probeFolder writes a file and removes it.
func probeFolder(fsys vfs.FS, dir string) error {
	path := filepath.Join(dir, "probe.tmp")
	if err := remove(fsys, path); err != nil {
		return err
	}
	f, err := fsys.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(make([]byte, probeBytes), 0); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), fsys.Remove(path))
}
