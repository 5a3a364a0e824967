// Package journaltest checks that a store of journals does what package journal says.
//
// Read [Run]. The package must not know which store it tests.
package journaltest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// A Filler is a store that can be made to find its disk full. Run uses it where the store
// has it.
type Filler interface{ Fill(full bool) }

// Run tests a store. The first call of open within a test makes an empty journal, each
// further call opens the same journal again; Run closes what it has opened.
func Run(t *testing.T, open func(t *testing.T) journal.Store) {
	for _, test := range []struct {
		name string
		f    func(t *testing.T, k *kit)
	}{
		{"Starts", starts}, {"Revisions", revisions}, {"Keys", keys}, {"KeysInOneBatch", keysInOneBatch}, {"KeysExpire", keysExpire}, {"SameID", sameID},
		{"Records", records}, {"LargePayloads", largePayloads}, {"Ends", ends}, {"Retries", retries}, {"Unfinished", unfinished}, {"List", list}, {"Trim", trim}, {"TrimBytes", trimBytes},
		{"Wait", wait}, {"Waits", waits}, {"WaitsEnd", waitsEnd}, {"WaitsOfDropped", waitsOfDropped}, {"WaitTokens", waitTokens}, {"WaitsDue", waitsDue}, {"Idle", idle},
		{"Signals", signals}, {"SignalsOrder", signalsOrder}, {"SignalsTaken", signalsTaken}, {"SignalsTrim", signalsTrim}, {"SignalsAwaited", signalsAwaited}, {"WaitsAtomic", waitsAtomic}, {"WaitsConcurrent", waitsConcurrent},
		{"Items", items}, {"ItemsRequeued", itemsRequeued}, {"ItemsChanged", itemsChanged}, {"QueueKeys", queueKeys}, {"Queues", queues}, {"ItemsBegun", itemsBegun},
		{"Ticks", ticks}, {"Atomic", atomic}, {"Full", full}, {"Context", contexts}, {"Closed", closed}, {"Concurrent", concurrent},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := &kit{t: t, open: open}
			k.reopen()
			test.f(t, k)
			if found, err := k.s.Check(k.ctx()); err != nil && !errors.Is(err, journal.ErrClosed) || len(found) > 0 {
				t.Errorf("Check found %q, %v", found, err)
			}
			k.shut()
		})
	}
}

// Time is when the runs of ID 0 start; later ones start a second later each.
var start = time.UnixMilli(1_800_000_000_123).UTC()

// ID returns the id of run i: a UUID of version 7.
func ID(i int) (id journal.ID) {
	binary.BigEndian.PutUint64(id[:], uint64(at(i).UnixMilli())<<16|7<<12)
	binary.BigEndian.PutUint64(id[8:], 1<<63|uint64(i))
	return id
}

func at(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }

// NewRun returns run i, which runs.
func NewRun(i int) *journal.Run {
	return &journal.Run{ID: ID(i), Namespace: "shop", Trigger: "orders", Revision: "r1", Level: 2, State: journal.Running, Input: fmt.Appendf(nil, "input %d", i), InputHash: 1<<63 | uint64(i), Created: at(i)}
}

func keyed(i int, key string, ttl time.Duration) *journal.Run {
	r := NewRun(i)
	r.Key, r.KeyUntil = []byte(key), r.Created.Add(ttl)
	return r
}

// NewRecord returns record n of run i.
func NewRecord(i int, n int32) journal.Record {
	return journal.Record{Run: ID(i), N: n, Pos: 1<<63 | uint64(n), Node: "charge", Type: journal.Result, Op: 200, Port: -1, Payload: fmt.Appendf(nil, "record %d of %d", n, i), InputHash: 1<<63 + 5, At: at(i)}
}

type kit struct {
	t    *testing.T
	open func(t *testing.T) journal.Store
	s    journal.Store
}

func (k *kit) ctx() context.Context { return context.Background() }

func (k *kit) shut() {
	k.t.Helper()
	if err := k.s.Close(); err != nil {
		k.t.Errorf("Close: %v", err)
	}
}

func (k *kit) reopen() {
	k.t.Helper()
	if k.s != nil {
		k.shut()
	}
	if k.s = k.open(k.t); k.s == nil {
		k.t.Fatal("there is no store")
	}
}

