// Package memory keeps a journal in memory, for tests of workflows and of what uses a
// journal.
//
// Read [Store]. A journal ends with the program; [Store.Reopen] is the restart of a program
// that crashed.
//
// Invariants: what is committed is a copy, so no caller shares memory with the journal; a
// batch is applied as a whole or not at all.
//
// The package must not do what package sqlite does not: the tests of both are those of
// package journaltest.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

const (
	defaultLimit = 200 // runs in a list
	maxTrim      = 500 // runs and signals that one call of Trim removes
)

// A Store is a journal in memory. It implements [journal.Store]. Make one with [New].
type Store struct {
	data *data // shared with stores that were opened before and after this one

	mu struct {
		sync.Mutex
		closed bool
		full   bool
		broken error
	}
}

// data is what a disk would have.
type data struct {
	sync.Mutex
	open      *Store // the one that may use it
	runs      map[journal.ID]*entry
	keys      map[key]journal.ID
	revisions map[string][]byte
	signals   []*journal.Signal // in the order in which they came; of those that are taken Event is empty
	known     map[journal.SignalID]*journal.Signal
	paused    map[journal.QueueID]struct{}
	ticks     map[[2]string]time.Time // the last, by namespace and plan
	bytes     int64
}

// An entry is a run with its records and what it waits for.
type entry struct {
	run     journal.Run
	records []journal.Record
	waits   map[uint64]journal.Wait // by position
	bytes   int64
}

type key struct{ ns, trigger, key string }

func keyOf(r *journal.Run) key { return key{r.Namespace, r.Trigger, string(r.Key)} }

// New returns an empty journal.
func New() *Store {
	s := &Store{data: &data{
		runs: make(map[journal.ID]*entry), keys: make(map[key]journal.ID), revisions: make(map[string][]byte), known: make(map[journal.SignalID]*journal.Signal),
		paused: make(map[journal.QueueID]struct{}), ticks: make(map[[2]string]time.Time),
	}}
	s.data.open = s
	return s
}

// Reopen returns a store of the same journal, as a program finds it that starts after this
// one has crashed. This store is closed.
func (s *Store) Reopen() *Store {
	s.data.Lock()
	defer s.data.Unlock()
	if old := s.data.open; old != nil {
		old.shut()
	}
	s.data.open = &Store{data: s.data}
	return s.data.open
}

func (s *Store) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.closed = true
}

// Fill makes every commit fail as on a full disk, until it is called with false.
func (s *Store) Fill(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.full = full
}

// Close implements [journal.Store]. What was committed is there for Reopen.
func (s *Store) Close() error {
	s.data.Lock()
	defer s.data.Unlock()
	s.shut()
	if s.data.open == s {
		s.data.open = nil
	}
	return nil
}

// usable returns why nothing can be read or, if writes, written.
func (s *Store) usable(ctx context.Context, writes bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.mu.closed:
		return journal.ErrClosed
	case writes && s.mu.broken != nil:
		return s.mu.broken
	case ctx.Err() != nil:
		return ctx.Err()
	case writes && s.mu.full:
		return fmt.Errorf("journal in memory: %w", journal.ErrFull)
	}
	return nil
}

// Commit implements [journal.Store].
func (s *Store) Commit(ctx context.Context, b *journal.Batch) error {
	s.data.Lock()
	defer s.data.Unlock()
	b.Existing = nil
	if err := s.usable(ctx, true); err != nil {
		return s.fail(err)
	}
	if err := s.data.check(b); err != nil {
		return s.fail(err)
	}
	s.data.apply(b)
	return nil
}

// fail returns an error, and refuses all that is written from now on, unless a later try
// may work.
func (s *Store) fail(err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.broken == nil && !errors.Is(err, journal.ErrFull) {
		s.mu.broken = fmt.Errorf("journal: nothing is written after an error: %w", err)
	}
	return err
}

// check finds what a database would refuse, before anything is changed: a record whose number
// its run has already.
func (d *data) check(b *journal.Batch) error {
	type number struct {
		run journal.ID
		n   int32
	}
	seen := make(map[number]bool, len(b.Records))
	for i := range b.Records {
		r := &b.Records[i]
		again := seen[number{r.Run, r.N}]
		if e := d.runs[r.Run]; e != nil && !again {
			_, again = e.find(r.N)
		}
		if again {
			return fmt.Errorf("journal: record %d of run %x is there already", r.N, r.Run)
		}
		seen[number{r.Run, r.N}] = true
	}
	return nil
}

