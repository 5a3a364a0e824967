package durable

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

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
	to      []journal.WaitID // which are still to get it, or have not recorded it
	got     bool             // at least one has
}

// signals are those of a keeper. Both locks are taken in this order, and before that of the keeper.
type signals struct {
	serial  sync.Mutex // over reads of the journal and what is decided by them
	pending map[journal.SignalID]chan struct{}

	mu         sync.Mutex
	waiting    map[address][]*waiter
	deliveries map[address][]*delivery
	kept       map[address]bool // there may be signals that are not taken
}

// Signal implements [node.Signals].
func (k *Keeper) Signal(ctx context.Context, s node.Signal) error {
	sig := journal.Signal{Namespace: s.Namespace, ID: s.ID, Event: s.Event, Key: s.Key, Payload: encode(s.Payload), Until: time.Now().Add(s.Keep)}
	only, err := k.tokenOf(ctx, s.Token)
	if err != nil {
		return err
	}
	if only != nil {
		sig.Namespace, sig.ID, sig.Event, sig.Key = only.Namespace, tokenPrefix+hex.EncodeToString(only.Token), only.Event, only.Key
	}
	if err := k.journal.Ready(); err != nil {
		return unavailable(err)
	}
	added, done, err := k.add(ctx, sig)
	if err != nil {
		return unavailable(err)
	}
	if !added {
		select {
		case <-done: // that it was sent before is durable
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	committed := make(chan error, 1)
	if k.journal.Flush(k.journal.Put(journal.Part{Signals: []journal.Signal{sig}}), func(err error) { committed <- err }) {
		committed <- nil
	}
	err = <-committed // not by ctx: another sender of the id waits for this
	k.signals.serial.Lock()
	defer k.signals.serial.Unlock()
	delete(k.signals.pending, journal.SignalID{Namespace: sig.Namespace, ID: sig.ID})
	close(done)
	if err != nil {
		return unavailable(err)
	}
	return k.dispatch(sig)
}

// tokenPrefix is of the ids of signals that a token has sent.
const tokenPrefix = "token/"

// tokenOf returns the wait that a token stands for; nil without a token.
func (k *Keeper) tokenOf(ctx context.Context, token string) (*journal.Wait, error) {
	if token == "" {
		return nil, nil
	}
	w, err := k.journal.Store().Token(ctx, run.TokenHash(token))
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, &node.Error{Err: errors.New("nothing waits with this token: it was used, or its time is over"), Status: http.StatusNotFound, Public: true}
	case err != nil:
		return nil, unavailable(err)
	}
	return &w, nil
}

// add reports whether a signal is new. done is closed once it is durable.
func (k *Keeper) add(ctx context.Context, sig journal.Signal) (added bool, done chan struct{}, err error) {
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	id := journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}
	if done := s.pending[id]; done != nil {
		return false, done, nil
	}
	known, err := k.journal.Store().Known(ctx, id.Namespace, id.ID)
	if err != nil {
		return false, nil, err
	}
	done = make(chan struct{})
	if known {
		close(done)
		return false, done, nil
	}
	s.pending[id] = done
	return true, done, nil
}

// dispatch gives a signal that is durable to those that wait for it. The caller holds serial.
func (k *Keeper) dispatch(sig journal.Signal) error {
	at := address{sig.Namespace, sig.Event, sig.Key}
	payload, err := decode(sig.Payload)
	if err != nil {
		return fmt.Errorf("signal %s: %w", sig.ID, err)
	}
	rows, err := k.journal.Store().Waiting(k.ctx, at.namespace, at.event, at.key)
	if err != nil {
		return unavailable(err)
	}
	var absent []journal.ID
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	d := &delivery{id: journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}, payload: payload}
	token, byToken := strings.CutPrefix(sig.ID, tokenPrefix)
	for _, w := range rows {
		if byToken && hex.EncodeToString(w.Token) != token {
			continue
		}
		id := journal.WaitID{Run: w.Run, Pos: w.Pos}
		f := k.flightOf(w.Run)
		switch {
		case f == nil:
			absent = append(absent, w.Run)
		case !f.waits(w.Pos): // its end is not committed yet
			continue
		case !s.has(at, id): // it is being resumed, or unloaded
			absent = append(absent, w.Run)
		}
		d.to = append(d.to, id)
	}
	for _, w := range s.waiting[at] { // those that have just begun
		if !byToken && !slices.Contains(d.to, w.id) {
			d.to = append(d.to, w.id)
		}
	}
	if len(d.to) == 0 {
		s.kept[at] = true
		return nil
	}
	s.deliveries[at] = append(s.deliveries[at], d)
	for _, w := range s.waiting[at] {
		if w.given == nil && slices.Contains(d.to, w.id) {
			k.give(w, d)
		}
	}
	for _, id := range absent {
		k.want(id)
	}
	return nil
}