func (k *kit) commit(b *journal.Batch) *journal.Batch {
	k.t.Helper()
	if err := k.s.Commit(k.ctx(), b); err != nil {
		k.t.Fatalf("Commit: %v", err)
	}
	if len(b.Existing) != len(b.Starts) {
		k.t.Fatalf("Commit set %d of Existing for %d starts", len(b.Existing), len(b.Starts))
	}
	return b
}

func (k *kit) get(i int) *journal.Run {
	k.t.Helper()
	r, err := k.s.Get(k.ctx(), ID(i))
	if err != nil {
		k.t.Fatalf("Get of run %d: %v", i, err)
	}
	return r
}

func (k *kit) missing(i int) {
	k.t.Helper()
	if r, err := k.s.Get(k.ctx(), ID(i)); !errors.Is(err, journal.ErrNotFound) {
		k.t.Errorf("Get of run %d: got %v, %v, want %v", i, r, err, journal.ErrNotFound)
	}
	k.records(i)
}

// same compares runs; the zones of times do not matter.
func (k *kit) same(got, want *journal.Run) {
	k.t.Helper()
	g, w := *got, *want
	for _, r := range []*journal.Run{&g, &w} {
		r.Created, r.Ended, r.KeyUntil = r.Created.UTC(), r.Ended.UTC(), r.KeyUntil.UTC()
		for _, b := range []*[]byte{&r.Key, &r.Input, &r.Answer} {
			if len(*b) == 0 {
				*b = nil
			}
		}
	}
	if !reflect.DeepEqual(g, w) {
		k.t.Errorf("got the run\n%+v, want\n%+v", g, w)
	}
}

// records checks that the records of a run are those.
func (k *kit) records(i int, want ...journal.Record) {
	k.t.Helper()
	got, err := k.s.Records(k.ctx(), ID(i))
	if err != nil {
		k.t.Fatalf("Records of run %d: %v", i, err)
	}
	if len(got) != len(want) {
		k.t.Fatalf("got %d records of run %d, want %d", len(got), i, len(want))
	}
	for n := range got {
		g, w := got[n], want[n]
		g.At, w.At = g.At.UTC(), w.At.UTC()
		if !bytes.Equal(g.Payload, w.Payload) {
			k.t.Errorf("record %d of run %d: got a payload of %d bytes, want %d", g.N, i, len(g.Payload), len(w.Payload))
		}
		g.Payload, w.Payload = nil, nil
		if !reflect.DeepEqual(g, w) {
			k.t.Errorf("run %d: got the record\n%+v, want\n%+v", i, g, w)
		}
	}
}

func (k *kit) list(f journal.Filter, want ...int) {
	k.t.Helper()
	runs, err := k.s.List(k.ctx(), f)
	if err != nil {
		k.t.Fatalf("List: %v", err)
	}
	got := make([]journal.ID, len(runs))
	for i, r := range runs {
		got[i] = r.ID
		if r.Input != nil || r.Answer != nil {
			k.t.Errorf("List returned payloads of run %x", r.ID)
		}
	}
	ids := make([]journal.ID, len(want))
	for i, n := range want {
		ids[i] = ID(n)
	}
	if !slices.Equal(got, ids) {
		k.t.Errorf("List(%+v): got %x, want %x", f, got, ids)
	}
}

// trim removes until there are no more. A call removes as many as it may, or fewer if it
// takes long.
func (k *kit) trim(p journal.Policy, removed int) {
	k.t.Helper()
	got := 0
	for more := true; more; {
		var n int
		var err error
		if n, more, err = k.s.Trim(k.ctx(), p); err != nil {
			k.t.Fatalf("Trim: %v", err)
		}
		if p.Most > 0 && n > p.Most || more && n == 0 {
			k.t.Fatalf("Trim(%+v): got %d, %t", p, n, more)
		}
		got += n
	}
	if got != removed {
		k.t.Errorf("Trim(%+v): %d are removed, want %d", p, got, removed)
	}
}

func starts(_ *testing.T, k *kit) {
	one, two, three := NewRun(1), keyed(2, "key", time.Hour), NewRun(3)
	two.State, two.Level = journal.Queued, 1
	three.Input = nil
	b := k.commit(&journal.Batch{Starts: []*journal.Run{one, two, three}})
	for i, r := range b.Existing {
		if r != nil {
			k.t.Errorf("start %d: a run exists already: %+v", i, r)
		}
	}
	for range 2 {
		k.same(k.get(1), one)
		k.same(k.get(2), two)
		k.same(k.get(3), three)
		k.missing(4)
		k.reopen()
	}
}

