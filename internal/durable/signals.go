package durable

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/kill"
	"github.com/uniflow-labs/uniflow/internal/run"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A signal is durable before its sender is told. Then all runs get it that wait for its event and key,
// or, if there is none, the first that waits for them later. Those that are not in memory are resumed,
// and get it when they wait again. The record of what came and the end of the wait are one commit, and
// the last of the runs also marks the signal as taken in that: after a crash before, it is given to
// those that wait then.

// An address is what a signal is for.
type address struct{ namespace, event, key string }

// A waiter is a wait of a run that is in memory.
type waiter struct {
	flight *flight
	id     journal.WaitID
	wake   func(value.Value) bool
	given  *delivery // that it has claimed; nil for none
}

// A delivery is a signal on its way.
type delivery struct {
	id      journal.SignalID
	payload value.Value
	until   time.Time                   // how long the signal is kept
	to      map[journal.WaitID]struct{} // which are still to get it, or have not recorded it
	got     bool                        // at least one has
	decided chan bool                   // of a reply, until it is known whether a wait gets it; else nil: see replies.go
}

// A sending is a signal that is becoming durable.
type sending struct {
	done  chan struct{}
	err   error // why it is not, once done is closed
	given bool  // of a reply: a run gets it; likewise
}

// signals are those of a keeper. Both locks are taken in this order, and before that of the keeper.
type signals struct {
	serial  sync.Mutex // over reads of the journal and what is decided by them: see read
	pending map[journal.SignalID]*sending

	mu         sync.Mutex
	waiting    map[address][]*waiter
	deliveries map[address][]*delivery
	kept       map[address]time.Time // until when there may be signals that are not taken
	most       int                   // of kept, before what has expired is removed

	// What the journal may not have yet, as it is not committed, or was not when it was read.
	ended   map[journal.WaitID]struct{}
	taken   map[journal.SignalID]struct{}
	reading bool
	gone    map[address][]journal.WaitID // not in memory any more
	settled []journal.Part               // committed while reading: to be removed from the three
}

// read lets the caller read the journal, and decide by what it has read, until it calls done.
func (s *signals) read() (done func()) {
	s.serial.Lock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = true
	return func() {
		s.mu.Lock()
		s.reading = false
		for _, p := range s.settled {
			s.settleLocked(p)
		}
		s.settled = nil
		s.mu.Unlock()
		s.serial.Unlock()
	}
}

// settle says that the ends of waits, waits and what was taken are committed.
func (s *signals) settle(p journal.Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.reading { // what was read may be older
		s.settled = append(s.settled, p)
		return
	}
	s.settleLocked(p)
}

func (s *signals) settleLocked(p journal.Part) {
	for _, id := range p.Over {
		delete(s.ended, id)
	}
	for _, id := range p.Taken {
		delete(s.taken, id)
	}
	for _, w := range p.Waits {
		at := address{w.Namespace, w.Event, w.Key}
		s.gone[at] = slices.DeleteFunc(s.gone[at], func(id journal.WaitID) bool { return id.Run == w.Run })
		if len(s.gone[at]) == 0 {
			delete(s.gone, at)
		}
	}
}

// settles calls settle for a part once the journal has it.
func (k *Keeper) settles(seq uint64, p journal.Part) {
	if k.journal.Flush(seq, func(err error) {
		if err == nil { // else nothing is given any more
			k.signals.settle(p)
		}
	}) {
		k.background(func() { k.signals.settle(p) }) // the caller may hold a lock
	}
}