func (e *entry) find(n int32) (int, bool) {
	return slices.BinarySearchFunc(e.records, n, func(r journal.Record, n int32) int { return cmp.Compare(r.N, n) })
}

func (d *data) apply(b *journal.Batch) {
	for _, r := range b.Revisions {
		if _, ok := d.revisions[r.Hash]; !ok {
			d.revisions[r.Hash] = bytes.Clone(r.Body)
		}
	}
	b.Existing = append(b.Existing[:0], make([]*journal.Run, len(b.Starts))...)
	dropped := make(map[journal.ID]bool)
	for i, r := range b.Starts {
		old := d.start(r)
		if old == nil {
			continue
		}
		b.Existing[i] = clone(&old.run)
		if old.run.ID != r.ID {
			dropped[r.ID] = true
		}
	}
	for _, id := range b.Resumed {
		if e := d.runs[id]; e != nil && !e.run.State.Ended() {
			e.run.Resumed++
			e.run.State, e.run.Ended = journal.Running, time.Time{}
		}
	}
	for _, r := range b.Retried {
		e := d.runs[r.Run]
		if e == nil || !e.run.State.Retriable() {
			continue
		}
		e.run.State, e.run.Answer, e.run.Error, e.run.Ended, e.run.Resumed = journal.Running, nil, "", time.Time{}, 0
		if r.Revision != "" {
			e.run.Revision, e.run.Moved = r.Revision, true
		}
		if r.Failures {
			e.retried()
		}
	}
	for _, c := range b.Claims {
		d.claim(c)
	}
	for _, r := range b.Records {
		if e := d.runs[r.Run]; e != nil && !dropped[r.Run] {
			r.Payload = some(r.Payload)
			r.At = ms(r.At)
			at, _ := e.find(r.N)
			e.records = slices.Insert(e.records, at, r)
			e.run.Resumed = 0
			d.grow(e, len(r.Payload)+len(r.Node))
		}
	}
	for _, w := range b.Waits {
		if e := d.runs[w.Run]; e != nil && !dropped[w.Run] {
			if w.Event == "" {
				w.Key = ""
			}
			w.Token, w.Due = some(w.Token), ms(w.Due)
			e.waits[w.Pos] = w
		}
	}
	for _, id := range b.Over {
		if e := d.runs[id.Run]; e != nil && !dropped[id.Run] {
			delete(e.waits, id.Pos)
		}
	}
	for _, one := range b.Signals {
		id := journal.SignalID{Namespace: one.Namespace, ID: one.ID}
		if d.known[id] != nil {
			continue
		}
		one.Payload, one.Until = some(one.Payload), ms(one.Until)
		d.known[id] = &one
		d.signals = append(d.signals, &one)
		d.bytes += sizeOf(&one)
	}
	for _, id := range b.Taken {
		if one := d.known[id]; one != nil {
			d.bytes -= sizeOf(one)
			one.Event, one.Key, one.Payload = "", "", nil
			d.bytes += sizeOf(one)
		}
	}
	for _, r := range b.Requeues {
		if !dropped[r.Run] {
			d.requeue(r)
		}
	}
	for _, p := range b.Pauses {
		delete(d.paused, p.Queue)
		if p.Paused {
			d.paused[p.Queue] = struct{}{}
		}
	}
	for _, end := range b.Ends {
		e := d.runs[end.Run]
		if e == nil || dropped[end.Run] {
			continue
		}
		e.run.State, e.run.Answer, e.run.Error, e.run.Ended = end.State, some(end.Answer), end.Error, time.Time{}
		if end.State >= journal.OK {
			e.run.Ended = ms(end.At)
		}
		switch {
		case end.State == journal.Waiting, end.State == journal.Paused:
			e.run.Resumed = 0
		case end.State.Ended():
			clear(e.waits)
		}
		d.grow(e, len(end.Answer)+len(end.Error))
	}
}