func revisions(t *testing.T, k *kit) {
	first := journal.Revision{Hash: "abc", Body: []byte("document")}
	k.commit(&journal.Batch{Revisions: []journal.Revision{first}})
	k.commit(&journal.Batch{Revisions: []journal.Revision{first, {Hash: "def", Body: []byte{0, 255}}}})
	for range 2 {
		for _, want := range []journal.Revision{first, {Hash: "def", Body: []byte{0, 255}}} {
			if got, err := k.s.Revision(k.ctx(), want.Hash); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		}
		if _, err := k.s.Revision(k.ctx(), "none"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("got %v, want %v", err, journal.ErrNotFound)
		}
		k.reopen()
	}
}

// existing checks which run stands for the first start of a batch.
func (k *kit) existing(b *journal.Batch, i int) *journal.Run {
	k.t.Helper()
	if b.Existing[0] == nil || b.Existing[0].ID != ID(i) {
		k.t.Fatalf("got the existing run %+v, want run %d", b.Existing[0], i)
	}
	return b.Existing[0]
}

func keys(_ *testing.T, k *kit) {
	first := keyed(1, "order 1", time.Hour)
	k.commit(&journal.Batch{Starts: []*journal.Run{first}})

	// Under way: the run is found, and what came with the start is left out.
	b := k.commit(&journal.Batch{Starts: []*journal.Run{keyed(2, "order 1", time.Hour), NewRun(3)}, Records: []journal.Record{NewRecord(2, 1), NewRecord(1, 1)},
		Ends: []journal.End{{Run: ID(2), State: journal.OK, At: at(2)}}})
	k.same(k.existing(b, 1), first)
	if b.Existing[1] != nil {
		k.t.Errorf("a start without a key found %+v", b.Existing[1])
	}
	k.missing(2)
	k.records(1, NewRecord(1, 1))

	// Ended: its answer is there, also after a restart.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.OK, Answer: []byte("answer"), At: at(9)}}})
	want := *first
	want.State, want.Answer, want.Ended = journal.OK, []byte("answer"), at(9)
	for i := range 2 {
		b = k.commit(&journal.Batch{Starts: []*journal.Run{keyed(10+i, "order 1", time.Hour)}})
		k.same(k.existing(b, 1), &want)
		k.reopen()
	}

	// The key of another trigger or namespace is another key.
	trigger, namespace := keyed(20, "order 1", time.Hour), keyed(21, "order 1", time.Hour)
	trigger.Trigger, namespace.Namespace = "returns", "other"
	b = k.commit(&journal.Batch{Starts: []*journal.Run{trigger, namespace}})
	if b.Existing[0] != nil || b.Existing[1] != nil {
		k.t.Errorf("got the existing runs %+v", b.Existing)
	}
}

func keysInOneBatch(_ *testing.T, k *kit) {
	b := k.commit(&journal.Batch{Starts: []*journal.Run{keyed(1, "a", time.Hour), keyed(2, "a", time.Hour), keyed(3, "b", time.Hour)}})
	if b.Existing[0] != nil || b.Existing[2] != nil || b.Existing[1] == nil || b.Existing[1].ID != ID(1) {
		k.t.Errorf("got %+v, want the second to find the first", b.Existing)
	}
	k.missing(2)
}

