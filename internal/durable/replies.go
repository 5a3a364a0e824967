package durable

import (
	"context"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
)

// A reply is a signal for the first run that waits for it. If none does it is not kept, as it is a message
// that begins something else, as the one decides that has brought it. So it is stored only once a run waits, and
// then given, unless the time of the wait has come meanwhile. In that case the journal has it, not taken,
// until what it begins is durable: a crash in between loses nothing.

// Reply implements [node.Signals].
func (k *Keeper) Reply(ctx context.Context, s node.Signal) (given bool, err error) {
	given, taken, err := k.reply(ctx, s)
	switch {
	case err != nil:
		return false, unavailable(err)
	case !given:
		taken()
	}
	return given, nil
}

// given is the receipt of a message that a process has waited for.
func given() *node.Receipt {
	done := make(chan struct{})
	close(done)
	return &node.Receipt{
		Given: true, Done: done, Answer: func() node.Response { return node.Response{None: true} }, Leave: func() {},
		Stored: func(done func(error)) { done(nil) }, Away: func() <-chan struct{} { return done },
	}
}

// keyed returns the run that had the key of a flight before, or nil.
func (k *Keeper) keyed(f *flight) (*journal.Run, error) {
	r, err := k.journal.Store().Keyed(k.ctx, f.key.namespace, f.key.trigger, f.run.Key)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	case !r.KeyUntil.IsZero() && !r.KeyUntil.After(f.run.Created):
		return nil, nil
	}
	return r, nil
}

// offerMessage gives the message of a submission to a process that waits for it, and then sets given, unless a run had the
// key before. If no process waits, taken is called when what the message begins is durable.
func (k *Keeper) offerMessage(f *flight, s node.Submission) (existing *journal.Run, taken func(), err error) {
	if s.Message == nil {
		return nil, func() {}, nil
	}
	if existing, err = k.keyed(f); err != nil || existing != nil {
		return existing, nil, err
	}
	f.given, taken, err = k.offered(s)
	return nil, taken, err
}

// offered gives the message of a submission to a process that waits for it: in memory, or by the journal. If
// none does, taken is called when what it begins is durable.
func (k *Keeper) offered(s node.Submission) (given bool, taken func(), err error) {
	if err := k.journal.Ready(); err != nil { // or it would be lost with what has waited in memory
		return false, nil, err
	}
	if s.Offer != nil && s.Offer() {
		return true, nil, nil
	}
	ctx, cancel := context.WithTimeout(k.ctx, replyPatience)
	defer cancel()
	return k.reply(ctx, *s.Message)
}

// reply gives a signal to the first run that waits for it. If none does, taken is called when the caller has
// done what follows.
func (k *Keeper) reply(ctx context.Context, s node.Signal) (given bool, taken func(), err error) {
	sig := journal.Signal{Namespace: s.Namespace, ID: s.ID, Event: s.Event, Key: s.Key, Payload: encode(s.Payload), Until: time.Now().Add(s.Keep)}
	at, id := address{s.Namespace, s.Event, s.Key}, journal.SignalID{Namespace: s.Namespace, ID: s.ID}
	sent, state, err := k.beginReply(ctx, at, id)
	if err != nil {
		return false, nil, err
	}
	nothing := func() {}
	switch state {
	case replyUnwanted:
		return false, nothing, nil
	case replyNew, replyStored:
		k.background(func() { // and not by ctx: another sender of the id may wait for this
			var given bool
			var err error
			if state == replyNew {
				err = k.store(sig)
			}
			if err == nil {
				given, err = k.giveReply(at, id, s)
			}
			k.endReply(id, sent, given, err)
		})
	}
	select {
	case <-sent.done:
	case <-ctx.Done():
		return false, nil, context.Cause(ctx)
	case <-k.ctx.Done():
		return false, nil, node.ErrStopped
	}
	switch {
	case sent.err != nil:
		return false, nil, sent.err
	case sent.given:
		return true, nothing, nil
	}
	return false, func() { k.markTaken(id) }, nil
}

// What beginReply finds.
const (
	replyUnwanted = iota // no run waits for it
	replyKnown           // it was sent before: sent says what has come of that
	replyNew             // it is to be stored
	replyStored          // the journal has it, and no run has got it
)

