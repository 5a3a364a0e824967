package journal_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/memory"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A gatedStore commits to memory, when a test lets it.
type gatedStore struct {
	*memory.Store
	entered chan *journal.Batch // gets what is about to be committed; nil for no gate
	release chan error          // what a commit fails with; nil commits
	closed  atomic.Int32
}

func gated() *gatedStore {
	return &gatedStore{Store: memory.New(), entered: make(chan *journal.Batch), release: make(chan error)}
}

func (s *gatedStore) Commit(ctx context.Context, b *journal.Batch) error {
	if s.entered != nil {
		s.entered <- b
		if err := <-s.release; err != nil {
			return err
		}
	}
	return s.Store.Commit(ctx, b)
}

func (s *gatedStore) Close() error {
	s.closed.Add(1)
	return s.Store.Close()
}

// pass lets one commit go on, and returns a copy of what it commits.
func (s *gatedStore) pass(err error) journal.Batch {
	b := <-s.entered
	c := *b
	c.Records, c.Starts, c.Ends, c.Resumed = slices.Clone(b.Records), slices.Clone(b.Starts), slices.Clone(b.Ends), slices.Clone(b.Resumed)
	c.Waits, c.Over, c.Signals, c.Taken = slices.Clone(b.Waits), slices.Clone(b.Over), slices.Clone(b.Signals), slices.Clone(b.Taken)
	s.release <- err
	return c
}

func id(n int) (id journal.ID) {
	binary.BigEndian.PutUint64(id[8:], uint64(n))
	return id
}

func newRun(n int) *journal.Run {
	return &journal.Run{ID: id(n), Namespace: "default", Trigger: "t", State: journal.Running, Created: time.Unix(int64(n), 0)}
}

func record(r, n int) journal.Record { return journal.Record{Run: id(r), N: int32(n)} }

// A call is a done function that may be called once.
type call struct {
	t        *testing.T
	calls    atomic.Int32
	err      chan error
	existing *journal.Run
}

func newCall(t *testing.T) *call { return &call{t: t, err: make(chan error, 10)} }

func (c *call) done(err error) {
	if n := c.calls.Add(1); n != 1 {
		c.t.Errorf("done was called %d times", n)
	}
	c.err <- err
}

func (c *call) started(existing *journal.Run, err error) {
	c.existing = existing
	c.done(err)
}

func (c *call) want(target error) {
	c.t.Helper()
	if err := <-c.err; !errors.Is(err, target) || target == nil && err != nil {
		c.t.Errorf("done: got %v, want %v", err, target)
	}
}

func closeIt(t *testing.T, j *journal.Journal) {
	t.Helper()
	if err := j.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
}

// TestGroup checks that what is added during one commit is the next, in its order.
func TestGroup(t *testing.T) {
	s := gated()
	j := journal.New(s, journal.Options{})
	start := newCall(t)
	j.Put(journal.Part{Revisions: []journal.Revision{{Hash: "h", Body: []byte("b")}}})
	if _, err := j.Start(newRun(1), start.started); err != nil {
		t.Fatal(err)
	}
	<-s.entered
	for n := range 100 {
		j.Add(record(1, n+1))
	}
	if _, err := j.Start(newRun(2), nil); err != nil {
		t.Fatal(err)
	}
	resumed, end := newCall(t), newCall(t)
	j.Resume(id(1), resumed.done)
	j.End(journal.End{Run: id(1), State: journal.OK, At: time.Now()}, end.done)
	s.release <- nil
	start.want(nil)
	b := s.pass(nil)
	if len(b.Records) != 100 || len(b.Starts) != 1 || len(b.Resumed) != 1 || len(b.Ends) != 1 {
		t.Errorf("the second commit has %d records, %d starts, %d resumed, %d ends", len(b.Records), len(b.Starts), len(b.Resumed), len(b.Ends))
	}
	for i := range b.Records {
		if b.Records[i].N != int32(i+1) {
			t.Fatalf("record %d is at %d", b.Records[i].N, i)
		}
	}
	resumed.want(nil)
	end.want(nil)
	if rev, err := s.Revision(t.Context(), "h"); err != nil || string(rev.Body) != "b" {
		t.Errorf("revision: %s, %v", rev.Body, err)
	}
	closeIt(t, j)
	if n := s.closed.Load(); n != 1 {
		t.Errorf("the store was closed %d times", n)
	}
}

