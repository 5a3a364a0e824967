package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A committed is what the environment of a committer has got.
type committed struct {
	sync.Mutex
	*committer
	calls    []string
	err      error // of the next call of Settle
	withheld bool
}

func newCommitted(t Traits) *committed {
	w := new(committed)
	w.committer = &committer{
		traits: t, limit: 10, interval: time.Second, ctx: context.Background(), log: discard, after: node.SystemClock{}.AfterFunc,
		mu: &w.Mutex, wake: sync.Cond{L: &w.Mutex}, connected: true,
	}
	note := func(format string, args ...any) { w.calls = append(w.calls, fmt.Sprintf(format, args...)) }
	w.env = commitEnv{
		settle: func(_ context.Context, s Settled) (err error) {
			w.Lock()
			defer w.Unlock()
			note("settle %d", len(s.Outcomes))
			for _, m := range s.Marks {
				note("mark %d:%d", m.Lane, m.Offset)
			}
			err, w.err = w.err, nil
			return err
		},
		keep: func(marks []Mark) error {
			w.Lock()
			defer w.Unlock()
			note("keep %d", len(marks))
			return nil
		},
		withheld: func() bool { return w.withheld },
		reported: func() {},
		lost:     func(err error) { note("lost") },
		unkept:   func(err error) { note("unkept") },
	}
	return w
}

// mark settles a message of a lane, whose mark is offset then.
func (w *committed) mark(l *lane, offset int64) {
	w.Lock()
	defer w.Unlock()
	l.mark, l.marked = Mark{Lane: l.number, Offset: offset}, true
	w.settled(l, true, Outcome{})
}

func (w *committed) want(t *testing.T, want ...string) {
	t.Helper()
	w.Lock()
	defer w.Unlock()
	if !slices.Equal(w.calls, want) {
		t.Errorf("got %q, want %q", w.calls, want)
	}
	w.calls = nil
}

// run runs a test with the goroutine of the committer, which ends with it.
func (w *committed) test(t *testing.T, test func(t *testing.T)) {
	synctest.Test(t, func(t *testing.T) {
		var work sync.WaitGroup
		work.Go(w.committer.run)
		test(t)
		w.Lock()
		w.committer.close()
		w.Unlock()
		work.Wait()
	})
}

// TestCommitterCommits commits the latest marks after the interval, or as soon as there are enough.
func TestCommitterCommits(t *testing.T) {
	w := newCommitted(Traits{Positions: true})
	w.test(t, func(t *testing.T) {
		l := &lane{number: 3}
		w.mark(l, 1)
		w.mark(l, 2)
		synctest.Wait()
		w.want(t)
		<-time.After(1100 * time.Millisecond)
		w.want(t, "settle 0", "mark 3:2", "keep 1")
		for i := range int64(commitAfter) {
			w.mark(l, 3+i)
		}
		synctest.Wait()
		w.want(t, "settle 0", "mark 3:1002", "keep 1")
	})
	w.want(t)
}

// TestCommitterRepeats commits again what has failed, with the mark that a lane has then, but not
// of a lane that was released meanwhile.
func TestCommitterRepeats(t *testing.T) {
	w := newCommitted(Traits{Positions: true})
	w.test(t, func(t *testing.T) {
		kept, released := &lane{number: 1}, &lane{number: 2}
		w.err = errors.New("busy")
		w.mark(kept, 1)
		w.mark(released, 1)
		w.Lock()
		released.released = true // while Settle is called
		w.Unlock()
		<-time.After(1100 * time.Millisecond)
		w.want(t, "settle 0", "mark 1:1", "mark 2:1")
		w.mark(kept, 5)
		<-time.After(1100 * time.Millisecond)
		w.want(t, "settle 0", "mark 1:5", "keep 1")
	})
}

// TestCommitterReports passes outcomes on immediately, and none without a connection.
func TestCommitterReports(t *testing.T) {
	w := newCommitted(Traits{Redelivers: true})
	w.test(t, func(t *testing.T) {
		w.err = fmt.Errorf("%w: reset", ErrLost)
		w.Lock()
		w.settled(&lane{}, false, Outcome{})
		w.Unlock()
		synctest.Wait()
		w.want(t, "settle 1", "lost")
		w.Lock()
		w.settled(&lane{}, false, Outcome{})
		w.Unlock()
		synctest.Wait()
		w.want(t)
		w.Lock()
		w.connect()
		w.Unlock()
		synctest.Wait()
		w.want(t, "settle 1")
	})
}

// TestCommitterWithholds commits only what was safe while positions are withheld.
func TestCommitterWithholds(t *testing.T) {
	w := newCommitted(Traits{Positions: true})
	w.test(t, func(t *testing.T) {
		l := &lane{number: 1}
		w.mark(l, 4)
		w.Lock()
		w.markSafe()
		w.withheld = true
		w.Unlock()
		w.mark(l, 9)
		<-time.After(1100 * time.Millisecond)
		w.want(t, "settle 0", "mark 1:4", "keep 1")
		w.Lock()
		w.withheld = false
		w.Unlock()
	})
	w.want(t, "settle 0", "mark 1:9", "keep 1")
}

// TestCommitterGivesUp repeats the last commit a few times.
func TestCommitterGivesUp(t *testing.T) {
	w := newCommitted(Traits{Positions: true})
	fails := w.env.settle
	w.env.settle = func(ctx context.Context, s Settled) error {
		return errors.Join(fails(ctx, s), errors.New("the disk is full"))
	}
	w.test(t, func(*testing.T) { w.mark(&lane{number: 1}, 1) })
	w.want(t, strings.Split(strings.Repeat("settle 0,mark 1:1,", lastTries)+"unkept", ",")...)
}
