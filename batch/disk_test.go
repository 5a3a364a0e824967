package batch

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// number is an Options.Encode.
func number(dst []byte, n *int) ([]byte, error) { return strconv.AppendInt(dst, int64(*n), 10), nil }

// A valve sends nothing until it is opened, and counts what it sends.
type valve struct {
	open atomic.Bool
	mu   sync.Mutex
	got  map[string]bool
}

func (v *valve) send(_ context.Context, b *Batch) Outcome {
	if !v.open.Load() {
		return Outcome{Err: errors.New("away")}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.got == nil {
		v.got = make(map[string]bool)
	}
	for e := range b.Events() {
		v.got[string(e)] = true
	}
	return Outcome{}
}

// onDisk starts a processor on a disk whose segment files fail by fail.
func onDisk(t *testing.T, fs *vfstest.FS, c Options[int], fail func(vfstest.Op, string) error) *Processor[int] {
	t.Helper()
	fs.SetFail(func(op vfstest.Op, name string) error {
		if !strings.HasSuffix(name, ".seg") {
			return nil
		}
		return fail(op, name)
	})
	c.Encode, c.Retry = number, Retry{Initial: time.Millisecond, Max: 5 * time.Millisecond}
	c.Spool.Dir, c.Spool.fs = "spool", fs
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func addAll(t *testing.T, p *Processor[int], n int) {
	t.Helper()
	for i := range n {
		if err := p.Add(&i); err != nil {
			t.Fatal(err)
		}
	}
}

func closeWithin(t *testing.T, p *Processor[int], d time.Duration) Report {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	r, err := p.Close(ctx)
	if err != nil {
		t.Logf("close: %v", err)
	}
	if err := p.Stats().Balance(); err != nil {
		t.Error(err)
	}
	return r
}

// TestSyncFails uses a disk whose fsync always fails. Each attempt makes a file, so there
// must be few attempts.
func TestSyncFails(t *testing.T) {
	var syncs atomic.Int64
	var v valve
	p := onDisk(t, vfstest.New(), Options[int]{Send: v.send, Spool: &Spool{WriteAhead: true, SegmentBytes: 64 << 10}}, func(op vfstest.Op, _ string) error {
		if op == vfstest.Sync {
			syncs.Add(1)
			return syscall.EIO
		}
		return nil
	})
	addAll(t, p, 10)
	<-time.After(600 * time.Millisecond)
	if n := syncs.Load(); n < 2 || n > 4 {
		t.Errorf("%d attempts in 600 ms", n)
	}
	if r := closeWithin(t, p, 50*time.Millisecond); r.Undelivered != 10 {
		t.Errorf("got %+v", r)
	}
}

// TestReadsTheGoodCopy makes the file of a failed fsync unreadable: its events were
// written again, and are read from there.
func TestReadsTheGoodCopy(t *testing.T) {
	for _, ahead := range []bool{false, true} {
		var failed atomic.Bool
		var bad atomic.Value
		bad.Store("")
		var v valve
		var dropped atomic.Int64
		p := onDisk(t, vfstest.New(), Options[int]{
			Send: v.send, Queue: Queue{Events: 200}, Spool: &Spool{WriteAhead: ahead, AfterAttempts: 1 << 30},
			OnDrop: func(d Dropped) { dropped.Add(int64(len(d.Events))) },
		}, func(op vfstest.Op, name string) error {
			if op == vfstest.Sync && failed.CompareAndSwap(false, true) {
				bad.Store(name)
				return syscall.EIO
			}
			if op == vfstest.Read && name == bad.Load() {
				return syscall.EIO
			}
			return nil
		})
		addAll(t, p, 2000)
		v.open.Store(true)
		r := closeWithin(t, p, time.Minute)
		if r.Delivered != 2000 || len(v.got) != 2000 || dropped.Load() != 0 {
			t.Errorf("got %+v, %d events, %d dropped", r, len(v.got), dropped.Load())
		}
	}
}

// TestReadFailsForAWhile lacks file descriptors while events are read: they are read
// later.
func TestReadFailsForAWhile(t *testing.T) {
	fs := vfstest.New()
	var v valve
	never := func(vfstest.Op, string) error { return nil }
	p := onDisk(t, fs, Options[int]{Send: v.send, Spool: &Spool{WriteAhead: true}}, never)
	addAll(t, p, 100)
	if r := closeWithin(t, p, 50*time.Millisecond); r.Spooled != 100 {
		t.Errorf("got %+v", r)
	}
	var opens atomic.Int64
	q := onDisk(t, fs, Options[int]{Send: v.send, Spool: &Spool{}}, func(op vfstest.Op, _ string) error {
		if op == vfstest.Read && opens.Add(1) > 3 && opens.Load() < 8 {
			return syscall.EMFILE
		}
		return nil
	})
	v.open.Store(true)
	if r := closeWithin(t, q, time.Minute); r.Delivered != 100 || len(v.got) != 100 {
		t.Errorf("got %+v, %d events", r, len(v.got))
	}
}

// TestBadSector has a record that can never be read: its lane continues without it, and it
// stays in the spool for later.
func TestBadSector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := vfstest.New()
		var v valve
		never := func(vfstest.Op, string) error { return nil }
		p := onDisk(t, fs, Options[int]{Send: v.send, Spool: &Spool{WriteAhead: true}}, never)
		addAll(t, p, 100)
		if r := closeWithin(t, p, 50*time.Millisecond); r.Spooled != 100 {
			t.Errorf("got %+v", r)
		}
		v.open.Store(true)
		var reads atomic.Int64
		var dropped atomic.Int64
		q := onDisk(t, fs, Options[int]{
			Send: v.send, Spool: &Spool{}, Lanes: Lanes[int]{Order: OrderTotal}, Trigger: Trigger{Count: 10},
			OnDrop: func(d Dropped) { dropped.Add(int64(len(d.Events))) },
		}, func(op vfstest.Op, _ string) error {
			if op == vfstest.Read && reads.Add(1) > 2 { // two are needed to open the spool
				return syscall.EIO
			}
			return nil
		})
		one := -1
		if err := q.Add(&one); err != nil {
			t.Error(err)
		}
		r := closeWithin(t, q, time.Hour)
		if n := r.Dropped; n == 0 || r.Delivered+n != 101 || dropped.Load() != int64(n) || !v.got["-1"] {
			t.Errorf("got %+v, %d dropped", r, dropped.Load())
		}
		z := onDisk(t, fs, Options[int]{Send: v.send, Spool: &Spool{}}, never)
		if again := closeWithin(t, z, time.Hour); again.Delivered != r.Dropped || len(v.got) != 101 {
			t.Errorf("got %+v, %d events", again, len(v.got))
		}
	})
}