// part has two of each, of a run.
func part(r, n int) journal.Part {
	p := journal.Part{Records: []journal.Record{record(r, n), record(r, n+1)}}
	for i := range 2 {
		pos := uint64(n + i)
		s := journal.Signal{Namespace: "default", ID: fmt.Sprint(r, pos), Event: "e", Key: "k", Payload: []byte("p"), Until: time.Unix(1<<33, 0)}
		p.Waits = append(p.Waits, journal.Wait{Run: id(r), Pos: pos, Namespace: "default", Event: "e", Key: "k", Token: []byte("t")})
		p.Over = append(p.Over, journal.WaitID{Run: id(r), Pos: pos - 2})
		p.Signals = append(p.Signals, s)
		p.Taken = append(p.Taken, journal.SignalID{Namespace: "default", ID: fmt.Sprint(r, pos-2)})
	}
	return p
}

// TestPut checks that a part is in one batch, behind what was added before, and that nothing of
// it is in the next one.
func TestPut(t *testing.T) {
	s := gated()
	j := journal.New(s, journal.Options{})
	if _, err := j.Start(newRun(1), nil); err != nil {
		t.Fatal(err)
	}
	<-s.entered
	first := j.Add(record(1, 1))
	p := part(1, 2)
	second := j.Put(p)
	clear(p.Records) // the slices are the caller's
	clear(p.Waits)
	clear(p.Over)
	clear(p.Signals)
	clear(p.Taken)
	if second <= first {
		t.Errorf("the number %d came after %d", second, first)
	}
	if none := j.Put(journal.Part{}); none != second {
		t.Errorf("nothing has the number %d, want that of what was added before, %d", none, second)
	}
	flushed := newCall(t)
	if j.Flush(second, flushed.done) {
		t.Error("what gathers is durable")
	}
	s.release <- nil
	want := part(1, 2)
	b := s.pass(nil)
	if !reflect.DeepEqual(b.Records, append([]journal.Record{record(1, 1)}, want.Records...)) || !reflect.DeepEqual(b.Waits, want.Waits) ||
		!reflect.DeepEqual(b.Over, want.Over) || !reflect.DeepEqual(b.Signals, want.Signals) || !reflect.DeepEqual(b.Taken, want.Taken) {
		t.Errorf("got the batch %+v", b)
	}
	flushed.want(nil)
	for n := range 3 { // the groups are used again
		last := newCall(t)
		j.Flush(j.Add(record(1, 4+n)), last.done)
		if b := s.pass(nil); len(b.Records) != 1 || len(b.Waits)+len(b.Over)+len(b.Signals)+len(b.Taken) > 0 {
			t.Errorf("a later batch is %+v", b)
		}
		last.want(nil)
	}
	if waits, err := s.Waits(t.Context(), id(1)); err != nil || len(waits) != 2 {
		t.Errorf("got the waits %+v, %v", waits, err)
	}
	never := func(error) { t.Error("done was called of what is durable") }
	if !j.Flush(j.Put(journal.Part{}), never) {
		t.Error("nothing is not durable")
	}
	closeIt(t, j)
}

// TestPutBusy checks that all of a part counts.
func TestPutBusy(t *testing.T) {
	for name, p := range map[string]journal.Part{
		"records": {Records: make([]journal.Record, 1<<16)}, "waits": {Waits: make([]journal.Wait, 1<<16)}, "over": {Over: make([]journal.WaitID, 1<<16)},
		"signals": {Signals: make([]journal.Signal, 1<<16)}, "taken": {Taken: make([]journal.SignalID, 1<<16)},
		"record bytes": {Records: []journal.Record{{Payload: make([]byte, 16<<20)}}}, "signal bytes": {Signals: []journal.Signal{{Payload: make([]byte, 16<<20)}}},
	} {
		s := gated()
		j := journal.New(s, journal.Options{})
		seq := j.Put(p)
		if err := j.Ready(); !errors.Is(err, journal.ErrBusy) {
			t.Errorf("%s: got %v, want %v", name, err, journal.ErrBusy)
		}
		flushed := newCall(t)
		j.Flush(seq, flushed.done)
		<-s.entered
		s.entered = nil
		s.release <- errors.New("not this batch")
		flushed.want(journal.ErrBroken)
		if err := j.Ready(); errors.Is(err, journal.ErrBusy) {
			t.Errorf("%s: after the commit it is busy", name)
		}
		closeIt(t, j)
	}
}