// Signal implements [node.Signals].
func (k *Keeper) Signal(ctx context.Context, s node.Signal) error {
	sig := journal.Signal{Namespace: s.Namespace, ID: s.ID, Event: s.Event, Key: s.Key, Payload: encode(s.Payload), Until: time.Now().Add(s.Keep)}
	only, err := k.tokenOf(ctx, s.Token)
	switch {
	case err != nil:
		return err
	case only != nil:
		sig.Namespace, sig.ID, sig.Event, sig.Key = only.Namespace, tokenPrefix+hex.EncodeToString(only.Token), only.Event, only.Key
	case strings.HasPrefix(s.ID, tokenPrefix):
		return refused(http.StatusBadRequest, "the id of a signal does not begin with %s", tokenPrefix)
	}
	if err := k.journal.Ready(); err != nil {
		return unavailable(err)
	}
	sent, first, err := k.add(ctx, sig)
	if err != nil {
		return unavailable(err)
	}
	if !first {
		select {
		case <-sent.done:
			return sent.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	err = k.store(sig)
	kill.At(kill.SignalCommitted, err == nil)
	defer k.signals.read()()
	delete(k.signals.pending, journal.SignalID{Namespace: sig.Namespace, ID: sig.ID})
	if err != nil {
		sent.err = unavailable(err)
	}
	close(sent.done)
	if err != nil {
		return sent.err
	}
	given, err := k.dispatch(sig)
	if err == nil && !given && only != nil {
		return errToken
	}
	return err
}

// tokenPrefix is of the ids of signals that a token has sent.
const tokenPrefix = "token/"

var errToken error = &node.Error{Err: errors.New("nothing waits with this token: it was used, or its time is over"), Status: http.StatusNotFound, Public: true}

// tokenOf returns the wait that a token stands for; nil without a token.
func (k *Keeper) tokenOf(ctx context.Context, token string) (*journal.Wait, error) {
	if token == "" {
		return nil, nil
	}
	w, err := k.journal.Store().Token(ctx, run.TokenHash(token))
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, errToken
	case err != nil:
		return nil, unavailable(err)
	}
	return &w, nil
}

// add returns how a signal becomes durable, and whether the caller is the first who sends it, and is to
// make it so.
func (k *Keeper) add(ctx context.Context, sig journal.Signal) (sent *sending, first bool, err error) {
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	id := journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}
	if sent := s.pending[id]; sent != nil {
		return sent, false, nil
	}
	known, err := k.journal.Store().Known(ctx, id.Namespace, id.ID)
	if err != nil {
		return nil, false, err
	}
	sent = &sending{done: make(chan struct{})}
	if known {
		close(sent.done)
		return sent, false, nil
	}
	s.pending[id] = sent
	return sent, true, nil
}

// dispatch gives a signal that is durable to those that wait for it, and reports whether there are any. If
// not, it is kept, unless it is by a token. The caller reads.
func (k *Keeper) dispatch(sig journal.Signal) (given bool, err error) {
	at, s := address{sig.Namespace, sig.Event, sig.Key}, &k.signals
	payload, err := decode(sig.Payload)
	if err != nil {
		return false, fmt.Errorf("signal %s: %w", sig.ID, err)
	}
	rows, err := k.journal.Store().Waiting(k.ctx, at.namespace, at.event, at.key)
	byToken := strings.HasPrefix(sig.ID, tokenPrefix)
	var aside *journal.Wait
	if byToken && err == nil {
		if rows = slices.DeleteFunc(rows, func(w journal.Wait) bool { return tokenPrefix+hex.EncodeToString(w.Token) != sig.ID }); len(rows) == 0 {
			aside, err = k.aside(sig.ID)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.keep(at, sig.Until) // for the next that waits, at least
		return false, unavailable(err)
	}
	if aside != nil {
		if _, ended := s.ended[journal.WaitID{Run: aside.Run, Pos: aside.Pos}]; !ended {
			s.keep(at, sig.Until) // it gets that once it is retried or resumed
			k.background(func() { k.offer(at) })
			return true, nil
		}
	}
	d := &delivery{id: journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}, payload: payload, until: sig.Until}
	to := s.open(at, rows, !byToken) // the row of a token is there before anybody has it
	switch {
	case len(to) > 0:
		k.deliver(at, d, to)
	case byToken:
		s.taken[d.id] = struct{}{}
		part := journal.Part{Taken: []journal.SignalID{d.id}}
		k.settles(k.journal.Put(part), part)
	default:
		s.keep(at, sig.Until)
	}
	return len(to) > 0, nil
}

// aside returns the wait for a signal that a token has sent, of a run that was put aside; nil if there is none.
func (k *Keeper) aside(signal string) (*journal.Wait, error) {
	hash, err := hex.DecodeString(strings.TrimPrefix(signal, tokenPrefix))
	if err != nil {
		return nil, nil // of no token that there ever was
	}
	w, err := k.journal.Store().Token(k.ctx, hash)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &w, nil
}

// open returns the waits of an address that have not ended: the rows that were read, and if more is set
// those that have begun since. The caller holds mu.
func (s *signals) open(at address, rows []journal.Wait, more bool) (ids []journal.WaitID) {
	seen := make(map[journal.WaitID]struct{}, len(rows))
	add := func(id journal.WaitID) {
		_, ended := s.ended[id]
		if _, dup := seen[id]; !dup && !ended {
			seen[id] = struct{}{}
			ids = append(ids, id)
		}
	}
	for _, w := range rows {
		add(journal.WaitID{Run: w.Run, Pos: w.Pos})
	}
	if !more {
		return ids
	}
	for _, w := range s.waiting[at] {
		add(w.id)
	}
	for _, id := range s.gone[at] {
		add(id)
	}
	return ids
}

