package memory

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

func queueOf(r *journal.Run) journal.QueueID {
	return journal.QueueID{Namespace: r.Namespace, Name: r.Queue}
}

// claim lets an item begin.
func (d *data) claim(c journal.Claim) {
	e := d.runs[c.Run]
	if e == nil || e.run.State != journal.Queued {
		return
	}
	r := &e.run
	r.State, r.Resumed, r.Begun = journal.Running, 0, ms(c.At)
	if c.Revision != "" {
		r.Revision = c.Revision
	}
	if c.Unkey && len(r.Key) > 0 {
		delete(d.keys, keyOf(r))
		r.Key, r.KeyUntil = nil, time.Time{}
	}
}

// retried says that the failures of the records do not count any more.
func (e *entry) retried() {
	e.run.Retried = 0
	if n := len(e.records); n > 0 {
		e.run.Retried = e.records[n-1].N
	}
}

// requeue puts an item into its queue again.
func (d *data) requeue(q journal.Requeue) {
	e := d.runs[q.Run]
	if e == nil || e.run.Queue == "" {
		return
	}
	r := &e.run
	r.State, r.Due, r.Attempts, r.Error, r.Answer, r.Ended, r.Resumed = journal.Queued, ms(q.Due), q.Attempts, q.Error, nil, time.Time{}, 0
	if len(q.Input) > 0 {
		r.Input = some(q.Input)
	}
	if q.Forget {
		r.Revision = ""
		e.retried()
		clear(e.waits)
	}
	d.grow(e, len(q.Input)+len(q.Error))
}

// items returns copies of those that f selects, without their inputs, in some order.
func (s *Store) items(ctx context.Context, f func(r *journal.Run) bool, order func(a, b *journal.Run) int) ([]*journal.Run, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	var runs []*journal.Run
	for _, e := range s.data.runs {
		if e.run.Queue != "" && f(&e.run) {
			r := clone(&e.run)
			r.Input, r.Answer = nil, nil
			runs = append(runs, r)
		}
	}
	slices.SortFunc(runs, order)
	return runs, nil
}

func byID(a, b *journal.Run) int { return bytes.Compare(a.ID[:], b.ID[:]) }

// NextItems implements [journal.Store].
func (s *Store) NextItems(ctx context.Context, q journal.QueueID, key string, now time.Time, limit int) (items []*journal.Run, next time.Time, err error) {
	all, err := s.items(ctx, func(r *journal.Run) bool {
		return r.State == journal.Queued && queueOf(r) == q && r.QueueKey == key
	}, func(a, b *journal.Run) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Due.Compare(b.Due), byID(a, b))
	})
	for _, r := range all {
		switch {
		case len(items) == limit:
			return items, time.Time{}, err
		case !r.Due.After(ms(now)):
			items = append(items, r)
		case next.IsZero() || r.Due.Before(next):
			next = r.Due
		}
	}
	if len(items) == limit {
		next = time.Time{}
	}
	return items, next, err
}

// QueueKeys implements [journal.Store].
func (s *Store) QueueKeys(ctx context.Context, q journal.QueueID, after *string, limit int) (keys []string, err error) {
	all, err := s.items(ctx, func(r *journal.Run) bool {
		return r.State == journal.Queued && queueOf(r) == q && (after == nil || r.QueueKey > *after)
	}, func(a, b *journal.Run) int { return strings.Compare(a.QueueKey, b.QueueKey) })
	for _, r := range all {
		if len(keys) == limit {
			break
		}
		if len(keys) == 0 || r.QueueKey != keys[len(keys)-1] {
			keys = append(keys, r.QueueKey)
		}
	}
	return keys, err
}

func taken(r *journal.Run) bool { return r.State == journal.Running || r.State == journal.Waiting }

// Taken implements [journal.Store].
func (s *Store) Taken(ctx context.Context, q journal.QueueID) ([]*journal.Run, error) {
	return s.items(ctx, func(r *journal.Run) bool { return taken(r) && queueOf(r) == q }, byID)
}

// Begun implements [journal.Store].
func (s *Store) Begun(ctx context.Context, q journal.QueueID, after time.Time, limit int) (times []time.Time, err error) {
	all, err := s.items(ctx, func(r *journal.Run) bool { return queueOf(r) == q && r.Begun.After(ms(after)) }, func(a, b *journal.Run) int { return b.Begun.Compare(a.Begun) })
	for _, r := range all[:min(len(all), max(limit, 0))] {
		times = append(times, r.Begun)
	}
	return times, err
}

// Oldest implements [journal.Store].
func (s *Store) Oldest(ctx context.Context, q journal.QueueID) (time.Time, error) {
	all, err := s.items(ctx, func(r *journal.Run) bool { return r.State == journal.Queued && queueOf(r) == q }, func(a, b *journal.Run) int { return a.Due.Compare(b.Due) })
	if err != nil || len(all) == 0 {
		return time.Time{}, err
	}
	return all[0].Due, nil
}

// Queues implements [journal.Store].
func (s *Store) Queues(ctx context.Context) ([]journal.QueueState, error) {
	all, err := s.items(ctx, func(r *journal.Run) bool { return r.State == journal.Queued || taken(r) }, byID)
	if err != nil {
		return nil, err
	}
	states := make(map[journal.QueueID]journal.QueueState)
	for _, r := range all {
		q := states[queueOf(r)]
		if q.Queue = queueOf(r); r.State == journal.Queued {
			q.Queued++
			if q.Oldest.IsZero() || r.Due.Before(q.Oldest) {
				q.Oldest = r.Due
			}
		} else {
			q.Taken++
		}
		states[q.Queue] = q
	}
	s.data.Lock()
	for id := range s.data.paused {
		q := states[id]
		q.Queue, q.Paused = id, true
		states[id] = q
	}
	s.data.Unlock()
	list := make([]journal.QueueState, 0, len(states))
	for _, q := range states {
		list = append(list, q)
	}
	slices.SortFunc(list, func(a, b journal.QueueState) int {
		return cmp.Or(strings.Compare(a.Queue.Namespace, b.Queue.Namespace), strings.Compare(a.Queue.Name, b.Queue.Name))
	})
	return list, nil
}