// TestFlush asks for what is committed, is being committed, and gathers.
func TestFlush(t *testing.T) {
	s := gated()
	j := journal.New(s, journal.Options{})
	never := func(error) { t.Error("done was called of what is durable") }
	if !j.Flush(0, never) {
		t.Error("nothing is not durable")
	}
	first := j.Add(record(1, 1))
	<-s.entered
	second := j.Add(record(1, 2))
	if second <= first {
		t.Errorf("the second record has the number %d, the first %d", second, first)
	}
	flying, gathers := newCall(t), newCall(t)
	if j.Flush(first, flying.done) || j.Flush(second, gathers.done) {
		t.Error("it is durable before it is committed")
	}
	s.release <- nil
	flying.want(nil)
	if !j.Flush(first, never) {
		t.Error("the first commit is not durable")
	}
	<-s.entered
	if n := gathers.calls.Load(); n != 0 {
		t.Error("done was called before the commit")
	}
	s.release <- nil
	gathers.want(nil)
	if !j.Flush(second, never) || !j.Flush(first, never) {
		t.Error("the second commit is not durable")
	}
	closeIt(t, j)
}

// TestExisting starts two runs with one key: in one commit, and one commit after the other.
func TestExisting(t *testing.T) {
	s := gated()
	j := journal.New(s, journal.Options{})
	keyed := func(n int) *journal.Run {
		r := newRun(n)
		r.Key, r.KeyUntil = []byte("k"), time.Unix(1e9, 0)
		return r
	}
	j.Add(record(9, 1))
	<-s.entered
	calls := []*call{newCall(t), newCall(t), newCall(t)}
	for i, c := range calls[:2] {
		if _, err := j.Start(keyed(i+1), c.started); err != nil {
			t.Fatal(err)
		}
	}
	s.release <- nil
	s.pass(nil)
	if _, err := j.Start(keyed(3), calls[2].started); err != nil {
		t.Fatal(err)
	}
	s.pass(nil)
	for _, c := range calls {
		c.want(nil)
	}
	if calls[0].existing != nil {
		t.Errorf("the first has found %v", calls[0].existing.ID)
	}
	for _, c := range calls[1:] {
		if c.existing == nil || c.existing.ID != id(1) {
			t.Errorf("another has found %v", c.existing)
		}
	}
	closeIt(t, j)
}

// TestFull fills the disk: no run starts, what was added waits, and the journal tries again until there is room.
func TestFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		var told []error
		j := journal.New(s, journal.Options{Failed: func(err error) { told = append(told, err) }})
		s.Fill(true)
		waiting := newCall(t)
		if j.Flush(j.Add(record(1, 1)), waiting.done) {
			t.Error("it is durable on a full disk")
		}
		synctest.Wait()
		if err := j.Ready(); !errors.Is(err, journal.ErrFull) {
			t.Errorf("Ready: %v", err)
		}
		refused := func(*journal.Run, error) { t.Error("done was called of what was refused") }
		if seq, err := j.Start(newRun(1), refused); !errors.Is(err, journal.ErrFull) || seq != 0 {
			t.Errorf("Start: %d, %v", seq, err)
		}
		end := newCall(t)
		j.End(journal.End{Run: id(1), State: journal.OK}, end.done) // of a run that was under way
		begun := time.Now()
		for range 3 {
			<-time.After(time.Second) // of the bubble
			synctest.Wait()
			if waiting.calls.Load() != 0 || j.Ready() == nil {
				t.Error("it goes on on a full disk")
			}
		}
		s.Fill(false)
		waiting.want(nil)
		end.want(nil)
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("it tried again after %v", took)
		}
		if err := j.Ready(); err != nil {
			t.Errorf("Ready with room: %v", err)
		}
		start := newCall(t)
		if _, err := j.Start(newRun(1), start.started); err != nil {
			t.Error(err)
		}
		start.want(nil)
		closeIt(t, j)
		if len(told) != 2 || !errors.Is(told[0], journal.ErrFull) || told[1] != nil {
			t.Errorf("Failed was told %v", told)
		}
	})
}

// TestCloseFull closes a journal on a full disk: it ends when its time is over, and what waits gets an error.
func TestCloseFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memory.New()
		s.Fill(true)
		j := journal.New(s, journal.Options{})
		flush, start := newCall(t), newCall(t)
		if _, err := j.Start(newRun(1), start.started); err != nil {
			t.Error(err)
		}
		j.Flush(j.Add(record(1, 1)), flush.done)
		ctx, cancel := context.WithTimeout(t.Context(), 10500*time.Millisecond) // between two tries
		defer cancel()
		if err := j.Close(ctx); err != nil {
			t.Error(err)
		}
		start.want(journal.ErrFull)
		flush.want(journal.ErrFull)
	})
}

