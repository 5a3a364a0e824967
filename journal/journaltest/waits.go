package journaltest

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// NewWait returns a wait of run i for the event "paid" with the key "order i", or for its time.
func NewWait(i int, pos uint64) journal.Wait {
	return journal.Wait{Run: ID(i), Pos: 1<<63 | pos, Namespace: "shop", Event: "paid", Key: fmt.Sprintf("order %d", i), Due: at(1000 + i)}
}

// NewSignal returns signal i, of the event "paid" with the key "order i".
func NewSignal(i int) journal.Signal {
	return journal.Signal{Namespace: "shop", ID: fmt.Sprintf("signal %d", i), Event: "paid", Key: fmt.Sprintf("order %d", i), Payload: fmt.Appendf(nil, "payload %d", i), Until: at(1000 + i)}
}

func idOf(s journal.Signal) journal.SignalID {
	return journal.SignalID{Namespace: s.Namespace, ID: s.ID}
}

// wantWaits checks what a method has returned; the zones of times do not matter.
func (k *kit) wantWaits(what string, got []journal.Wait, err error, want ...journal.Wait) {
	k.t.Helper()
	if err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
	for i := range got {
		got[i].Due = got[i].Due.UTC()
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		k.t.Errorf("%s: got the waits\n%+v, want\n%+v", what, got, want)
	}
}

// waits checks what a run waits for.
func (k *kit) waits(i int, want ...journal.Wait) {
	k.t.Helper()
	got, err := k.s.Waits(k.ctx(), ID(i))
	k.wantWaits(fmt.Sprintf("Waits of run %d", i), got, err, want...)
}

func (k *kit) waiting(event, key string, want ...journal.Wait) {
	k.t.Helper()
	got, err := k.s.Waiting(k.ctx(), "shop", event, key)
	k.wantWaits(fmt.Sprintf("Waiting for %s %s", event, key), got, err, want...)
}

func (k *kit) due(now time.Time, limit int, want ...journal.Wait) {
	k.t.Helper()
	got, err := k.s.Due(k.ctx(), now, limit)
	k.wantWaits(fmt.Sprintf("Due at %v", now), got, err, want...)
}

func (k *kit) next(want time.Time) {
	k.t.Helper()
	if got, err := k.s.Next(k.ctx()); err != nil || !got.Equal(want) {
		k.t.Errorf("Next: got %v, %v, want %v", got, err, want)
	}
}

func (k *kit) wantSignals(what string, got []journal.Signal, err error, want ...journal.Signal) {
	k.t.Helper()
	if err != nil {
		k.t.Fatalf("%s: %v", what, err)
	}
	for i := range got {
		got[i].Until = got[i].Until.UTC()
	}
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		k.t.Errorf("%s: got the signals\n%+v, want\n%+v", what, got, want)
	}
}

func (k *kit) signals(key string, now time.Time, want ...journal.Signal) {
	k.t.Helper()
	got, err := k.s.Signals(k.ctx(), "shop", "paid", key, now)
	k.wantSignals("Signals with "+key, got, err, want...)
}

func (k *kit) untaken(now time.Time, want ...journal.Signal) {
	k.t.Helper()
	want = slices.Clone(want)
	for i := range want {
		want[i].Payload = nil
	}
	got, err := k.s.Untaken(k.ctx(), now)
	k.wantSignals("Untaken", got, err, want...)
}

func (k *kit) known(want bool, signals ...journal.Signal) {
	k.t.Helper()
	for _, s := range signals {
		if got, err := k.s.Known(k.ctx(), s.Namespace, s.ID); err != nil || got != want {
			k.t.Errorf("Known of %s %s: got %t, %v, want %t", s.Namespace, s.ID, got, err, want)
		}
	}
}

// putToWait starts runs, and lets each wait with some waits.
func (k *kit) putToWait(waits ...journal.Wait) {
	k.t.Helper()
	b := &journal.Batch{Waits: waits}
	for i := range waits {
		if i > 0 && waits[i].Run == waits[i-1].Run {
			continue
		}
		r := NewRun(0)
		r.ID = waits[i].Run
		b.Starts = append(b.Starts, r)
		b.Ends = append(b.Ends, journal.End{Run: r.ID, State: journal.Waiting, At: at(1)})
	}
	k.commit(b)
}