func keysExpire(_ *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{keyed(1, "a", 10*time.Second)}, Ends: []journal.End{{Run: ID(1), State: journal.OK, At: at(2)}}})
	k.existing(k.commit(&journal.Batch{Starts: []*journal.Run{keyed(10, "a", 10*time.Second)}}), 1)
	b := k.commit(&journal.Batch{Starts: []*journal.Run{keyed(11, "a", 10*time.Second)}}) // the moment until which it counts
	if b.Existing[0] != nil {
		k.t.Errorf("an expired key finds %+v", b.Existing[0])
	}
	if old := k.get(1); old.Key != nil || !old.KeyUntil.IsZero() {
		k.t.Errorf("the run of before has the key %q until %v", old.Key, old.KeyUntil)
	}
	k.existing(k.commit(&journal.Batch{Starts: []*journal.Run{keyed(12, "a", time.Second)}}), 11)

	if r, err := k.s.Keyed(k.ctx(), NewRun(11).Namespace, NewRun(11).Trigger, []byte("a")); err != nil || r.ID != ID(11) {
		k.t.Errorf("Keyed: got %+v, %v, want the last run with the key", r, err)
	}
	if _, err := k.s.Keyed(k.ctx(), NewRun(11).Namespace, "other", []byte("a")); !errors.Is(err, journal.ErrNotFound) {
		k.t.Errorf("Keyed with another trigger: got %v", err)
	}

	forever := keyed(13, "b", 0)
	forever.KeyUntil = time.Time{}
	k.commit(&journal.Batch{Starts: []*journal.Run{forever}})
	k.existing(k.commit(&journal.Batch{Starts: []*journal.Run{keyed(1_000_000, "b", 0)}}), 13)
}

func sameID(_ *testing.T, k *kit) {
	first := NewRun(1)
	k.commit(&journal.Batch{Starts: []*journal.Run{first}})
	again := NewRun(1)
	again.Input = []byte("other")
	b := k.commit(&journal.Batch{Starts: []*journal.Run{again, NewRun(2)}, Records: []journal.Record{NewRecord(1, 1)}})
	k.same(k.existing(b, 1), first)
	k.same(k.get(1), first)
	k.get(2)
	k.records(1, NewRecord(1, 1)) // of the run that is under way
}

func records(_ *testing.T, k *kit) {
	var one, two []journal.Record
	for n := range int32(50) {
		r := NewRecord(1, n+1)
		r.Type = journal.RecordType(n) % (journal.Hold + 1)
		one, two = append(one, r), append(two, NewRecord(2, n+1))
	}
	one[7].Payload, one[7].Node = nil, ""
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(1), NewRun(2)}, Records: one[:1]})
	k.commit(&journal.Batch{Records: slices.Concat(two[:30], one[1:40])})
	k.commit(&journal.Batch{Records: slices.Concat(one[40:], two[30:])})
	for range 2 {
		k.records(1, one...)
		k.records(2, two...)
		k.records(3)
		k.reopen()
	}
}

func largePayloads(t *testing.T, k *kit) {
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	r := keyed(1, "a", time.Hour)
	r.Input = large
	one, two := NewRecord(1, 1), NewRecord(1, 2)
	one.Payload, two.Payload = large, large[:16<<10+1]
	k.commit(&journal.Batch{Starts: []*journal.Run{r}, Records: []journal.Record{one, two}})
	for range 2 {
		k.same(k.get(1), r)
		k.records(1, one, two)
		k.reopen()
	}
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.OK, Answer: large, At: at(1)}}})
	b := k.commit(&journal.Batch{Starts: []*journal.Run{keyed(2, "a", time.Hour)}})
	if got := k.existing(b, 1); !bytes.Equal(got.Answer, large) || !bytes.Equal(got.Input, large) {
		t.Errorf("got an answer of %d bytes and an input of %d, want %d", len(got.Answer), len(got.Input), len(large))
	}
	// A later end with a small answer.
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(1), State: journal.OK, Answer: []byte("small"), At: at(1)}}})
	if got := k.get(1); string(got.Answer) != "small" || !bytes.Equal(got.Input, large) {
		t.Errorf("got an answer of %d bytes and an input of %d", len(got.Answer), len(got.Input))
	}
	k.trim(journal.Policy{Now: at(100)}, 1)
	k.missing(1)
}

// badText is not UTF-8, and has a zero byte.
const badText = ": \xff\x00 end"

func ends(_ *testing.T, k *kit) {
	states := []journal.State{journal.OK, journal.Failed, journal.Cancelled, journal.Dead, journal.Paused, journal.Parked, journal.Stuck, journal.Diverged, journal.Waiting}
	b := new(journal.Batch)
	for i, state := range states {
		b.Starts = append(b.Starts, NewRun(i))
		b.Ends = append(b.Ends, journal.End{Run: ID(i), State: state, Answer: []byte{byte(i)}, Error: state.String() + badText, At: at(60)})
	}
	k.commit(&journal.Batch{Starts: b.Starts})
	k.commit(&journal.Batch{Ends: b.Ends, Waits: []journal.Wait{NewWait(8, 1)}})
	for range 2 {
		for i, state := range states {
			want := NewRun(i)
			want.State, want.Answer, want.Error = state, []byte{byte(i)}, state.String()+badText
			if state >= journal.OK {
				want.Ended = at(60)
			}
			k.same(k.get(i), want)
			k.list(journal.Filter{States: []journal.State{state}}, i)
		}
		k.reopen()
	}
}