// TestBroken breaks the store: whatever waits, or comes, gets ErrBroken.
func TestBroken(t *testing.T) {
	s := gated()
	var told atomic.Int32
	j := journal.New(s, journal.Options{Failed: func(err error) {
		if err == nil {
			t.Error("it was told that commits work again")
		}
		told.Add(1)
	}})
	calls := []*call{newCall(t), newCall(t), newCall(t), newCall(t), newCall(t), newCall(t), newCall(t), newCall(t)}
	add := func(c []*call) {
		if _, err := j.Start(newRun(1), c[0].started); err != nil {
			t.Error(err)
		}
		j.Flush(j.Add(record(1, 1)), c[1].done)
		j.Resume(id(1), c[2].done)
		j.End(journal.End{Run: id(1), State: journal.OK}, c[3].done)
	}
	j.Add(record(9, 1))
	b := <-s.entered
	add(calls[:4])
	if len(b.Records) != 1 {
		t.Errorf("a commit under way has changed: %d records", len(b.Records))
	}
	s.release <- nil
	<-s.entered
	add(calls[4:])
	broken := errors.New("I/O error")
	s.release <- broken
	for _, c := range calls {
		c.want(journal.ErrBroken)
	}
	if err := j.Ready(); !errors.Is(err, journal.ErrBroken) || !errors.Is(err, broken) {
		t.Errorf("Ready: %v", err)
	}
	if _, err := j.Start(newRun(2), nil); !errors.Is(err, journal.ErrBroken) {
		t.Errorf("Start: %v", err)
	}
	later := []*call{newCall(t), newCall(t), newCall(t)}
	if j.Flush(j.Add(record(1, 2)), later[0].done) {
		t.Error("it is durable in a broken journal")
	}
	j.Resume(id(1), later[1].done)
	j.End(journal.End{Run: id(1), State: journal.OK}, later[2].done)
	for _, c := range later {
		c.want(journal.ErrBroken)
	}
	if !j.Flush(1, func(error) { t.Error("done was called of what is durable") }) {
		t.Error("what was committed before is not durable")
	}
	go func() { // the record that was added later
		if b, ok := <-s.entered; ok {
			t.Logf("a broken journal commits %d records", len(b.Records))
			s.release <- broken
		}
	}()
	closeIt(t, j)
	close(s.entered)
	if n := told.Load(); n < 1 {
		t.Error("Failed was not told")
	}
}

// TestClose checks that Close commits what was added, and that what comes later gets ErrClosed.
func TestClose(t *testing.T) {
	s := gated()
	j := journal.New(s, journal.Options{})
	j.Add(record(9, 1))
	<-s.entered
	start, flush := newCall(t), newCall(t)
	if _, err := j.Start(newRun(1), start.started); err != nil {
		t.Fatal(err)
	}
	j.Flush(j.Add(record(1, 1)), flush.done)
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		closeIt(t, j)
	}()
	s.release <- nil
	if b := s.pass(nil); len(b.Starts) != 1 || len(b.Records) != 1 {
		t.Errorf("%d runs and %d records were committed", len(b.Starts), len(b.Records))
	}
	start.want(nil)
	flush.want(nil)
	<-closed
	if err := j.Ready(); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Ready: %v", err)
	}
	if _, err := j.Start(newRun(2), nil); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Start: %v", err)
	}
	later := []*call{newCall(t), newCall(t), newCall(t)}
	if j.Flush(j.Add(record(1, 2)), later[0].done) {
		t.Error("it is durable in a closed journal")
	}
	j.Resume(id(1), later[1].done)
	j.End(journal.End{Run: id(1), State: journal.OK}, later[2].done)
	for _, c := range later {
		c.want(journal.ErrClosed)
	}
	again := s.Reopen()
	if records, err := again.Records(t.Context(), id(1)); err != nil || len(records) != 1 {
		t.Errorf("after Close: %d records, %v", len(records), err)
	}
}

// TestBusy adds more than may wait.
func TestBusy(t *testing.T) {
	for name, fill := range map[string]func(j *journal.Journal){
		"records": func(j *journal.Journal) {
			for n := range 65_536 {
				j.Add(record(1, n+1))
			}
		},
		"bytes": func(j *journal.Journal) {
			rec := record(1, 1)
			rec.Payload = make([]byte, 16<<20)
			j.Add(rec)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := gated()
			j := journal.New(s, journal.Options{})
			if err := j.Ready(); err != nil {
				t.Fatal(err)
			}
			j.Add(record(9, 1))
			<-s.entered
			fill(j)
			if err := j.Ready(); !errors.Is(err, journal.ErrBusy) {
				t.Errorf("Ready: %v", err)
			}
			if _, err := j.Start(newRun(1), nil); !errors.Is(err, journal.ErrBusy) {
				t.Errorf("Start: %v", err)
			}
			flush := newCall(t) // runs that are under way go on
			j.Flush(j.Add(record(2, 1)), flush.done)
			s.release <- nil
			s.pass(nil)
			flush.want(nil)
			if err := j.Ready(); err != nil {
				t.Errorf("Ready after the commit: %v", err)
			}
			closeIt(t, j)
		})
	}
}

