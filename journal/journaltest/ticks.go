package journaltest

import (
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/journal"
)

// ticks checks that the latest tick of each plan is kept that has started a run, and that it is
// committed with that.
func ticks(t *testing.T, k *kit) {
	tick := func(i int, plan string, minute int, key string) *journal.Run {
		r := keyed(i, key, time.Hour)
		r.Tick = journal.Tick{Plan: plan, At: start.Add(time.Duration(minute) * time.Minute)}
		return r
	}
	last := func(namespace, plan string, minute int) {
		t.Helper()
		want := time.Time{}
		if minute >= 0 {
			want = start.Add(time.Duration(minute) * time.Minute)
		}
		if got, err := k.s.LastTick(k.ctx(), namespace, plan); err != nil || !got.Equal(want) {
			t.Errorf("the last tick of %s in %s is %s, %v, want %s", plan, namespace, got, err, want)
		}
	}
	last("shop", "daily", -1)
	k.commit(&journal.Batch{Starts: []*journal.Run{tick(1, "daily", 1, "1"), tick(2, "hourly", 9, "9"), tick(3, "daily", 3, "3"), NewRun(4)}})
	k.commit(&journal.Batch{Starts: []*journal.Run{tick(5, "daily", 2, "2")}}) // it was late
	k.commit(&journal.Batch{Starts: []*journal.Run{tick(6, "daily", 4, "3")}}) // another run has its key
	for range 2 {
		last("shop", "daily", 3)
		last("shop", "hourly", 9)
		last("other", "daily", -1)
		k.reopen()
	}
	if _, _, err := k.s.Trim(k.ctx(), journal.Policy{Now: start.Add(1000 * time.Hour), Most: 100}); err != nil {
		t.Error(err)
	}
	last("shop", "daily", 3)
}