func unfinished(t *testing.T, k *kit) {
	if runs, err := k.s.Unfinished(k.ctx()); err != nil || len(runs) > 0 {
		t.Fatalf("of an empty journal: %v, %v", runs, err)
	}
	b := new(journal.Batch)
	for i := range 5 {
		b.Starts = append(b.Starts, NewRun(5-i))
	}
	b.Starts = append(b.Starts, NewItem(6, "", 0, 0))
	b.Ends = []journal.End{{Run: ID(2), State: journal.OK, At: at(6)}, {Run: ID(1), State: journal.Waiting}, {Run: ID(5), State: journal.Parked, At: at(6)}} // 2 runs are left
	b.Waits = []journal.Wait{NewWait(1, 1)}
	k.commit(b)
	look := func(resumed int) {
		t.Helper()
		k.reopen()
		runs, err := k.s.Unfinished(k.ctx())
		if err != nil {
			t.Fatal(err)
		}
		if len(runs) != 2 {
			t.Fatalf("got %d runs, want 2: neither those that wait or are queued nor those that were put aside", len(runs))
		}
		for i, want := range []*journal.Run{NewRun(3), NewRun(4)} {
			if want.Input = nil; i == 0 {
				want.Resumed = resumed
			}
			k.same(runs[i], want)
		}
	}
	again := &journal.Batch{Resumed: []journal.ID{ID(3)}}
	look(0)
	k.commit(again)
	look(1)
	k.commit(again)
	look(2)
	k.commit(&journal.Batch{Records: []journal.Record{NewRecord(3, 1)}})
	if r := k.get(3); r.Resumed != 0 {
		t.Errorf("after a record it counts %d times", r.Resumed)
	}
	look(0)
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(3), State: journal.OK, At: at(7)}}})
	k.reopen()
	if runs, err := k.s.Unfinished(k.ctx()); err != nil || len(runs) != 1 {
		t.Errorf("got %d runs, %v, want 1", len(runs), err)
	}
}

func list(_ *testing.T, k *kit) {
	b := new(journal.Batch)
	for i := range 250 {
		r := NewRun(i)
		switch {
		case i < 10:
			r.Namespace = "other"
		case i < 20:
			r.Trigger = "returns"
		}
		b.Starts = append(b.Starts, r)
	}
	for i := range 5 {
		b.Ends = append(b.Ends, journal.End{Run: ID(i), State: journal.OK, Answer: []byte("a"), At: at(300)}, journal.End{Run: ID(10 + i), State: journal.Failed, At: at(300)})
	}
	k.commit(b)
	down := func(from, n int) (ids []int) {
		for i := range n {
			ids = append(ids, from-i)
		}
		return ids
	}
	k.list(journal.Filter{}, down(249, 200)...)
	k.list(journal.Filter{Limit: 3}, down(249, 3)...)
	k.list(journal.Filter{Limit: 3, After: ID(247)}, down(246, 3)...)
	k.list(journal.Filter{Limit: 3, After: ID(2)}, 1, 0)
	k.list(journal.Filter{After: ID(0)})
	k.list(journal.Filter{Namespace: "other"}, down(9, 10)...)
	k.list(journal.Filter{Trigger: "returns", Limit: 5}, down(19, 5)...)
	k.list(journal.Filter{Trigger: "returns", Namespace: "other"})
	k.list(journal.Filter{States: []journal.State{journal.OK}}, down(4, 5)...)
	k.list(journal.Filter{States: []journal.State{journal.OK, journal.Failed}, Limit: 7}, 14, 13, 12, 11, 10, 4, 3)
	k.list(journal.Filter{Since: at(247)}, down(249, 3)...)
	k.list(journal.Filter{Namespace: "shop", Trigger: "returns", States: []journal.State{journal.Running}, Since: at(16), After: ID(19)}, 18, 17, 16)
}