func (s *signals) has(at address, id journal.WaitID) bool {
	return slices.ContainsFunc(s.waiting[at], func(w *waiter) bool { return w.id == id })
}

// give lets a waiter have a delivery. If its process is being unloaded, it asks again once it is resumed.
// The caller holds the lock of signals.
func (k *Keeper) give(w *waiter, d *delivery) {
	if w.wake(d.payload) {
		w.given = d
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
		if slices.Contains(d.to, w.id) {
			k.give(w, d)
			return
		}
	}
	if s.kept[at] {
		k.background(func() { k.offer(at) })
	}
}

// offer gives signals that are kept to those that wait.
func (k *Keeper) offer(at address) {
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	all, err := k.journal.Store().Signals(k.ctx, at.namespace, at.event, at.key, time.Now())
	if err != nil {
		k.log.Error("signals that are kept were not given", "event", at.event, "key", at.key, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	left := len(all)
	for _, sig := range all {
		id := journal.SignalID{Namespace: sig.Namespace, ID: sig.ID}
		if slices.ContainsFunc(s.deliveries[at], func(d *delivery) bool { return d.id == id }) {
			left--
			continue
		}
		payload, err := decode(sig.Payload)
		if err != nil {
			k.log.Error("a signal cannot be read", "event", at.event, "key", at.key, "id", sig.ID, "error", err)
			continue
		}
		for _, w := range s.waiting[at] {
			d := &delivery{id: id, payload: payload, to: []journal.WaitID{w.id}}
			if w.given == nil && w.wake(payload) {
				w.given = d
				s.deliveries[at] = append(s.deliveries[at], d)
				left--
				break
			}
		}
	}
	if left == 0 {
		delete(s.kept, at)
	}
}

// over says that a wait has ended, and returns the signals that nobody is to get any more: those are to be
// marked in the same commit.
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
	s.deliveries[at] = slices.DeleteFunc(s.deliveries[at], func(d *delivery) bool {
		d.got = d.got || d == given
		d.to = slices.DeleteFunc(d.to, func(one journal.WaitID) bool { return one == id })
		switch {
		case len(d.to) > 0:
			return false
		case d.got:
			taken = append(taken, d.id)
		default: // it is for the next that waits
			s.kept[at] = true
			k.background(func() { k.offer(at) })
		}
		return true
	})
	s.tidy(at)
	return taken
}

// left says that a run is not in memory any more.
func (k *Keeper) left(at address, f *flight) {
	s := &k.signals
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiting[at] = slices.DeleteFunc(s.waiting[at], func(w *waiter) bool { return w.flight == f })
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
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	all, err := k.journal.Store().Untaken(k.ctx, time.Now())
	seen := make(map[address]bool)
	for _, sig := range all {
		at := address{sig.Namespace, sig.Event, sig.Key}
		if seen[at] {
			continue
		}
		seen[at] = true
		var full []journal.Signal
		full, err = k.journal.Store().Signals(k.ctx, at.namespace, at.event, at.key, time.Now())
		for _, sig := range full {
			if err == nil {
				err = k.dispatch(sig)
			}
		}
		if err != nil {
			break
		}
	}
	if err != nil && k.ctx.Err() == nil {
		k.log.Error("signals of before the restart were not given", "error", err)
	}
}