// wait puts a run to wait, lets it go on, and lets it wait again.
func wait(t *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(1)}})
	want := NewRun(1)
	for range 2 {
		k.commit(&journal.Batch{Waits: []journal.Wait{NewWait(1, 1)}, Ends: []journal.End{{Run: ID(1), State: journal.Waiting, At: at(5)}}})
		want.State, want.Resumed = journal.Waiting, 0
		for range 2 {
			k.same(k.get(1), want)
			if runs, err := k.s.Unfinished(k.ctx()); err != nil || len(runs) > 0 {
				t.Errorf("got %d unfinished runs, %v", len(runs), err)
			}
			k.reopen()
		}
		k.commit(&journal.Batch{Resumed: []journal.ID{ID(1)}})
		want.State, want.Resumed = journal.Running, 1
		for range 2 {
			k.same(k.get(1), want)
			k.waits(1, NewWait(1, 1)) // until it is over
			k.reopen()
			if runs, err := k.s.Unfinished(k.ctx()); err != nil || len(runs) != 1 {
				t.Errorf("got %d unfinished runs, %v, want 1", len(runs), err)
			}
		}
	}
	// What was resumed and has not recorded anything waits, and after a restart gets a record.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.Waiting}}})
	k.reopen()
	k.commit(&journal.Batch{Records: []journal.Record{NewRecord(1, 1)}})
	want.State, want.Resumed = journal.Waiting, 0
	k.same(k.get(1), want)

	// A run that was put aside goes on. One that has ended does not.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.Parked, At: at(6)}}})
	k.commit(&journal.Batch{Resumed: []journal.ID{ID(1)}})
	want.State, want.Resumed = journal.Running, 1
	k.same(k.get(1), want)
	// One that is paused has gone on without a crash.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.Paused, At: at(6)}}})
	want.State, want.Resumed, want.Ended = journal.Paused, 0, at(6)
	k.same(k.get(1), want)
	k.commit(&journal.Batch{Resumed: []journal.ID{ID(1)}})
	want.State, want.Resumed, want.Ended = journal.Running, 1, time.Time{}
	k.same(k.get(1), want)
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.Cancelled, At: at(7)}}})
	k.commit(&journal.Batch{Resumed: []journal.ID{ID(1), ID(2)}})
	want.State, want.Ended = journal.Cancelled, at(7)
	k.same(k.get(1), want)
}

func waits(t *testing.T, k *kit) {
	signal, either, timer, token := NewWait(1, 1), NewWait(1, 2), NewWait(2, 1), NewWait(3, 1)
	signal.Due = time.Time{}
	timer.Event, timer.Key = "", ""
	token.Key, token.Token = "", []byte{0, 255, 7}
	other := NewWait(4, 1)
	other.Namespace, other.Event, other.Key = "other", "paid", "order 1"
	late, large := NewWait(5, 1), NewWait(6, 5)
	late.Key = "order 1"
	large.Pos = 5 // without the highest bit
	k.putToWait(signal, either, timer, token, other, late, large)
	for range 2 {
		k.waits(0)
		k.waits(1, signal, either)
		k.waits(2, timer)
		k.waits(3, token)
		k.waits(6, large)
		k.waiting("paid", "order 1", signal, either, late)
		k.waiting("paid", "", token)
		k.waiting("paid", "none")
		k.waiting("", "")
		got, err := k.s.Waiting(k.ctx(), "other", "paid", "order 1")
		k.wantWaits("Waiting in another namespace", got, err, other)
		k.reopen()
	}
	// A run that was put aside does not wait until it is retried.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.Stuck, At: at(2)}}})
	k.waits(1, signal, either)
	k.waiting("paid", "order 1", late)
	k.commit(&journal.Batch{Retried: []journal.Retry{{Run: ID(1)}}})
	k.waiting("paid", "order 1", signal, either, late)

	// What is returned is a copy.
	for range 2 {
		got, err := k.s.Waits(k.ctx(), ID(3))
		k.wantWaits("Waits", got, err, token)
		got[0].Token[0] = 1
	}

	// The same run and position.
	again := either
	again.Namespace, again.Event, again.Key, again.Due, again.Token = "other", "sent", "a", at(9), []byte("t")
	k.commit(&journal.Batch{Waits: []journal.Wait{again}})
	k.waits(1, signal, again)
	k.waiting("paid", "order 1", signal, late)
	again.Event, again.Key, again.Due, again.Token = "", "of no event", time.Time{}, nil
	k.commit(&journal.Batch{Waits: []journal.Wait{again}})
	again.Key = ""
	k.waits(1, signal, again)

	// In one batch, over is after waits.
	k.commit(&journal.Batch{
		Waits: []journal.Wait{NewWait(1, 3), NewWait(1, 4)},
		Over:  []journal.WaitID{{Run: ID(1), Pos: again.Pos}, {Run: ID(1), Pos: 1<<63 | 4}, {Run: ID(1), Pos: 77}, {Run: ID(99), Pos: 1}},
	})
	for range 2 {
		k.waits(1, signal, NewWait(1, 3))
		k.waiting("paid", "order 1", signal, NewWait(1, 3), late)
		k.reopen()
	}
	fine := NewWait(1, 9)
	fine.Due = at(1).Add(123 * time.Microsecond)
	k.commit(&journal.Batch{Waits: []journal.Wait{fine}})
	if got, err := k.s.Waits(k.ctx(), ID(1)); err != nil || len(got) != 3 || !got[2].Due.Equal(at(1)) {
		t.Errorf("got %+v, %v, want a time of whole milliseconds", got, err)
	}
}