func (d *data) start(r *journal.Run) (old *entry) {
	if old := d.runs[r.ID]; old != nil {
		return old
	}
	if len(r.Key) > 0 {
		if id, ok := d.keys[keyOf(r)]; ok {
			old := d.runs[id]
			if old.run.KeyUntil.IsZero() || old.run.KeyUntil.After(ms(r.Created)) {
				return old
			}
			old.run.Key, old.run.KeyUntil = nil, time.Time{}
		}
		d.keys[keyOf(r)] = r.ID
	}
	e := &entry{run: *clone(r), waits: make(map[uint64]journal.Wait)}
	e.run.Answer, e.run.Error, e.run.Resumed, e.run.Retried, e.run.Moved, e.run.Ended = nil, "", 0, 0, false, time.Time{}
	e.run.Created, e.run.KeyUntil = ms(r.Created), ms(r.KeyUntil)
	e.run.Attempts, e.run.Begun, e.run.Due = 0, time.Time{}, ms(r.Due)
	if r.Queue == "" {
		e.run.Item = journal.Item{}
	}
	if len(r.Key) == 0 {
		e.run.KeyUntil = time.Time{}
	}
	if plan := [2]string{r.Namespace, r.Tick.Plan}; !r.Tick.At.IsZero() && r.Tick.At.After(d.ticks[plan]) {
		d.ticks[plan] = ms(r.Tick.At)
	}
	e.run.Tick = journal.Tick{}
	d.runs[r.ID] = e
	d.grow(e, len(r.Input)+len(r.Key)+len(r.Namespace)+len(r.Trigger)+len(r.Revision))
	return nil
}

// grow counts the bytes of an entry, and some for what is around them.
func (d *data) grow(e *entry, n int) {
	const around = 64
	e.bytes += int64(n) + around
	d.bytes += int64(n) + around
}

// sizeOf returns the bytes of a signal, with some for what is around them.
func sizeOf(s *journal.Signal) int64 {
	const around = 64
	return int64(len(s.Namespace)+len(s.ID)+len(s.Event)+len(s.Key)+len(s.Payload)) + around
}

func clone(r *journal.Run) *journal.Run {
	c := *r
	c.Key, c.Input, c.Answer = some(r.Key), some(r.Input), some(r.Answer)
	return &c
}

// some copies bytes; of an empty slice it makes nil, as databases do.
func some(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return bytes.Clone(b)
}