// replyPatience is how long the sender of a message waits for the journal. Platforms want an answer within
// three seconds, and send the message again.
const replyPatience = 2500 * time.Millisecond

// beginReply finds out whether a reply was sent before, and whether a run waits for it. In the last two states
// the caller calls endReply.
func (k *Keeper) beginReply(ctx context.Context, at address, id journal.SignalID) (sent *sending, state int, err error) {
	s := &k.signals
	defer s.read()()
	if sent := s.pending[id]; sent != nil {
		return sent, replyKnown, nil
	}
	known, err := k.journal.Store().Known(ctx, id.Namespace, id.ID)
	if err != nil {
		return nil, 0, err
	}
	sent = &sending{done: make(chan struct{})}
	if known {
		left, err := k.untaken(ctx, at, id)
		if err != nil {
			return nil, 0, err
		}
		if !left || s.busy(at, id) {
			sent.given = true
			close(sent.done)
			return sent, replyKnown, nil
		}
		s.pending[id] = sent
		return sent, replyStored, nil
	}
	rows, err := k.journal.Store().Waiting(ctx, at.namespace, at.event, at.key)
	if err != nil {
		return nil, 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.unserved(at, rows)) == 0 {
		return nil, replyUnwanted, nil
	}
	s.pending[id] = sent
	return sent, replyNew, nil
}

// untaken reports whether the journal has a signal that no run has got.
func (k *Keeper) untaken(ctx context.Context, at address, id journal.SignalID) (bool, error) {
	all, err := k.journal.Store().Signals(ctx, at.namespace, at.event, at.key, time.Now())
	for _, sig := range all {
		if sig.ID == id.ID {
			return true, err
		}
	}
	return false, err
}

// store makes a signal durable.
func (k *Keeper) store(sig journal.Signal) error {
	if err := k.journal.Ready(); err != nil {
		return err
	}
	committed := make(chan error, 1)
	k.whenDurable(k.journal.Put(journal.Part{Signals: []journal.Signal{sig}}), func(err error) { committed <- err })
	return <-committed // not by a context: another sender of the id waits for this
}

// giveReply gives a signal that is durable to the first run that waits for it.
func (k *Keeper) giveReply(at address, id journal.SignalID, s node.Signal) (given bool, err error) {
	d := &delivery{id: id, payload: s.Payload, until: time.Now().Add(s.Keep), decided: make(chan bool, 1)}
	decided := d.decided
	if found, err := k.deliverReply(at, d); err != nil || !found {
		return false, err
	}
	select {
	case given = <-decided:
		return given, nil
	case <-k.ctx.Done(): // it is given when the program starts again, unless it is sent again before
		return false, node.ErrStopped
	}
}

func (k *Keeper) deliverReply(at address, d *delivery) (found bool, err error) {
	s := &k.signals
	defer s.read()()
	rows, err := k.journal.Store().Waiting(k.ctx, at.namespace, at.event, at.key)
	if err != nil {
		return false, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	to := s.unserved(at, rows)
	if len(to) == 0 {
		return false, nil
	}
	k.deliver(at, d, to[:1])
	return true, nil
}

// endReply tells those who have sent the same reply what has come of it.
func (k *Keeper) endReply(id journal.SignalID, sent *sending, given bool, err error) {
	s := &k.signals
	s.serial.Lock()
	defer s.serial.Unlock()
	delete(s.pending, id)
	sent.given, sent.err = given, err
	close(sent.done)
}

// markTaken marks a signal as taken.
func (k *Keeper) markTaken(id journal.SignalID) {
	s := &k.signals
	s.mu.Lock()
	s.taken[id] = struct{}{}
	s.mu.Unlock()
	part := journal.Part{Taken: []journal.SignalID{id}}
	k.settles(k.journal.Put(part), part)
}

// decide says whether a wait gets a reply. It reports false if that was known already, or the delivery is of no
// reply. The caller holds the lock of signals.
func (d *delivery) decide(given bool) bool {
	if d.decided == nil {
		return false
	}
	d.decided <- given // the one value that it has room for
	d.decided = nil
	return true
}
