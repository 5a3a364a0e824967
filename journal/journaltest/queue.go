package journaltest

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

var mail = journal.QueueID{Namespace: "shop", Name: "mail"}

// NewItem returns run i as an item of the queue "mail" with a key, which is due at a second.
func NewItem(i int, key string, priority, due int) *journal.Run {
	r := NewRun(i)
	r.State, r.Revision = journal.Queued, ""
	r.Item = journal.Item{Queue: "mail", QueueKey: key, Priority: priority, Due: at(due)}
	return r
}

// next checks what NextItems returns at a second, by the numbers of the runs.
func (k *kit) nextItems(key string, now, limit int, next time.Time, want ...int) {
	k.t.Helper()
	items, due, err := k.s.NextItems(k.ctx(), mail, key, at(now), limit)
	if err != nil {
		k.t.Fatal(err)
	}
	var got, ids []journal.ID
	for _, r := range items {
		got = append(got, r.ID)
		if r.Queue != "mail" || r.QueueKey != key || r.State != journal.Queued || r.Input != nil {
			k.t.Errorf("NextItems returned %+v", r)
		}
	}
	for _, i := range want {
		ids = append(ids, ID(i))
	}
	if !slices.Equal(got, ids) {
		k.t.Errorf("NextItems of %q at %d: got %x, want the runs %v", key, now, got, want)
	}
	if !due.Equal(next) {
		k.t.Errorf("NextItems of %q at %d: the next is due at %v, want %v", key, now, due, next)
	}
}

// items puts items into a queue, and lets them begin.
func items(t *testing.T, k *kit) {
	k.commit(&journal.Batch{Starts: []*journal.Run{
		NewItem(3, "", 0, 3), NewItem(1, "", 0, 1), NewItem(2, "", 5, 2), NewItem(4, "", -5, 1), NewItem(5, "", 5, 50), NewItem(6, "other", 100, 0), NewItem(7, "", -5, 40),
	}})
	for range 2 {
		k.nextItems("", 10, 9, at(40), 2, 1, 3, 4)
		k.nextItems("", 10, 4, time.Time{}, 2, 1, 3, 4)
		k.nextItems("", 10, 2, time.Time{}, 2, 1)
		k.nextItems("", 1, 9, at(2), 1, 4)
		k.nextItems("", 50, 9, time.Time{}, 2, 5, 1, 3, 4, 7)
		k.nextItems("other", 10, 9, time.Time{}, 6)
		k.nextItems("none", 10, 9, time.Time{})
		k.same(k.get(2), NewItem(2, "", 5, 2))
		k.reopen()
	}
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(2), Revision: "r2", At: at(11)}, {Run: ID(99), At: at(11)}}})
	k.nextItems("", 10, 9, at(40), 1, 3, 4)
	want := NewItem(2, "", 5, 2)
	want.State, want.Revision, want.Begun = journal.Running, "r2", at(11)
	k.same(k.get(2), want)
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(2), Revision: "r3", At: at(12)}}}) // it has begun already
	k.same(k.get(2), want)
	if runs, err := k.s.Unfinished(k.ctx()); err != nil || len(runs) != 1 || runs[0].ID != ID(2) || runs[0].Queue != "mail" {
		t.Errorf("got the unfinished runs %+v, %v", runs, err)
	}
	k.commit(&journal.Batch{Starts: []*journal.Run{NewItem(8, "other", 0, 0)}, Waits: []journal.Wait{NewWait(2, 1)}, Ends: []journal.End{{Run: ID(2), State: journal.Waiting}}})
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(8), At: at(13)}}})
	taken, err := k.s.Taken(k.ctx(), mail)
	if err != nil || len(taken) != 2 || taken[0].ID == taken[1].ID || taken[0].Input != nil {
		t.Errorf("Taken: got %+v, %v, want the runs 2 and 8", taken, err)
	}
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(8), State: journal.OK, At: at(14)}}})
	if taken, err = k.s.Taken(k.ctx(), mail); err != nil || len(taken) != 1 || taken[0].ID != ID(2) {
		t.Errorf("Taken: got %+v, %v, want the run 2", taken, err)
	}
	if runs, err := k.s.List(k.ctx(), journal.Filter{Queue: "mail", Limit: 2}); err != nil || len(runs) != 2 || runs[0].ID != ID(8) || runs[0].QueueKey != "other" {
		t.Errorf("List of a queue: got %+v, %v", runs, err)
	}
	if runs, err := k.s.List(k.ctx(), journal.Filter{Queue: "letters"}); err != nil || len(runs) != 0 {
		t.Errorf("List of another queue: got %+v, %v", runs, err)
	}
}

