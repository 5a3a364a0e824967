package trail

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A fakeWAL is a log whose calls can be made to fail, and to wait. Its calls do not
// overlap, as the committer waits for each.
type fakeWAL struct {
	onAppend func() error // nil: goes well
	onSync   func() error
	records  []record
	syncs    int
	acked    int
}

func (w *fakeWAL) Append(r spool.Record) (spool.Position, error) {
	if w.onAppend != nil {
		if err := w.onAppend(); err != nil {
			return spool.Position{}, err
		}
	}
	rec, err := decodeRecord(slices.Clone(r.Payload))
	w.records = append(w.records, rec)
	return spool.Position{}, err
}

func (w *fakeWAL) Sync() error {
	w.syncs++
	if w.onSync != nil {
		return w.onSync()
	}
	return nil
}

func (w *fakeWAL) Ack(positions ...spool.Position) { w.acked += len(positions) }

// times returns a call that fails n times.
func times(n int, err error) func() error {
	return func() error {
		if n--; n >= 0 {
			return err
		}
		return nil
	}
}

// A commitBench is a committer with a log that is fake.
type commitBench struct {
	*committer
	wal     *fakeWAL
	durable []uint64
	settled int
	cancel  context.CancelFunc
}

// newCommitBench starts a committer, in a bubble. change may change what it works with.
func newCommitBench(t *testing.T, change func(env *commitEnv, wal *fakeWAL)) *commitBench {
	st, _ := memoryState(t)
	b := &commitBench{wal: &fakeWAL{}}
	builder := newRunBuilder(st.files.log)
	env := commitEnv{
		wal:   b.wal,
		room:  func() (bool, error) { return true, nil },
		admit: newAdmission(st, maxBuckets).admit,
		build: func(rec record, schema event.Schema) (built, error) {
			return builder.build(rec, schema, st.current.Load())
		},
		durable: func(commit uint64) { b.durable = append(b.durable, commit) },
		settle:  func([]*source, bool) { b.settled++ },
	}
	if change != nil {
		change(&env, b.wal)
	}
	b.committer = newCommitter(env, st)
	var ctx context.Context
	ctx, b.cancel = context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { b.run(ctx) })
	t.Cleanup(func() {
		b.cancel()
		wg.Wait()
	})
	return b
}

func requestOf(t *testing.T, events ...event.Event) *request {
	t.Helper()
	chunk, schema, large, err := encode(events, "", nil, anyTime())
	if err != nil {
		t.Fatal(err)
	}
	return &request{events: events, chunk: chunk, schema: schema, large: large}
}

// together submits requests that are one group, and returns their outcomes.
func (b *commitBench) together(ctx context.Context, requests ...*request) []error {
	errs := make([]error, len(requests))
	var wg sync.WaitGroup
	held := make(chan struct{})
	wg.Go(func() { b.do(func() { <-held }) })
	synctest.Wait()
	for i, r := range requests {
		wg.Go(func() { errs[i] = b.submit(ctx, r) })
		synctest.Wait() // in this order
	}
	close(held)
	wg.Wait()
	synctest.Wait()
	return errs
}

func wantErrors(t *testing.T, got []error, want ...error) {
	t.Helper()
	for i := range want {
		if !errors.Is(got[i], want[i]) || want[i] == nil && got[i] != nil {
			t.Errorf("request %d: got %v, want %v", i, got[i], want[i])
		}
	}
}

func TestCommitterGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newCommitBench(t, nil)
		var requests []*request
		for i := range 10 {
			requests = append(requests, requestOf(t, ev(fmt.Sprint("u", i), base, "view")))
		}
		wantErrors(t, b.together(t.Context(), requests...), make([]error, 10)...)
		if len(b.wal.records) != 1 || len(b.wal.records[0].chunks) != 10 || b.wal.syncs != 1 || b.settled != 1 {
			t.Errorf("got %d records and %d fsyncs, want one of 10 appends", len(b.wal.records), b.wal.syncs)
		}
		if rows := rowsIn(t, b.state); rows != 10 || !slices.Equal(b.durable, []uint64{1}) || b.state.current.Load().commit != 1 {
			t.Errorf("got %d events, and commits %d noted as durable; want 10 and 1", rows, b.durable)
		}
	})
}

func TestCommitterFails(t *testing.T) {
	broken := errors.New("broken")
	for name, c := range map[string]struct {
		appends, syncs int // that fail
		want           error
		records        int // in the log then
		voided         int // commits that the next record takes back
		acked          int
	}{
		"write":         {appends: 1, want: broken},
		"one fsync":     {syncs: 1, records: 2},
		"two fsyncs":    {syncs: 2, want: broken, records: 3, voided: 1, acked: 2},
		"all of fsyncs": {syncs: 3, want: broken, records: 3, voided: 1, acked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newCommitBench(t, func(_ *commitEnv, wal *fakeWAL) {
					wal.onAppend, wal.onSync = times(c.appends, broken), times(c.syncs, broken)
				})
				err := b.submit(t.Context(), requestOf(t, ev("u", base, "view")))
				wantErrors(t, []error{err}, c.want)
				if len(b.wal.records) != c.records || b.wal.acked != c.acked {
					t.Errorf("got %d records of which %d are acknowledged, want %d and %d", len(b.wal.records), b.wal.acked, c.records, c.acked)
				}
				before := int64(0)
				if c.want == nil {
					before = 1
				}
				if rows := rowsIn(t, b.state); rows != before || len(b.durable) != int(before) {
					t.Errorf("got %d events, and commits %d noted as durable; want %d", rows, b.durable, before)
				}
				// The next one goes well, and says which commit was refused.
				if err := b.submit(t.Context(), requestOf(t, ev("v", base, "view"))); err != nil {
					t.Fatal(err)
				}
				last := b.wal.records[len(b.wal.records)-1]
				if rows := rowsIn(t, b.state); rows != before+1 || len(last.voided) != c.voided {
					t.Errorf("got %d events, and a record that voids %d; want %d and %d commits", rows, last.voided, before+1, c.voided)
				}
			})
		})
	}
}