// ms cuts a time to what databases keep.
func ms(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// Unfinished implements [journal.Store].
func (s *Store) Unfinished(ctx context.Context) ([]*journal.Run, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, true); err != nil {
		return nil, err
	}
	var runs []*journal.Run
	for _, e := range s.data.runs {
		if e.run.State != journal.Running {
			continue
		}
		r := clone(&e.run)
		r.Input = nil
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *journal.Run) int {
		return cmp.Or(a.Created.Compare(b.Created), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return runs, nil
}

// Records implements [journal.Store].
func (s *Store) Records(ctx context.Context, run journal.ID) ([]journal.Record, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	e := s.data.runs[run]
	if e == nil {
		return nil, nil
	}
	records := slices.Clone(e.records)
	for i := range records {
		records[i].Payload = some(records[i].Payload)
	}
	return records, nil
}

// Revision implements [journal.Store].
func (s *Store) Revision(ctx context.Context, hash string) (journal.Revision, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return journal.Revision{}, err
	}
	body, ok := s.data.revisions[hash]
	if !ok {
		return journal.Revision{}, fmt.Errorf("revision %s: %w", hash, journal.ErrNotFound)
	}
	return journal.Revision{Hash: hash, Body: some(body)}, nil
}

// Get implements [journal.Store].
func (s *Store) Get(ctx context.Context, run journal.ID) (*journal.Run, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	e := s.data.runs[run]
	if e == nil {
		return nil, fmt.Errorf("run %x: %w", run, journal.ErrNotFound)
	}
	return clone(&e.run), nil
}

// Keyed implements [journal.Store].
func (s *Store) Keyed(ctx context.Context, namespace, trigger string, key []byte) (*journal.Run, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	id, ok := s.data.keys[keyOf(&journal.Run{Namespace: namespace, Trigger: trigger, Key: key})]
	if !ok {
		return nil, fmt.Errorf("a run with the key: %w", journal.ErrNotFound)
	}
	return clone(&s.data.runs[id].run), nil
}

// List implements [journal.Store].
func (s *Store) List(ctx context.Context, f journal.Filter) ([]*journal.Run, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	var runs []*journal.Run
	for id, e := range s.data.runs {
		switch r := &e.run; {
		case f.Namespace != "" && r.Namespace != f.Namespace,
			f.Trigger != "" && r.Trigger != f.Trigger,
			f.Queue != "" && r.Queue != f.Queue,
			len(f.States) > 0 && !slices.Contains(f.States, r.State),
			!f.Since.IsZero() && r.Created.Before(ms(f.Since)),
			f.After != (journal.ID{}) && bytes.Compare(id[:], f.After[:]) >= 0:
			continue
		}
		r := clone(&e.run)
		r.Input, r.Answer = nil, nil
		runs = append(runs, r)
	}
	slices.SortFunc(runs, func(a, b *journal.Run) int { return bytes.Compare(b.ID[:], a.ID[:]) })
	limit := f.Limit
	if limit <= 0 {
		limit = defaultLimit
	}
	return runs[:min(len(runs), limit)], nil
}

// Trim implements [journal.Store].
func (s *Store) Trim(ctx context.Context, p journal.Policy) (removed int, more bool, err error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, true); err != nil {
		return 0, false, err
	}
	most := p.Most
	if most <= 0 || most > maxTrim {
		most = maxTrim
	}
	var ended []*entry
	for _, e := range s.data.runs {
		if e.run.State.Ended() {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b *entry) int { return a.run.Ended.Compare(b.run.Ended) })
	expired := func(e *entry) bool {
		keep := p.KeepFailed
		if e.run.State == journal.OK {
			keep = p.KeepOK
		}
		return e.run.Ended.Before(ms(p.Now.Add(-keep)))
	}
	runs := func(due func(e *entry) bool) {
		for i, e := range ended {
			if e == nil || !due(e) {
				continue
			}
			if more = removed == most; more {
				return
			}
			s.data.remove(e)
			ended[i] = nil
			removed++
		}
	}
	// What is expired goes first: it may make enough room.
	if runs(expired); more {
		return removed, true, nil
	}
	signals, more := s.data.trimSignals(ms(p.Now), most-removed)
	removed += signals
	if more {
		return removed, true, nil
	}
	runs(func(*entry) bool { return p.MaxBytes > 0 && s.data.bytes > p.MaxBytes })
	return removed, more, nil
}

// kept reports whether a signal is kept at now: its time is not over, or a run waits for it and has before it was.
func (d *data) kept(one *journal.Signal, now time.Time) bool {
	if one.Until.After(now) {
		return true
	}
	for _, e := range d.runs {
		for _, w := range e.waits {
			if one.Event == "" || w.Namespace != one.Namespace || w.Event != one.Event || w.Key != one.Key {
				continue
			}
			if slices.ContainsFunc(e.records, func(r journal.Record) bool { return r.Pos == w.Pos && r.At.Before(one.Until) }) {
				return true
			}
		}
	}
	return false
}

// trimSignals removes signals that are not kept at now, at most some.
func (d *data) trimSignals(now time.Time, most int) (removed int, more bool) {
	d.signals = slices.DeleteFunc(d.signals, func(one *journal.Signal) bool {
		if more || d.kept(one, now) {
			return false
		}
		if more = removed == most; more {
			return false
		}
		delete(d.known, journal.SignalID{Namespace: one.Namespace, ID: one.ID})
		d.bytes -= sizeOf(one)
		removed++
		return true
	})
	return removed, more
}

func (d *data) remove(e *entry) {
	delete(d.runs, e.run.ID)
	if len(e.run.Key) > 0 {
		delete(d.keys, keyOf(&e.run))
	}
	d.bytes -= e.bytes
}

// waits returns copies of those that f selects, in some order.
func (s *Store) waits(ctx context.Context, f func(e *entry, w *journal.Wait) bool, order func(a, b journal.Wait) int) ([]journal.Wait, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	var waits []journal.Wait
	for _, e := range s.data.runs {
		for _, w := range e.waits {
			if f(e, &w) {
				w.Token = some(w.Token)
				waits = append(waits, w)
			}
		}
	}
	slices.SortFunc(waits, order)
	return waits, nil
}

// timed reports whether a run waits for a time.
func timed(e *entry, w *journal.Wait) bool { return e.run.State == journal.Waiting && !w.Due.IsZero() }