// itemsRequeued lets an item fail, and begin again: what it waits for is gone, and what it has recorded is of before.
func itemsRequeued(t *testing.T, k *kit) {
	large := make([]byte, 40<<10)
	item := NewItem(1, "k", 0, 1)
	item.Input = append([]byte("input"), large...)
	item.Port = 2
	k.commit(&journal.Batch{Starts: []*journal.Run{item, NewRun(2)}})
	record := NewRecord(1, 1)
	record.Payload = append([]byte("record"), large...)
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(1), Revision: "r1", At: at(2)}}})
	k.commit(&journal.Batch{Records: []journal.Record{record}, Waits: []journal.Wait{NewWait(1, 1)}, Resumed: []journal.ID{ID(1)}})
	k.commit(&journal.Batch{
		Records:  []journal.Record{NewRecord(1, 2), NewRecord(2, 1)},
		Requeues: []journal.Requeue{{Run: ID(1), Due: at(30), Attempts: 1, Error: "no luck", Forget: true}, {Run: ID(2), Forget: true}},
	})
	want := NewItem(1, "k", 0, 30)
	want.Input, want.Port, want.Attempts, want.Error, want.Begun, want.Retried = item.Input, 2, 1, "no luck", at(2), 2
	for range 2 {
		k.same(k.get(1), want)
		k.records(1, record, NewRecord(1, 2))
		k.waits(1)
		k.nextItems("k", 29, 1, at(30))
		k.nextItems("k", 30, 1, time.Time{}, 1)
		k.records(2, NewRecord(2, 1)) // it is not an item
		k.same(k.get(2), NewRun(2))
		k.reopen()
	}
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(1), Revision: "r2", At: at(31)}}})
	k.commit(&journal.Batch{Records: []journal.Record{NewRecord(1, 3)}})
	k.commit(&journal.Batch{
		Requeues: []journal.Requeue{{Run: ID(1), Due: at(31), Attempts: 2}},
		Ends:     []journal.End{{Run: ID(1), State: journal.Dead, Answer: []byte("a"), Error: "again", At: at(32)}},
	})
	want.State, want.Revision, want.Attempts, want.Error, want.Answer, want.Ended, want.Due, want.Begun = journal.Dead, "r2", 2, "again", []byte("a"), at(32), at(31), at(31)
	k.same(k.get(1), want)
	k.records(1, record, NewRecord(1, 2), NewRecord(1, 3))
	k.commit(&journal.Batch{Requeues: []journal.Requeue{{Run: ID(1), Due: at(40)}}})
	want.State, want.Attempts, want.Error, want.Answer, want.Ended, want.Due = journal.Queued, 0, "", nil, time.Time{}, at(40)
	k.same(k.get(1), want)
	k.records(1, record, NewRecord(1, 2), NewRecord(1, 3))
}

// itemsChanged changes an item that is in its queue, whose key is free once it begins.
func itemsChanged(_ *testing.T, k *kit) {
	item := NewItem(1, "", 0, 1)
	item.Key = []byte("key")
	item.Input = make([]byte, 40<<10)
	k.commit(&journal.Batch{Starts: []*journal.Run{item}})
	for _, input := range [][]byte{append(make([]byte, 40<<10), 1), []byte("small")} {
		k.commit(&journal.Batch{Requeues: []journal.Requeue{{Run: ID(1), Due: at(7), Input: input, Forget: true}}})
		want := NewItem(1, "", 0, 7)
		want.Key, want.Input = item.Key, input
		k.same(k.get(1), want)
	}
	other := NewItem(2, "", 0, 1)
	other.Key = item.Key
	if b := k.commit(&journal.Batch{Starts: []*journal.Run{other}}); b.Existing[0] == nil || b.Existing[0].ID != ID(1) || b.Existing[0].State != journal.Queued {
		k.t.Errorf("got %+v in place of an item with the same key", b.Existing[0])
	}
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(1), Unkey: true, At: at(8)}}})
	if b := k.commit(&journal.Batch{Starts: []*journal.Run{other}}); b.Existing[0] != nil {
		k.t.Errorf("got %+v in place of an item whose key is free", b.Existing[0])
	}
}