func trim(_ *testing.T, k *kit) {
	b := new(journal.Batch)
	for i := range 40 {
		b.Starts = append(b.Starts, keyed(i, fmt.Sprint(i), time.Hour))
		b.Records = append(b.Records, NewRecord(i, 1))
		state := []journal.State{journal.OK, journal.Failed, journal.Dead, journal.Parked, journal.Running}[i%5]
		if state != journal.Running {
			b.Ends = append(b.Ends, journal.End{Run: ID(i), State: state, At: at(i)})
		}
	}
	k.commit(b)
	p := journal.Policy{Now: at(100), KeepOK: 80 * time.Second, KeepFailed: 90 * time.Second, Most: 4}
	// Before 20 s ended well 0, 5, 10 and 15; before 10 s failed 1 and 6 and died 2 and 7.
	k.trim(p, 8)
	k.trim(p, 0)
	for _, i := range []int{0, 5, 10, 15, 1, 6, 2, 7} {
		k.missing(i)
	}
	for _, i := range []int{3, 4, 8, 9, 11, 12, 20} {
		k.get(i)
		k.records(i, NewRecord(i, 1))
	}
	// The key of a run that is gone is free.
	if b := k.commit(&journal.Batch{Starts: []*journal.Run{keyed(50, "0", time.Hour)}}); b.Existing[0] != nil {
		k.t.Errorf("a removed run is found by its key: %+v", b.Existing[0])
	}
	// What has not ended stays, however old it is.
	k.trim(journal.Policy{Now: at(10_000_000)}, 16)
	k.reopen()
	k.list(journal.Filter{}, 50, 39, 38, 34, 33, 29, 28, 24, 23, 19, 18, 14, 13, 9, 8, 4, 3)
}

func trimBytes(t *testing.T, k *kit) {
	const n = 300
	b := new(journal.Batch)
	for i := range n {
		r := NewRun(i)
		r.Input = bytes.Repeat([]byte{byte(i)}, 4000)
		b.Starts = append(b.Starts, r)
		if i%10 != 0 {
			b.Ends = append(b.Ends, journal.End{Run: ID(i), State: journal.OK + journal.State(i%2), At: at(i)})
		}
	}
	k.commit(b)
	p := journal.Policy{Now: at(0), KeepOK: time.Hour, KeepFailed: time.Hour, MaxBytes: 1 << 20, Most: 50}
	removed := 0
	for more := true; more; {
		var one int
		var err error
		if one, more, err = k.s.Trim(k.ctx(), p); err != nil || one > 50 || more && one == 0 {
			t.Fatalf("got %d, %t, %v", one, more, err)
		}
		removed += one
	}
	if removed < 20 || removed > 250 {
		t.Errorf("of %d runs of 4 KB, %d are removed for a limit of 1 MB", n, removed)
	}
	runs, err := k.s.List(k.ctx(), journal.Filter{Limit: n, States: []journal.State{journal.OK, journal.Failed}})
	if err != nil {
		t.Fatal(err)
	}
	if len(runs) != n-n/10-removed || runs[0].ID != ID(n-1) {
		t.Errorf("%d ended runs are left, the latest %x", len(runs), runs[0].ID)
	}
	// The oldest are gone.
	if oldest := runs[len(runs)-1].ID; bytes.Compare(oldest[:], func() []byte { id := ID(removed); return id[:] }()) < 0 {
		t.Errorf("%x is left although %d are removed", oldest, removed)
	}
	k.trim(p, 0)
	// With nothing to remove, it ends.
	p.MaxBytes, p.Most = 1, 0
	for more := true; more; {
		if _, more, err = k.s.Trim(k.ctx(), p); err != nil {
			t.Fatal(err)
		}
	}
	if runs, err := k.s.List(k.ctx(), journal.Filter{Limit: n}); err != nil || len(runs) != n/10 {
		t.Errorf("got %d runs, %v, want %d that have not ended", len(runs), err, n/10)
	}
}