// unserved returns the open waits of an address that no signal is on its way to. The caller holds mu.
func (s *signals) unserved(at address, rows []journal.Wait) []journal.WaitID {
	served := make(map[journal.WaitID]bool)
	for _, d := range s.deliveries[at] {
		for id := range d.to {
			served[id] = true
		}
	}
	return slices.DeleteFunc(s.open(at, rows, true), func(id journal.WaitID) bool { return served[id] })
}

// deliver gives a signal to waits. Those that are not in memory, or that are being resumed or unloaded,
// get it when they begin again. The caller holds the lock of signals.
func (k *Keeper) deliver(at address, d *delivery, to []journal.WaitID) {
	s := &k.signals
	d.to = make(map[journal.WaitID]struct{}, len(to))
	for _, id := range to {
		d.to[id] = struct{}{}
	}
	s.deliveries[at] = append(s.deliveries[at], d)
	present := make(map[journal.WaitID]struct{})
	for _, w := range s.waiting[at] {
		if _, ok := d.to[w.id]; !ok {
			continue
		}
		present[w.id] = struct{}{}
		if w.given == nil {
			k.give(w, d)
		}
	}
	for _, id := range to {
		if _, ok := present[id]; !ok {
			d.decide(true)
			k.want(id.Run)
		}
	}
}

// keep notes that there is a signal that nothing has taken. The caller holds mu.
func (s *signals) keep(at address, until time.Time) {
	if until.After(s.kept[at]) {
		s.kept[at] = until
	}
	if len(s.kept) <= s.most {
		return
	}
	now := time.Now()
	maps.DeleteFunc(s.kept, func(_ address, until time.Time) bool { return until.Before(now) })
	s.most = max(leastKept, 2*len(s.kept))
}

// leastKept is how many addresses are kept before it is looked which have expired.
const leastKept = 1024

// give lets a waiter have a delivery. If its process is being unloaded, it asks again once it is resumed.
// The caller holds the lock of signals.
func (k *Keeper) give(w *waiter, d *delivery) {
	if w.wake(d.payload) {
		w.given = d
		d.decide(true)
		return
	}
	k.want(w.id.Run)
}

// begin lets a wait of a run in memory have signals.
func (k *Keeper) begin(at address, w *waiter) {
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[at] = append(s.waiting[at], w)
	for _, d := range s.deliveries[at] {
		if _, ok := d.to[w.id]; ok {
			k.give(w, d)
			return
		}
	}
	if _, ok := s.kept[at]; ok {
		k.background(func() { k.offer(at) })
	}
}