// waitsEnd checks when the waits of a run go, also after a restart.
func waitsEnd(_ *testing.T, k *kit) {
	states := []journal.State{journal.OK, journal.Failed, journal.Cancelled, journal.Dead, journal.Paused, journal.Parked, journal.Stuck, journal.Diverged, journal.Waiting}
	b := new(journal.Batch)
	for i, state := range states {
		k.putToWait(NewWait(i, 1), NewWait(i, 2))
		b.Ends = append(b.Ends, journal.End{Run: ID(i), State: state, At: at(60)})
	}
	b.Waits = []journal.Wait{NewWait(0, 3)} // of a run that ends in the same batch
	k.reopen()
	k.commit(b)
	for range 2 {
		for i, state := range states {
			if state.Ended() {
				k.waits(i)
				k.waiting("paid", NewWait(i, 1).Key)
			} else {
				k.waits(i, NewWait(i, 1), NewWait(i, 2))
			}
		}
		k.reopen()
	}
	k.trim(journal.Policy{Now: at(10_000)}, 4)
}

func waitsOfDropped(_ *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{keyed(1, "a", time.Hour)}, Waits: []journal.Wait{NewWait(1, 1), NewWait(1, 2)}})
	b := k.commit(&journal.Batch{
		Starts: []*journal.Run{keyed(2, "a", time.Hour), NewRun(1)}, // the second is the run that is under way
		Waits:  []journal.Wait{NewWait(2, 1), NewWait(1, 3)},
		Over:   []journal.WaitID{{Run: ID(2), Pos: 1<<63 | 1}, {Run: ID(1), Pos: 1<<63 | 1}},
	})
	k.existing(b, 1)
	k.waits(2)
	k.waits(1, NewWait(1, 2), NewWait(1, 3))
}

func waitTokens(t *testing.T, k *kit) {
	one, two := NewWait(1, 1), NewWait(2, 1)
	one.Token, two.Token = bytes.Repeat([]byte{1}, 32), bytes.Repeat([]byte{2}, 32)
	k.putToWait(one, two, NewWait(3, 1))
	for range 2 {
		for _, want := range []journal.Wait{one, two} {
			got, err := k.s.Token(k.ctx(), want.Token)
			k.wantWaits("Token", []journal.Wait{got}, err, want)
		}
		for _, hash := range [][]byte{nil, {}, {1}, bytes.Repeat([]byte{3}, 32)} {
			if got, err := k.s.Token(k.ctx(), hash); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("Token %x: got %+v, %v, want %v", hash, got, err, journal.ErrNotFound)
			}
		}
		k.reopen()
	}
	k.commit(&journal.Batch{Over: []journal.WaitID{{Run: ID(1), Pos: one.Pos}}, Ends: []journal.End{{Run: ID(1), State: journal.OK, At: at(2)}}})
	if got, err := k.s.Token(k.ctx(), one.Token); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the token of a wait that is over: got %+v, %v, want %v", got, err, journal.ErrNotFound)
	}
}