// TestDropOldestBehindTheSpool has events of an earlier run before the events that fill memory.
func TestDropOldestBehindTheSpool(t *testing.T) {
	fs := vfstest.New()
	var v valve
	never := func(vfstest.Op, string) error { return nil }
	p := onDisk(t, fs, Options[int]{Send: v.send, Spool: &Spool{WriteAhead: true}}, never)
	addAll(t, p, 90)
	closeWithin(t, p, 50*time.Millisecond)
	q := onDisk(t, fs, Options[int]{
		Send: v.send, Spool: &Spool{WriteAhead: true}, Trigger: Trigger{Count: 10},
		Queue: Queue{Events: 100, Full: PolicyDropOldest}, Lanes: Lanes[int]{Max: 1},
	}, never)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for i := range 1000 {
		if err := q.AddWait(ctx, &i); err != nil {
			t.Fatalf("event %d: %v", i, err)
		}
	}
	v.open.Store(true)
	if r := closeWithin(t, q, time.Minute); r.Delivered+r.Dropped != 1090 || r.Dropped < 800 {
		t.Errorf("got %+v", r)
	}
}

// TestNoSync does not fsync a file that is not complete, with a negative SyncEvery.
func TestNoSync(t *testing.T) {
	var syncs atomic.Int64
	var v valve
	v.open.Store(true)
	p := onDisk(t, vfstest.New(), Options[int]{Send: v.send, Spool: &Spool{WriteAhead: true, SyncEvery: -1}}, func(op vfstest.Op, _ string) error {
		if op == vfstest.Sync {
			syncs.Add(1)
		}
		return nil
	})
	addAll(t, p, 300_000)
	if err := p.Flush(t.Context()); err != nil {
		t.Error(err)
	}
	if n := syncs.Load(); n != 0 {
		t.Errorf("%d fsyncs", n)
	}
	closeWithin(t, p, time.Minute)
}