// offer gives signals that are kept to those that wait, one to each.
func (k *Keeper) offer(at address) {
	s := &k.signals
	defer s.read()()
	all, err := k.journal.Store().Signals(k.ctx, at.namespace, at.event, at.key, time.Now())
	var rows []journal.Wait
	if err == nil && len(all) > 0 {
		rows, err = k.journal.Store().Waiting(k.ctx, at.namespace, at.event, at.key)
	}
	if err != nil {
		if k.ctx.Err() == nil {
			k.log.Error("signals that are kept were not given", "event", at.event, "key", at.key, "error", err)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := make(map[journal.SignalID]bool)
	for _, d := range s.deliveries[at] {
		busy[d.id] = true
	}
	to, left := s.unserved(at, rows), false
	for _, sig := range all {
		id := journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}
		if _, taken := s.taken[id]; taken || busy[id] || s.pending[id] != nil {
			continue
		}
		first := recipient(sig, rows, to)
		if first < 0 {
			left = true
			continue
		}
		payload, err := decode(sig.Payload)
		if err != nil {
			k.log.Error("a signal cannot be read", "event", at.event, "key", at.key, "id", sig.ID, "error", err)
			continue
		}
		k.deliver(at, &delivery{id: id, payload: payload, until: sig.Until}, []journal.WaitID{to[first]})
		to = slices.Delete(to, first, first+1)
	}
	if !left {
		delete(s.kept, at)
	}
}

// recipient returns the index of the wait that gets a signal which was kept: the first, or the one of its token; -1 for
// none.
func recipient(sig journal.Signal, rows []journal.Wait, to []journal.WaitID) int {
	if !strings.HasPrefix(sig.ID, tokenPrefix) {
		return min(0, len(to)-1)
	}
	return slices.IndexFunc(to, func(id journal.WaitID) bool {
		return slices.ContainsFunc(rows, func(w journal.Wait) bool {
			return w.Run == id.Run && w.Pos == id.Pos && tokenPrefix+hex.EncodeToString(w.Token) == sig.ID
		})
	})
}

// over says that a wait has ended, and returns the signals that are not for any other: those are to be
// marked in the same commit, after which the caller calls settle.
func (k *Keeper) over(at address, id journal.WaitID) (taken []journal.SignalID) {
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	var given *delivery
	s.waiting[at] = slices.DeleteFunc(s.waiting[at], func(w *waiter) bool {
		if w.id == id {
			given = w.given
		}
		return w.id == id
	})
	s.ended[id] = struct{}{}
	return k.remove(at, id, given, true)
}

// remove takes a wait out of the deliveries of an address, one of which it was given; over says that it has ended. The
// caller holds the lock of signals, and puts what is taken into the journal.
func (k *Keeper) remove(at address, id journal.WaitID, given *delivery, over bool) (taken []journal.SignalID) {
	s := &k.signals
	s.deliveries[at] = slices.DeleteFunc(s.deliveries[at], func(d *delivery) bool {
		if _, ok := d.to[id]; !ok {
			return false
		}
		d.got = d.got || d == given
		delete(d.to, id)
		switch {
		case len(d.to) > 0:
			return false
		case d.got || over && strings.HasPrefix(d.id.ID, tokenPrefix): // what a token has sent is for no other
			taken = append(taken, d.id)
			s.taken[d.id] = struct{}{}
		case d.decide(false): // its sender goes on with it
		default: // it is for the next that waits
			s.keep(at, d.until)
			k.background(func() { k.offer(at) })
		}
		return true
	})
	s.tidy(at)
	return taken
}

// drop takes a run that waits for nothing any more out of all deliveries.
func (k *Keeper) drop(run journal.ID) {
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	var part journal.Part
	for at, all := range s.deliveries {
		for _, d := range slices.Clone(all) {
			for id := range d.to {
				if id.Run == run {
					part.Taken = append(part.Taken, k.remove(at, id, nil, false)...)
				}
			}
		}
	}
	if len(part.Taken) > 0 {
		k.settles(k.journal.Put(part), part)
	}
}

// left says that a run is not in memory any more. Until settle the journal may not have its waits.
func (k *Keeper) left(at address, f *flight) {
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[at] = slices.DeleteFunc(s.waiting[at], func(w *waiter) bool {
		if w.flight != f {
			return false
		}
		if f.rests {
			s.gone[at] = append(s.gone[at], w.id)
		}
		for _, d := range s.deliveries[at] { // it gets that when it begins again
			if _, ok := d.to[w.id]; ok {
				d.decide(true)
			}
		}
		return true
	})
	s.tidy(at)
}

func (s *signals) tidy(at address) {
	if len(s.waiting[at]) == 0 {
		delete(s.waiting, at)
	}
	if len(s.deliveries[at]) == 0 {
		delete(s.deliveries, at)
	}
}

// dispatchAll gives signals to those that wait that were not taken when the program ended.
func (k *Keeper) dispatchAll() {
	all, err := k.journal.Store().Untaken(k.ctx, time.Now())
	seen := make(map[address]bool)
	for _, sig := range all {
		at := address{sig.Namespace, sig.Event, sig.Key}
		if seen[at] || err != nil {
			continue
		}
		seen[at] = true
		err = k.dispatchTo(at)
	}
	if err != nil && k.ctx.Err() == nil {
		k.log.Error("signals of before the restart were not given", "error", err)
	}
}

// dispatchTo gives the signals of an address that were not taken when the program ended.
func (k *Keeper) dispatchTo(at address) error {
	s := &k.signals
	defer s.read()()
	all, err := k.journal.Store().Signals(k.ctx, at.namespace, at.event, at.key, time.Now())
	if err != nil {
		return err
	}
	for _, sig := range all {
		if s.busy(at, journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}) {
			continue
		}
		given, err := k.dispatch(sig)
		switch {
		case k.ctx.Err() != nil:
			return err
		case err != nil:
			k.log.Error("a signal of before the restart was not given", "event", at.event, "key", at.key, "id", sig.ID, "error", err)
		case !given && !strings.HasPrefix(sig.ID, tokenPrefix): // the rest come after it, also for what begins to wait now
			return nil
		}
	}
	return nil
}

// busy reports whether a signal was given already, or is about to be. The caller reads.
func (s *signals) busy(at address, id journal.SignalID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, taken := s.taken[id]
	return taken || s.pending[id] != nil || slices.ContainsFunc(s.deliveries[at], func(d *delivery) bool { return d.id == id })
}