func waitsDue(_ *testing.T, k *kit) {
	k.next(time.Time{})
	k.due(at(10_000), 10)
	never, first, second := NewWait(5, 1), NewWait(4, 1), NewWait(4, 2)
	never.Due, first.Due, second.Due = time.Time{}, at(10), at(20)
	same := NewWait(3, 1)
	same.Due = at(20)
	k.putToWait(never, first, second, same)
	for range 2 {
		k.next(at(10))
		k.due(at(9), 10)
		k.due(at(10).Add(-time.Millisecond), 10)
		k.due(at(10), 10, first)
		k.due(at(10_000), 10, first, same, second)
		k.due(at(10_000), 2, first, same)
		k.due(at(10_000), 0)
		k.due(at(10_000), -1)
		k.reopen()
	}
	// A run that goes on is due no more, and one that waits again is.
	k.commit(&journal.Batch{Resumed: []journal.ID{ID(4)}})
	k.next(at(20))
	k.due(at(10_000), 10, same)
	k.commit(&journal.Batch{Over: []journal.WaitID{{Run: ID(4), Pos: first.Pos}}, Ends: []journal.End{{Run: ID(4), State: journal.Waiting}, {Run: ID(3), State: journal.Cancelled, At: at(21)}}})
	k.next(at(20))
	k.due(at(10_000), 10, second)
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(4), State: journal.Paused, At: at(22)}}})
	k.next(time.Time{})
	k.due(at(10_000), 10)
}

// idle checks that Check finds runs that wait for nothing.
func idle(t *testing.T, k *kit) {
	k.putToWait(NewWait(1, 1), NewWait(2, 1))
	k.commit(&journal.Batch{Over: []journal.WaitID{{Run: ID(2), Pos: 1<<63 | 1}}})
	for range 2 {
		if found, err := k.s.Check(k.ctx()); err != nil || len(found) != 1 || found[0] != "1 runs in the state waiting wait for nothing" {
			t.Errorf("got %q, %v", found, err)
		}
		k.reopen()
	}
	k.commit(&journal.Batch{Resumed: []journal.ID{ID(2)}})
}

func signals(t *testing.T, k *kit) {
	one, empty, event, namespace := NewSignal(1), NewSignal(2), NewSignal(3), NewSignal(1)
	empty.Payload, empty.Key = nil, ""
	event.Event, event.Key = "sent", "order 1"
	namespace.Namespace, namespace.Payload = "other", []byte("of another namespace")
	large := NewSignal(4)
	large.Payload = bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	k.commit(&journal.Batch{Signals: []journal.Signal{one, empty, event, namespace, large}})
	// The same id, in later batches and in one.
	again := NewSignal(1)
	again.Key, again.Payload = "order 9", []byte("again")
	twice := NewSignal(5)
	k.commit(&journal.Batch{Signals: []journal.Signal{again, twice, twice}})
	for range 2 {
		k.signals("order 1", at(0), one)
		k.signals("", at(0), empty)
		k.signals("order 4", at(0), large)
		k.signals("order 5", at(0), twice)
		k.signals("order 9", at(0))
		got, err := k.s.Signals(k.ctx(), "other", "paid", "order 1", at(0))
		k.wantSignals("Signals in another namespace", got, err, namespace)
		got, err = k.s.Signals(k.ctx(), "shop", "sent", "order 1", at(0))
		k.wantSignals("Signals of another event", got, err, event)
		k.untaken(at(0), one, empty, event, namespace, large, twice)
		k.known(true, one, namespace, twice)
		k.known(false, NewSignal(9), journal.Signal{Namespace: "third", ID: one.ID}, journal.Signal{Namespace: "shop"})

		// The moment until which it is kept.
		k.signals("order 1", at(1001).Add(-time.Millisecond), one)
		k.signals("order 1", at(1001))
		k.untaken(at(1003), large, twice)
		k.known(true, one)
		k.reopen()
	}
	// What is returned is a copy, and what was given is not kept.
	one.Payload[0] = 'P'
	for range 2 {
		got, err := k.s.Signals(k.ctx(), "shop", "paid", "order 1", at(0))
		if err != nil || len(got) != 1 || string(got[0].Payload) != "payload 1" {
			t.Fatalf("got %+v, %v", got, err)
		}
		got[0].Payload[0] = 'P'
	}
}