// byRun orders positions as databases do, which keep them with a sign.
func byRun(a, b journal.Wait) int {
	return cmp.Or(bytes.Compare(a.Run[:], b.Run[:]), cmp.Compare(int64(a.Pos), int64(b.Pos)))
}

func byDue(a, b journal.Wait) int { return cmp.Or(a.Due.Compare(b.Due), byRun(a, b)) }

// Waiting implements [journal.Store].
func (s *Store) Waiting(ctx context.Context, namespace, event, key string) ([]journal.Wait, error) {
	return s.waits(ctx, func(e *entry, w *journal.Wait) bool {
		return event != "" && e.run.State < journal.Paused && w.Namespace == namespace && w.Event == event && w.Key == key
	}, byRun)
}

// Token implements [journal.Store].
func (s *Store) Token(ctx context.Context, hash []byte) (journal.Wait, error) {
	waits, err := s.waits(ctx, func(_ *entry, w *journal.Wait) bool { return len(hash) > 0 && bytes.Equal(w.Token, hash) }, byRun)
	if err != nil {
		return journal.Wait{}, err
	}
	if len(waits) == 0 {
		return journal.Wait{}, fmt.Errorf("wait with a token: %w", journal.ErrNotFound)
	}
	return waits[0], nil
}

// Due implements [journal.Store].
func (s *Store) Due(ctx context.Context, now time.Time, limit int) ([]journal.Wait, error) {
	waits, err := s.waits(ctx, func(e *entry, w *journal.Wait) bool { return timed(e, w) && !w.Due.After(ms(now)) }, byDue)
	return waits[:min(len(waits), max(limit, 0))], err
}

// Next implements [journal.Store].
func (s *Store) Next(ctx context.Context) (time.Time, error) {
	waits, err := s.waits(ctx, func(e *entry, w *journal.Wait) bool { return timed(e, w) }, byDue)
	if err != nil || len(waits) == 0 {
		return time.Time{}, err
	}
	return waits[0].Due, nil
}

// Waits implements [journal.Store].
func (s *Store) Waits(ctx context.Context, run journal.ID) ([]journal.Wait, error) {
	return s.waits(ctx, func(_ *entry, w *journal.Wait) bool { return w.Run == run }, byRun)
}

// signals returns copies of those that f selects and that are not taken and are kept at now.
func (s *Store) signals(ctx context.Context, now time.Time, f func(one *journal.Signal) bool) ([]journal.Signal, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	var signals []journal.Signal
	for _, one := range s.data.signals {
		if one.Event != "" && f(one) && s.data.kept(one, ms(now)) {
			c := *one
			c.Payload = some(c.Payload)
			signals = append(signals, c)
		}
	}
	return signals, nil
}

// Signals implements [journal.Store].
func (s *Store) Signals(ctx context.Context, namespace, event, key string, now time.Time) ([]journal.Signal, error) {
	return s.signals(ctx, now, func(one *journal.Signal) bool {
		return one.Namespace == namespace && one.Event == event && one.Key == key
	})
}

// Untaken implements [journal.Store].
func (s *Store) Untaken(ctx context.Context, now time.Time) ([]journal.Signal, error) {
	signals, err := s.signals(ctx, now, func(*journal.Signal) bool { return true })
	for i := range signals {
		signals[i].Payload = nil
	}
	return signals, err
}

// Known implements [journal.Store].
func (s *Store) Known(ctx context.Context, namespace, id string) (bool, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return false, err
	}
	return s.data.known[journal.SignalID{Namespace: namespace, ID: id}] != nil, nil
}

// LastTick implements [journal.Store].
func (s *Store) LastTick(ctx context.Context, namespace, plan string) (time.Time, error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return time.Time{}, err
	}
	return s.data.ticks[[2]string{namespace, plan}], nil
}

// Check implements [journal.Store].
func (s *Store) Check(ctx context.Context) (found []string, err error) {
	s.data.Lock()
	defer s.data.Unlock()
	if err := s.usable(ctx, false); err != nil {
		return nil, err
	}
	idle := 0
	for _, e := range s.data.runs {
		if e.run.State == journal.Waiting && len(e.waits) == 0 {
			idle++
		}
	}
	if idle > 0 {
		found = append(found, fmt.Sprintf("%d runs in the state %v wait for nothing", idle, journal.Waiting))
	}
	return found, nil
}