func atomic(t *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(1)}, Records: []journal.Record{NewRecord(1, 1)}})
	bad := &journal.Batch{
		Revisions: []journal.Revision{{Hash: "h", Body: []byte("b")}}, Starts: []*journal.Run{NewRun(2)}, Records: []journal.Record{NewRecord(2, 1), NewRecord(1, 1)},
		Ends: []journal.End{{Run: ID(1), State: journal.OK, At: at(2)}},
	}
	if err := k.s.Commit(k.ctx(), bad); err == nil || errors.Is(err, journal.ErrFull) {
		t.Fatalf("a record number twice: got %v", err)
	}
	for range 2 {
		k.missing(2)
		k.same(k.get(1), NewRun(1))
		k.records(1, NewRecord(1, 1))
		if _, err := k.s.Revision(k.ctx(), "h"); !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("got %v, want %v", err, journal.ErrNotFound)
		}
		if err := k.s.Commit(k.ctx(), new(journal.Batch)); err == nil {
			t.Error("after an error it commits")
		}
		if _, _, err := k.s.Trim(k.ctx(), journal.Policy{Now: at(1)}); err == nil {
			t.Error("after an error it removes runs")
		}
	}
	k.reopen()
	k.missing(2)
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(2)}, Records: []journal.Record{NewRecord(1, 2)}})
	k.records(1, NewRecord(1, 1), NewRecord(1, 2))
}

func full(t *testing.T, k *kit) {
	filler, ok := k.s.(Filler)
	if !ok {
		return
	}
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(1)}})
	filler.Fill(true)
	b := &journal.Batch{Records: []journal.Record{NewRecord(1, 1)}}
	for i := range 500 {
		r := NewRun(100 + i)
		r.Input = bytes.Repeat([]byte{1, 2, 3, 4}, 2000)
		b.Starts = append(b.Starts, r)
	}
	for range 3 {
		if err := k.s.Commit(k.ctx(), b); !errors.Is(err, journal.ErrFull) {
			t.Fatalf("got %v, want %v", err, journal.ErrFull)
		}
		k.missing(100)
		k.records(1)
	}
	filler.Fill(false)
	k.commit(b)
	for range 2 {
		k.same(k.get(599), b.Starts[499])
		k.records(1, NewRecord(1, 1))
		k.reopen()
	}
}

func contexts(t *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{NewRun(1)}})
	ended, cancel := context.WithCancel(k.ctx())
	cancel()
	if _, err := k.s.Get(ended, ID(1)); !errors.Is(err, context.Canceled) {
		t.Errorf("Get: got %v", err)
	}
	if _, err := k.s.List(ended, journal.Filter{}); !errors.Is(err, context.Canceled) {
		t.Errorf("List: got %v", err)
	}
	k.get(1)
	if err := k.s.Commit(ended, &journal.Batch{Starts: []*journal.Run{NewRun(2)}}); !errors.Is(err, context.Canceled) {
		t.Errorf("Commit: got %v", err)
	}
	k.missing(2)
}

func closed(t *testing.T, k *kit) {
	k.shut()
	ctx := k.ctx()
	for name, f := range map[string]func() error{
		"Commit":     func() error { return k.s.Commit(ctx, new(journal.Batch)) },
		"Unfinished": func() error { _, err := k.s.Unfinished(ctx); return err },
		"Records":    func() error { _, err := k.s.Records(ctx, ID(1)); return err },
		"Revision":   func() error { _, err := k.s.Revision(ctx, "h"); return err },
		"Waiting":    func() error { _, err := k.s.Waiting(ctx, "n", "e", "k"); return err },
		"Token":      func() error { _, err := k.s.Token(ctx, []byte("t")); return err },
		"Due":        func() error { _, err := k.s.Due(ctx, at(1), 1); return err },
		"Next":       func() error { _, err := k.s.Next(ctx); return err },
		"Waits":      func() error { _, err := k.s.Waits(ctx, ID(1)); return err },
		"Signals":    func() error { _, err := k.s.Signals(ctx, "n", "e", "k", at(1)); return err },
		"Untaken":    func() error { _, err := k.s.Untaken(ctx, at(1)); return err },
		"Known":      func() error { _, err := k.s.Known(ctx, "n", "i"); return err },
		"Get":        func() error { _, err := k.s.Get(ctx, ID(1)); return err },
		"Keyed":      func() error { _, err := k.s.Keyed(ctx, "n", "t", []byte("k")); return err },
		"List":       func() error { _, err := k.s.List(ctx, journal.Filter{}); return err },
		"Trim":       func() error { _, _, err := k.s.Trim(ctx, journal.Policy{}); return err },
		"Check":      func() error { _, err := k.s.Check(ctx); return err },
	} {
		if err := f(); !errors.Is(err, journal.ErrClosed) {
			t.Errorf("%s after Close: got %v, want %v", name, err, journal.ErrClosed)
		}
	}
}