// signalsOrder checks that the order is that in which they came, whatever their ids, within a
// batch and from one to the next.
func signalsOrder(_ *testing.T, k *kit) {
	var want []journal.Signal
	for i := range 40 {
		b := new(journal.Batch)
		for j := range 5 {
			s := NewSignal(1)
			s.ID = fmt.Sprintf("%d", (i*5+j)*7919%1000)
			s.Until = at(1000 - i)
			b.Signals = append(b.Signals, s)
		}
		k.commit(b)
		want = append(want, b.Signals...)
		if i%10 == 5 {
			k.reopen()
		}
	}
	for range 2 {
		k.signals("order 1", at(0), want...)
		k.untaken(at(0), want...)
		k.reopen()
	}
}

func signalsTaken(_ *testing.T, k *kit) {
	one, two, three := NewSignal(1), NewSignal(2), NewSignal(3)
	one.Key, two.Key = "a", "a"
	k.commit(&journal.Batch{Signals: []journal.Signal{one, two}, Taken: []journal.SignalID{{Namespace: "shop", ID: "none"}, {Namespace: "other", ID: one.ID}}})
	k.signals("a", at(0), one, two)
	k.commit(&journal.Batch{Signals: []journal.Signal{three}, Taken: []journal.SignalID{idOf(one), idOf(three)}}) // one comes and is taken immediately
	for range 2 {
		k.signals("a", at(0), two)
		k.signals(three.Key, at(0))
		k.untaken(at(0), two)
		k.known(true, one, two, three)
		if got, err := k.s.Signals(k.ctx(), "shop", "", "", at(0)); err != nil || len(got) > 0 {
			k.t.Errorf("signals of no event: got %+v, %v", got, err)
		}
		k.reopen()
	}
	// Sent and taken again.
	k.commit(&journal.Batch{Signals: []journal.Signal{one}, Taken: []journal.SignalID{idOf(three)}})
	k.signals("a", at(0), two)
	k.untaken(at(0), two)
}

func signalsTrim(_ *testing.T, k *kit) {
	b := &journal.Batch{Starts: []*journal.Run{NewRun(1), NewRun(2)}, Ends: []journal.End{{Run: ID(1), State: journal.OK, At: at(1)}}}
	for i := range 100 {
		b.Signals = append(b.Signals, NewSignal(i)) // until 1000 + i
		if i%2 == 0 {
			b.Taken = append(b.Taken, idOf(b.Signals[i]))
		}
	}
	k.commit(b)
	keep := journal.Policy{KeepOK: 10_000 * time.Second, KeepFailed: 10_000 * time.Second, Most: 7}
	keep.Now = at(999)
	k.trim(keep, 0)
	k.known(true, b.Signals...)
	keep.Now = at(1019)
	k.trim(keep, 20)
	k.trim(keep, 0)
	for range 2 {
		k.known(false, b.Signals[:20]...)
		k.known(true, b.Signals[20:]...)
		k.reopen()
	}
	// An id that is forgotten is new.
	again := NewSignal(0)
	again.Until = at(5000)
	k.commit(&journal.Batch{Signals: []journal.Signal{again}})
	k.signals("order 0", at(1019), again)

	// With a run, within the same bound.
	keep = journal.Policy{Now: at(1049), KeepOK: time.Second, Most: 10}
	k.trim(keep, 31)
	k.missing(1)
	k.get(2)
	k.trim(keep, 0)
	k.known(true, b.Signals[50:]...)
	// Signals that say nothing of a time are not kept.
	k.commit(&journal.Batch{Signals: []journal.Signal{{Namespace: "shop", ID: "now", Event: "paid", Key: "now"}}})
	k.signals("now", at(0))
	k.trim(journal.Policy{Now: at(10_000)}, 52)
	k.untaken(at(0))
}