// TestCommitterFindsBadRequest has one request of a group that no run can be made of.
func TestCommitterFindsBadRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad := requestOf(t, ev("bad", base, "view"))
		b := newCommitBench(t, func(env *commitEnv, _ *fakeWAL) {
			build := env.build
			env.build = func(rec record, schema event.Schema) (built, error) {
				if slices.ContainsFunc(rec.chunks, func(c []byte) bool { return &c[0] == &bad.chunk[0] }) {
					return built{}, errBuild
				}
				return build(rec, schema)
			}
		})
		errs := b.together(t.Context(), requestOf(t, ev("a", base, "view")), bad, requestOf(t, ev("b", base, "view")))
		wantErrors(t, errs, nil, errBuild, nil)
		if rows := rowsIn(t, b.state); rows != 2 || b.settled != 2 {
			t.Errorf("got %d events after %d commits, want 2 after 2", rows, b.settled)
		}
	})
}

// TestCommitterRefuses has one request of a group that the store cannot take, and one
// whose caller has gone.
func TestCommitterRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newCommitBench(t, nil)
		ctx, cancel := context.WithCancel(t.Context())
		gone := requestOf(t, ev("gone", base, "view"))
		var errs []error
		var wg sync.WaitGroup
		held := make(chan struct{})
		wg.Go(func() { b.do(func() { <-held }) })
		synctest.Wait()
		wg.Go(func() { errs = append(errs, b.submit(ctx, gone)) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(held)
		wg.Wait()
		wantErrors(t, errs, context.Canceled)
		errs = b.together(t.Context(), requestOf(t, k(event.IntOf(1))), requestOf(t, k(event.StringOf("x"))), requestOf(t, k(event.IntOf(2))))
		if _, ok := errors.AsType[*event.TypeError](errs[1]); !ok {
			t.Errorf("got %v, want a type error", errs[1])
		}
		wantErrors(t, []error{errs[0], errs[2]}, nil, nil)
		if rows := rowsIn(t, b.state); rows != 2 {
			t.Errorf("got %d events, want 2", rows)
		}
	})
}

func TestCommitterWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ok, full := false, error(nil)
		b := newCommitBench(t, func(env *commitEnv, _ *fakeWAL) { env.room = func() (bool, error) { return ok, full } })
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { err = b.submit(t.Context(), requestOf(t, ev("u", base, "view"))) })
		synctest.Wait()
		ran := false
		b.do(func() { ran = true }) // a flush needs it
		if len(b.wal.records) > 0 || !ran {
			t.Fatal("a full memory did not keep the append waiting, or other work as well")
		}
		b.do(func() { ok = true })
		notify(b.flushed)
		wg.Wait()
		if err != nil || rowsIn(t, b.state) != 1 {
			t.Errorf("got %v and %d events, want 1", err, rowsIn(t, b.state))
		}
		broken := errors.New("broken")
		b.do(func() { ok, full = false, broken })
		wantErrors(t, []error{b.submit(t.Context(), requestOf(t, ev("u", base, "view")))}, broken)
	})
}

// TestCommitterEndsWhileBusy ends a committer during an fsync: what was taken is
// committed, and what waits is not.
func TestCommitterEndsWhileBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		b := newCommitBench(t, func(_ *commitEnv, wal *fakeWAL) {
			wal.onSync = func() error {
				<-held
				return nil
			}
		})
		errs := make([]error, 2)
		var wg sync.WaitGroup
		for i, user := range []string{"taken", "waits"} {
			wg.Go(func() { errs[i] = b.submit(t.Context(), requestOf(t, ev(user, base, "view"))) })
			synctest.Wait()
		}
		b.cancel()
		synctest.Wait()
		close(held)
		wg.Wait()
		want := int64(1)
		if errs[1] == nil { // it was taken before the end was noticed
			want = 2
		} else {
			wantErrors(t, errs[1:], ErrClosed)
		}
		if rows := rowsIn(t, b.state); errs[0] != nil || rows != want {
			t.Errorf("got %v and %d events, want %d", errs, rows, want)
		}
		<-b.stopped
		wantErrors(t, []error{b.submit(t.Context(), requestOf(t, ev("late", base, "view")))}, ErrClosed)
		ran := 0
		for range 2 { // one at a time, though there is no goroutine
			wg.Go(func() { b.do(func() { ran++ }) })
		}
		if wg.Wait(); ran != 2 {
			t.Errorf("%d of 2 calls ran after the end", ran)
		}
	})
}