// queueKeys lists the keys of a queue, page by page.
func queueKeys(t *testing.T, k *kit) {
	b := new(journal.Batch)
	var want []string
	for i := range 5 {
		key := fmt.Sprintf("key %d", i)
		want = append(want, key)
		b.Starts = append(b.Starts, NewItem(2*i, key, 0, i), NewItem(2*i+1, key, i, i))
	}
	elsewhere := NewItem(20, "elsewhere", 0, 0)
	elsewhere.Queue = "letters"
	b.Starts = append(b.Starts, NewItem(10, "", 0, 0), NewItem(11, "gone", 0, 0), elsewhere)
	k.commit(b)
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(11)}}})
	want = append([]string{""}, want...)
	var got []string
	var after *string
	for {
		page, err := k.s.QueueKeys(k.ctx(), mail, after, 2)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, page...)
		if len(page) < 2 {
			break
		}
		after = &page[1]
	}
	if !slices.Equal(got, want) {
		t.Errorf("got the keys %q, want %q", got, want)
	}
}

// queues counts items, and pauses queues.
func queues(t *testing.T, k *kit) {
	look := func(want ...journal.QueueState) {
		t.Helper()
		k.reopen()
		got, err := k.s.Queues(k.ctx())
		if err != nil {
			t.Fatal(err)
		}
		for i := range got {
			got[i].Oldest = got[i].Oldest.UTC()
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
	look()
	none := journal.QueueID{Namespace: "shop", Name: "none"}
	if oldest, err := k.s.Oldest(k.ctx(), mail); err != nil || !oldest.IsZero() {
		t.Errorf("the oldest of no items is %v, %v", oldest, err)
	}
	k.commit(&journal.Batch{Starts: []*journal.Run{NewItem(1, "", 0, 9), NewItem(2, "k", 0, 3), NewItem(3, "k", 0, 5), NewRun(4)}, Pauses: []journal.Pause{{Queue: none, Paused: true}}})
	k.commit(&journal.Batch{Claims: []journal.Claim{{Run: ID(2)}}, Pauses: []journal.Pause{{Queue: mail, Paused: true}}})
	look(journal.QueueState{Queue: mail, Paused: true, Queued: 2, Taken: 1, Oldest: at(5)}, journal.QueueState{Queue: none, Paused: true})
	if oldest, err := k.s.Oldest(k.ctx(), mail); err != nil || !oldest.Equal(at(5)) {
		t.Errorf("the oldest is of %v, %v, want %v", oldest, err, at(5))
	}
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(2), State: journal.OK, At: at(9)}, {Run: ID(3), State: journal.Cancelled, At: at(9)}}, Pauses: []journal.Pause{{Queue: none}, {Queue: mail}}})
	look(journal.QueueState{Queue: mail, Queued: 1, Oldest: at(9)})
}

// itemsBegun says when items have begun.
func itemsBegun(t *testing.T, k *kit) {
	b, claims := new(journal.Batch), new(journal.Batch)
	for i := range 6 {
		b.Starts = append(b.Starts, NewItem(i, "", 0, 0))
		if i < 5 {
			claims.Claims = append(claims.Claims, journal.Claim{Run: ID(i), At: at(10 + i)})
		}
	}
	k.commit(b)
	k.commit(claims)
	k.commit(&journal.Batch{Ends: []journal.End{{Run: ID(4), State: journal.OK, At: at(20)}}})
	for _, test := range []struct {
		after, limit int
		want         []int
	}{{0, 3, []int{14, 13, 12}}, {12, 9, []int{14, 13}}, {14, 9, nil}} {
		got, err := k.s.Begun(k.ctx(), mail, at(test.after), test.limit)
		if err != nil || len(got) != len(test.want) {
			t.Errorf("after %d: got %v, %v, want %v", test.after, got, err, test.want)
			continue
		}
		for i, want := range test.want {
			if !got[i].Equal(at(want)) {
				t.Errorf("after %d: got %v, want %v", test.after, got, test.want)
			}
		}
	}
}