// concurrent reads and trims while batches are committed. A reader sees whole batches: a run
// has as many records as the end says.
func concurrent(t *testing.T, k *kit) {
	const batches, n = 60, 20
	done := make(chan struct{})
	var wg sync.WaitGroup
	loop := func(f func(i int) error) {
		wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-done:
					return
				default:
				}
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	loop(func(i int) error {
		runs, err := k.s.List(k.ctx(), journal.Filter{States: []journal.State{journal.OK}, Limit: 50})
		if err != nil {
			return err
		}
		for _, r := range runs {
			got, err := k.s.Records(k.ctx(), r.ID)
			if err != nil || len(got) != 1 && len(got) != 0 { // 0: removed meanwhile
				return fmt.Errorf("a run that has ended has %d records, %w", len(got), err)
			}
		}
		return nil
	})
	loop(func(i int) error {
		if _, err := k.s.Get(k.ctx(), ID(i%(batches*n))); err != nil && !errors.Is(err, journal.ErrNotFound) {
			return err
		}
		return nil
	})
	loop(func(i int) error {
		_, _, err := k.s.Trim(k.ctx(), journal.Policy{Now: at(i), Most: 5})
		return err
	})
	func() {
		defer wg.Wait()
		defer close(done)
		for i := range batches {
			b := new(journal.Batch)
			for j := range n {
				id := i*n + j
				b.Starts = append(b.Starts, NewRun(id))
				b.Records = append(b.Records, NewRecord(id, 1))
				b.Ends = append(b.Ends, journal.End{Run: ID(id), State: journal.OK, At: at(id)})
			}
			k.commit(b)
		}
	}()
	for {
		_, more, err := k.s.Trim(k.ctx(), journal.Policy{Now: at(batches * n)})
		if err != nil {
			t.Fatal(err)
		}
		if !more {
			break
		}
	}
	k.list(journal.Filter{})
}

// retries checks which runs another attempt lets go on, and what of them is left.
func retries(t *testing.T, k *kit) {
	b := new(journal.Batch)
	for state := journal.Queued; state <= journal.Diverged; state++ {
		i := int(state)
		b.Starts = append(b.Starts, NewRun(i))
		b.Records = append(b.Records, NewRecord(i, 1), NewRecord(i, 2), NewRecord(i, 3))
		b.Waits = append(b.Waits, NewWait(i, 1))
		if state > journal.Running {
			b.Ends = append(b.Ends, journal.End{Run: ID(i), State: state, Answer: bytes.Repeat([]byte("answer"), 10_000), Error: "it failed", At: at(i)})
		}
	}
	b.Records[0].Key = 1<<63 | 7
	b.Starts[0].State = journal.Queued
	k.commit(b)
	before := make(map[int]*journal.Run)
	retried := new(journal.Batch)
	for i := range b.Starts {
		before[i] = k.get(i)
		r := journal.Retry{Run: ID(i), Failures: i != int(journal.Waiting)}
		if i%2 == 0 {
			r.Revision = "r2"
		}
		retried.Retried = append(retried.Retried, r)
	}
	retried.Records = []journal.Record{NewRecord(int(journal.Failed), 4)}
	k.commit(retried)
	k.reopen()
	for i, want := range before {
		left := []journal.Record{NewRecord(i, 1), NewRecord(i, 2), NewRecord(i, 3)}
		left[0].Key = b.Records[3*i].Key
		if want.State.Retriable() {
			want.State, want.Answer, want.Error, want.Ended = journal.Running, nil, "", time.Time{}
			if i != int(journal.Waiting) {
				want.Retried = 3
			}
			if i == int(journal.Failed) {
				left = append(left, NewRecord(i, 4))
			}
			if i%2 == 0 {
				want.Revision, want.Moved = "r2", true
			}
		}
		k.same(k.get(i), want)
		k.records(i, left...)
	}
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(int(journal.Failed)), State: journal.OK, Answer: []byte("well"), At: at(9)}}})
	if r := k.get(int(journal.Failed)); string(r.Answer) != "well" || r.State != journal.OK || r.Retried != 3 {
		t.Errorf("after the attempt it is %+v", r)
	}
}