// TestReentrant calls the journal from the functions that it calls, which may block.
func TestReentrant(t *testing.T) {
	j := journal.New(memory.New(), journal.Options{})
	over := make(chan error)
	if _, err := j.Start(newRun(1), func(_ *journal.Run, err error) {
		if err != nil {
			over <- err
			return
		}
		if !j.Flush(j.Add(record(1, 1)), func(error) { j.End(journal.End{Run: id(1), State: journal.OK}, func(err error) { over <- err }) }) {
			return
		}
		over <- errors.New("it is durable at once")
	}); err != nil {
		t.Fatal(err)
	}
	if err := <-over; err != nil {
		t.Error(err)
	}
	closeIt(t, j)
}

// TestHammer adds from many goroutines. Whatever was said to be durable is there, in its order.
func TestHammer(t *testing.T) {
	s := memory.New()
	j := journal.New(s, journal.Options{})
	const runs, each = 32, 100 // a third of the records are of parts
	var wg sync.WaitGroup
	for r := range runs {
		wg.Go(func() {
			start := newCall(t)
			if _, err := j.Start(newRun(r), start.started); err != nil {
				t.Error(err)
				return
			}
			if r%2 == 0 { // the others do not wait
				start.want(nil)
			}
			last := uint64(0)
			for n := range each {
				var seq uint64
				if n%3 == 0 {
					seq = j.Put(journal.Part{Records: []journal.Record{record(r, n+1)}, Waits: []journal.Wait{{Run: id(r), Pos: uint64(n), Event: "e"}}, Over: []journal.WaitID{{Run: id(r), Pos: uint64(n - 3)}}})
				} else {
					seq = j.Add(record(r, n+1))
				}
				if seq <= last {
					t.Errorf("the number %d came after %d", seq, last)
				}
				last = seq
				if n%10 != r%10 {
					continue
				}
				c := newCall(t)
				if !j.Flush(seq, c.done) {
					c.want(nil)
				}
				if waits, err := s.Waits(t.Context(), id(r)); err != nil || len(waits) != 1 || waits[0].Pos != uint64(n/3*3) {
					t.Errorf("after %d records it waits for %+v, %v", n+1, waits, err)
				}
				if stored, err := s.Records(t.Context(), id(r)); err != nil || len(stored) != n+1 {
					t.Errorf("%d records are durable of %d: %v", len(stored), n+1, err)
				}
			}
			end := newCall(t)
			j.End(journal.End{Run: id(r), State: journal.OK, Answer: fmt.Append(nil, r), At: time.Now()}, end.done)
			end.want(nil)
		})
	}
	wg.Wait()
	closeIt(t, j)
	s = s.Reopen()
	for r := range runs {
		stored, err := s.Get(t.Context(), id(r))
		if err != nil || stored.State != journal.OK || string(stored.Answer) != fmt.Sprint(r) {
			t.Errorf("run %d: %v, %v", r, stored, err)
		}
	}
}

// TestHammerBroken breaks the store, or closes the journal, while many goroutines add. Each gets one answer.
func TestHammerBroken(t *testing.T) {
	for range 20 {
		s := &breakingStore{Store: memory.New()}
		s.left.Store(5)
		j := journal.New(s, journal.Options{})
		var wg sync.WaitGroup
		for r := range 16 {
			wg.Go(func() {
				for n := range 20 {
					c := newCall(t)
					switch n % 3 {
					case 0:
						if _, err := j.Start(newRun(r*100+n), c.started); err != nil {
							c.done(err)
						}
					case 1:
						if j.Flush(j.Add(record(r, n)), c.done) {
							c.done(nil)
						}
					case 2:
						j.End(journal.End{Run: id(r), State: journal.OK}, c.done)
					}
					if err := <-c.err; err != nil && !errors.Is(err, journal.ErrBroken) && !errors.Is(err, journal.ErrClosed) {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		wg.Wait()
		closeIt(t, j)
	}
}

// A breakingStore breaks after some commits.
type breakingStore struct {
	*memory.Store
	left atomic.Int32
}

func (s *breakingStore) Commit(ctx context.Context, b *journal.Batch) error {
	if s.left.Add(-1) < 0 {
		return errors.New("I/O error")
	}
	return s.Store.Commit(ctx, b)
}