// signalsAwaited checks that a signal outlives its time while a run waits for it that has done so before, and no longer.
func signalsAwaited(_ *testing.T, k *kit) {
	k.putToWait(NewWait(1, 1), NewWait(2, 1), NewWait(3, 1))
	begun := func(i, second int) journal.Record {
		r := NewRecord(i, 1)
		r.Pos, r.At = NewWait(i, 1).Pos, at(second)
		return r
	}
	early := NewSignal(3) // its time was over when the run began to wait
	early.ID, early.Until = "early", at(20)
	other := NewSignal(3)
	other.ID, other.Event = "other", "sent"
	k.commit(&journal.Batch{
		Signals: []journal.Signal{NewSignal(1), NewSignal(2), NewSignal(3), early, other}, // until 1001, 1002 and 1003
		Records: []journal.Record{begun(1, 30), begun(2, 1002), begun(3, 30)},
		Ends:    []journal.End{{Run: ID(1), State: journal.Paused, At: at(30)}},
	})
	for range 2 {
		k.signals("order 1", at(5000), NewSignal(1))
		k.signals("order 2", at(5000))
		k.untaken(at(5000), NewSignal(1), NewSignal(3))
		k.trim(journal.Policy{Now: at(5000)}, 3)
		k.known(true, NewSignal(1), NewSignal(3))
		k.known(false, NewSignal(2), early, other)
		k.waits(1, NewWait(1, 1))
		k.due(at(5000), 10, NewWait(2, 1), NewWait(3, 1)) // not of the one that is paused
		k.reopen()
		k.commit(&journal.Batch{Signals: []journal.Signal{NewSignal(2), early, other}})
	}
	// One is taken, the wait for the other is over.
	k.commit(&journal.Batch{Taken: []journal.SignalID{idOf(NewSignal(1))}, Over: []journal.WaitID{{Run: ID(3), Pos: NewWait(3, 1).Pos}}, Ends: []journal.End{{Run: ID(3), State: journal.OK, At: at(6000)}}})
	k.signals("order 3", at(5000))
	k.trim(journal.Policy{Now: at(5000)}, 5)
	k.known(false, NewSignal(1), NewSignal(3))
}

// waitsAtomic checks that a batch that fails changes no waits and no signals.
func waitsAtomic(t *testing.T, k *kit) {
	k.putToWait(NewWait(1, 1))
	k.commit(&journal.Batch{Records: []journal.Record{NewRecord(1, 1)}, Signals: []journal.Signal{NewSignal(1)}})
	bad := &journal.Batch{
		Resumed: []journal.ID{ID(1)}, Records: []journal.Record{NewRecord(1, 1)}, Waits: []journal.Wait{NewWait(1, 2)}, Over: []journal.WaitID{{Run: ID(1), Pos: 1<<63 | 1}},
		Signals: []journal.Signal{NewSignal(2)}, Taken: []journal.SignalID{idOf(NewSignal(1))},
	}
	if err := k.s.Commit(k.ctx(), bad); err == nil {
		t.Fatal("a record number twice is not an error")
	}
	for range 2 {
		if r := k.get(1); r.State != journal.Waiting {
			t.Errorf("the run is %v", r.State)
		}
		k.waits(1, NewWait(1, 1))
		k.untaken(at(0), NewSignal(1))
		k.known(false, NewSignal(2))
		k.reopen()
	}
}

// waitsConcurrent sends signals to runs that wait while others look. A reader never sees a
// run that waits for nothing.
func waitsConcurrent(t *testing.T, k *kit) {
	const n = 60
	var wg sync.WaitGroup
	stop := make(chan struct{})
	look := func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			due, err := k.s.Due(k.ctx(), at(100_000), 3)
			if err == nil && len(due) > 0 {
				_, err = k.s.Next(k.ctx())
			}
			if err == nil {
				_, err = k.s.Waiting(k.ctx(), "shop", "paid", "order 7")
			}
			if err == nil {
				_, err = k.s.Untaken(k.ctx(), at(0))
			}
			if found, failed := k.s.Check(k.ctx()); err == nil && (failed != nil || len(found) > 0) {
				err = errors.Join(fmt.Errorf("damage was found: %q", found), failed)
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	}
	func() {
		defer wg.Wait()
		defer close(stop)
		wg.Go(look)
		for i := range n {
			k.putToWait(NewWait(i, 1))
			k.commit(&journal.Batch{Signals: []journal.Signal{NewSignal(i)}})
			k.commit(&journal.Batch{
				Resumed: []journal.ID{ID(i)}, Records: []journal.Record{NewRecord(i, 1)}, Over: []journal.WaitID{{Run: ID(i), Pos: 1<<63 | 1}}, Taken: []journal.SignalID{idOf(NewSignal(i))},
			})
		}
	}()
	k.untaken(at(0))
	k.next(time.Time{})
}
