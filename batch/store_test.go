package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// A faultyLog is a spool in memory that fails as the test says. It makes nothing durable
// but by sync.
type faultyLog struct {
	*spool.Spool
	fail    func(op string) error
	waiting []func(error)
	acked   []spool.Position
}

func (l *faultyLog) Append(r spool.Record) (spool.Position, error) {
	if err := l.fail("append"); err != nil {
		return spool.Position{}, err
	}
	return l.Spool.Append(r)
}

func (l *faultyLog) Read(p spool.Position, dst []byte) ([]byte, error) {
	if err := l.fail("read"); err != nil {
		return dst, err
	}
	return l.Spool.Read(p, dst)
}

func (l *faultyLog) Durable(_ spool.Position, f func(error)) { l.waiting = append(l.waiting, f) }
func (l *faultyLog) Sync() error                             { return l.fail("sync") }

func (l *faultyLog) Ack(ps ...spool.Position) {
	l.acked = append(l.acked, ps...)
	l.Spool.Ack(ps...)
}

// sync ends the fsync of the records that wait for one.
func (l *faultyLog) sync(err error) {
	all := l.waiting
	l.waiting = nil
	for _, f := range all {
		f(err)
	}
}

// A testStore is a store that records the calls of its environment.
type testStore struct {
	*store
	log    *faultyLog
	calls  []string // calls of the environment
	logged bytes.Buffer
}

func (d *testStore) note(format string, args ...any) {
	d.calls = append(d.calls, fmt.Sprintf(format, args...))
}

// want compares the calls of the environment since the last call of want.
func (d *testStore) want(t *testing.T, calls ...string) {
	t.Helper()
	if !slices.Equal(d.calls, calls) {
		t.Errorf("the store called %q, want %q", d.calls, calls)
	}
	d.calls = nil
}

func newTestStore(t *testing.T, disk Spool) *testStore {
	sp, _, err := spool.Open(spool.Options{Dir: "spool", FS: vfstest.New(), SegmentBytes: 64 << 10, SyncEvery: -1, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sp.Close() })
	d := &testStore{log: &faultyLog{Spool: sp, fail: func(string) error { return nil }}}
	s := &settings{disk: &disk, epoch: 7, laneCount: 1, log: newThrottledLogger(slog.New(slog.NewTextHandler(&d.logged, nil))), sep: '\n'}
	s.onDrop = func(x Dropped) { d.note("dropped %d %v %v", len(x.Events), x.Reason, x.Err) }
	d.store = newStore(s, d.log, newArenas(10, 1000), storeEnv{
		evict:      func(_ *chunk, durable int) { d.note("durable %d", durable) },
		rewrite:    func(c *chunk) bool { d.note("rewrite"); c.written.Store(0); return true },
		syncFailed: func() { d.note("sync failed") },
		broken:     func(broken bool) { d.note("broken %v", broken) },
		lost:       func(n int) { d.note("lost %d", n) },
	})
	return d
}

// sealed returns a chunk with n events of one letter.
func sealed(n int) *chunk {
	return &chunk{lane: &lane{}, epoch: 7, order: 1, n: n, size: int64(2 * n), slots: n, arena: letters(n), receipt: &receipt{}}
}

// whole returns a batch of chunks with all of their events.
func whole(chunks ...*chunk) *Batch {
	b := &Batch{key: "p/7/0/1", baseKey: "p/7/0/1", chunks: chunks, bodies: &openCounter{}}
	var parts []part
	for _, c := range chunks {
		parts = append(parts, part{c, 0, c.n})
	}
	b.setParts(parts)
	b.refs.Store(1)
	return b
}

func isDurable(c *chunk, i int) bool {
	changed, _ := c.receipt.poll(i, StateDurable)
	return changed == nil
}

var errIO = fmt.Errorf("sector: %w", syscall.EIO)

// fails returns a fault of one operation, n times; -1 is always.
func fails(op string, n int, err error) func(string) error {
	return func(got string) error {
		if got != op || n == 0 {
			return nil
		}
		n--
		return err
	}
}

func TestStoreDurable(t *testing.T) {
	d := newTestStore(t, Spool{SyncEvery: time.Second})
	c := sealed(5)
	if err := d.write(pendingWrite{c, events{c.arena.buf[:6], c.arena.ends[:3]}, c.receipt, c.arena}); err != nil {
		t.Fatal(err)
	}
	if isDurable(c, 0) {
		t.Error("an event is durable before its fsync")
	}
	d.log.sync(nil)
	if d.want(t, "durable 3"); !isDurable(c, 2) || isDurable(c, 3) {
		t.Error("the first three events must be durable, and no other")
	}
	if err := d.writeChunk(c); err != nil {
		t.Fatal(err)
	}
	d.log.sync(nil)
	if d.want(t, "durable 5"); !c.allWritten() || len(c.disk.records) != 2 {
		t.Errorf("got %d written in %d records, want the other two events in a second one", c.written.Load(), len(c.disk.records))
	}
	d.ack(c)
	if err := d.writeChunk(c); err != nil || len(d.log.acked) != 2 || len(d.log.waiting) != 0 {
		t.Errorf("%v: %d records acknowledged, %d written after that, want 2 and 0", err, len(d.log.acked), len(d.log.waiting))
	}
}

// TestStoreSyncFails writes a chunk again from its start. What an earlier round makes
// durable does not count.
func TestStoreSyncFails(t *testing.T) {
	d := newTestStore(t, Spool{SyncEvery: time.Second})
	c := sealed(5)
	d.writeChunk(c)
	late := d.log.waiting
	d.log.sync(errIO)
	d.want(t, "rewrite", "sync failed")
	late[0](nil)
	late[0](errIO) // the next record of the same round
	if d.want(t); isDurable(c, 0) {
		t.Error("events are durable though their fsync failed")
	}
	d.writeChunk(c)
	d.log.sync(nil)
	d.want(t, "durable 5")
	if d.ack(c); len(d.log.acked) != 2 {
		t.Errorf("%d records acknowledged, want both", len(d.log.acked))
	}
}

func TestStoreDiskFull(t *testing.T) {
	d := newTestStore(t, Spool{SyncEvery: time.Second})
	d.log.fail = fails("append", 1, spool.ErrFull)
	b := whole(sealed(5))
	d.persist(b)
	d.want(t, "broken true")
	if b.chunks[0].written.Load() != 0 || b.chunks[0].disk.noted {
		t.Error("a chunk counts as written though the disk is full")
	}
	d.persist(b)
	d.writeNote(b)
	if c := b.chunks[0]; !c.allWritten() || !c.disk.noted || len(c.disk.others) != 1 {
		t.Errorf("%d events written, %d notes, want 5 and 1", c.written.Load(), len(c.disk.others))
	}
	var none *store
	none.persist(b)
	none.writeNote(b)
	none.ack(b.chunks...)
}

// onDiskOnly returns a chunk of n events that was written and left memory.
func (d *testStore) onDiskOnly(t *testing.T, n int) *chunk {
	c := sealed(n)
	if err := d.writeChunk(c); err != nil {
		t.Fatal(err)
	}
	c.arena = nil
	return c
}

// TestStoreReads tries to read again while the system lacks something, and gives up a
// record that the disk fails to return. That one stays in the spool.
func TestStoreReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestStore(t, Spool{SyncEvery: time.Second})
		c := d.onDiskOnly(t, 3)
		d.log.fail = fails("read", 20, fmt.Errorf("open: %w", syscall.EMFILE))
		parts, ok := d.load(t.Context(), []*chunk{sealed(2), c})
		if !ok || len(parts) != 2 || string(parts[1].bytes()) != "a\nb\nc\n" {
			t.Errorf("got %v, %v", parts, ok)
		}
		d.want(t)
		bad := d.onDiskOnly(t, 4)
		d.log.fail = fails("read", -1, errIO)
		began := time.Now()
		parts, ok = d.load(t.Context(), []*chunk{bad})
		if took := time.Since(began); !ok || len(parts) != 0 || took != 3750*time.Millisecond {
			t.Errorf("got %v, %v after %v, want nothing after 3.75s", parts, ok, took)
		}
		d.want(t, "lost 4", "dropped 4 unreadable sector: input/output error")
		if d.ack(bad); len(d.log.acked) != 0 {
			t.Error("a record was acknowledged that may be read later")
		}
		var e *EventError
		if _, err := bad.receipt.poll(0, StateDelivered); !errors.As(err, &e) || e.Reason != ReasonUnreadable {
			t.Errorf("a ticket got %v", err)
		}
		if !strings.Contains(d.logged.String(), "the spool cannot be read") {
			t.Errorf("logged %s", &d.logged)
		}
	})
}

// TestStoreReadEnds ends sending while the disk fails: the events stay where they are.
func TestStoreReadEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newTestStore(t, Spool{})
		c := d.onDiskOnly(t, 3)
		d.log.fail = fails("read", -1, errIO)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if parts, ok := d.load(ctx, []*chunk{c}); ok || c.arena != nil {
			t.Errorf("got %v, though the disk failed", parts)
		}
		d.want(t)
	})
}

// TestStoreKeep keeps what Close has found: a chunk that waits, and a batch of which the
// receiver has taken the first half.
func TestStoreKeep(t *testing.T) {
	keep := func(t *testing.T, fail func(string) error) (d *testStore, f *transmission, c *chunk, err error) {
		d = newTestStore(t, Spool{SyncEvery: time.Second})
		sent, c := sealed(4), sealed(2)
		c.base = 4
		b := whole(sent)
		_, second := b.cut(2)
		second.attempt = 1
		f = &transmission{whole: b, todo: []*Batch{second}}
		d.persist(b)
		d.log.fail = fail
		return d, f, c, d.keep([]remainder{{sent, second.parts, true}, {c, []part{{c, 0, 2}}, true}}, []*transmission{f})
	}
	d, f, c, err := keep(t, func(string) error { return nil })
	if err != nil || !c.allWritten() || !f.whole.chunks[0].settled.Load() || len(d.log.acked) != 2 {
		t.Errorf("%v: the chunk that waits must be written, and the batch acknowledged, whose other half is written anew: %d", err, len(d.log.acked))
	}
	d, f, c, err = keep(t, fails("append", -1, spool.ErrFull))
	if !errors.Is(err, spool.ErrFull) || c.written.Load() != 0 || f.whole.chunks[0].settled.Load() || len(d.log.acked) != 0 {
		t.Errorf("%v: with a full disk, the whole batch must stay", err)
	}
	_, _, c, err = keep(t, fails("sync", 3, errIO))
	if err != nil || !c.allWritten() {
		t.Errorf("%v: an fsync that works the fourth time is enough", err)
	}
	if _, _, _, err = keep(t, fails("sync", -1, errIO)); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want the error of the fsync", err)
	}
}

// TestSpoolWriter is about the times of rounds and what fails in them.
func TestSpoolWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := newTestStore(t, Spool{SyncEvery: 20 * time.Millisecond})
		var todo, surplus []*chunk
		urgent := false
		note := func(what string) { d.note("%v %s", time.Since(began), what) }
		d.env.broken = func(broken bool) { note(fmt.Sprint("broken ", broken)) }
		d.env.evict = func(c *chunk, durable int) { note(fmt.Sprint("durable ", durable)) }
		w := newSpoolWriter(d.store, writerEnv{
			urgent: func() bool { return urgent },
			open:   func(func(pendingWrite) bool) {},
			unwritten: func() *chunk {
				if len(todo) == 0 || todo[0].allWritten() {
					return nil
				}
				return todo[0]
			},
			surplus: func() []*chunk { return surplus },
			keep:    func(c []*chunk) { note(fmt.Sprint("keep ", len(c))) },
		})
		d.env.syncFailed = w.syncFailed
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.run(ctx)
		}()
		// want lets an hour pass.
		want := func(calls ...string) {
			t.Helper()
			advance(time.Hour)
			d.want(t, calls...)
			began = time.Now()
		}
		want()

		todo = []*chunk{sealed(5)}
		d.log.fail = fails("append", 2, spool.ErrFull)
		w.wake()
		want("10ms broken true", "260ms broken true", "510ms broken false")

		surplus, todo = []*chunk{sealed(3), sealed(2)}, nil
		d.log.fail = fails("append", 1, spool.ErrFull)
		urgent = true
		w.wake()
		want("0s keep 2", "0s broken true", "250ms durable 0", "250ms durable 0", "250ms broken false")

		surplus = nil
		d.log.sync(nil)
		d.calls = nil
		todo = []*chunk{sealed(5)}
		w.syncFailed()
		want("0s broken true", "250ms broken false")
		w.failed.Store(true)
		time.AfterFunc(100*time.Millisecond, w.syncFailed)
		w.wake()
		want("0s broken true", "250ms broken true", "750ms broken false", "750ms broken false") // the last one for the wake meanwhile

		cancel()
		<-done
	})
}

// TestRecovery makes chunks of records as they lie in a spool.
func TestRecovery(t *testing.T) {
	sp, _, err := spool.Open(spool.Options{Dir: "spool", FS: vfstest.New(), SegmentBytes: 64 << 10, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer sp.Close()
	type found struct {
		at spool.Position
		r  spool.Record
	}
	var all []found
	put := func(kind spool.Kind, base, n int, payload []byte) {
		r := spool.Record{Kind: kind, Epoch: 3, Seq: uint64(base), Count: uint32(n), Payload: payload}
		at, err := sp.Append(r)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found{at, r})
	}
	data := func(base, n, lanes int) {
		put(spool.Data, base, n, appendData(nil, FormatLines, placement{0, lanes, lanes > 1, 9}, letters(n).events, 0, n))
	}
	note := func(key string, spans ...span) { put(spool.Batch, 0, 0, appendNote(nil, key, spans)) }
	// recover returns the bases, events and keys of the chunks, and what was acknowledged.
	recover := func(s settings) (got string, acked int, r *recovery) {
		s.chunkEvents, s.chunkBytes = 10, 1000
		s.log = newThrottledLogger(slog.New(slog.NewTextHandler(io.Discard, nil)))
		r = &recovery{settings: &s, ack: func(ps ...spool.Position) { acked += len(ps) }}
		for i := range s.laneCount {
			r.lanes = append(r.lanes, &lane{id: i})
		}
		records := iter.Seq2[spool.Position, spool.Record](func(yield func(spool.Position, spool.Record) bool) {
			for _, f := range all {
				if !yield(f.at, f.r) {
					return
				}
			}
		})
		for _, c := range r.chunks(records) {
			got += fmt.Sprintf("%d+%d %q foreign %v; ", c.base, c.n, c.key, c.foreign)
		}
		all = nil
		return got, acked, r
	}
	f := func(s settings, want string, wantAcked int) *recovery {
		t.Helper()
		got, acked, r := recover(s)
		if got != want || acked != wantAcked {
			t.Errorf("got %s and %d acknowledged, want %s and %d", got, acked, want, wantAcked)
		}
		return r
	}
	one := settings{laneCount: 1, ordered: true}

	data(6, 6, 1) // out of order, and no more than ten events in a chunk
	data(0, 6, 1)
	f(one, `0+6 "" foreign false; 6+6 "" foreign false; `, 0)

	data(0, 3, 1)
	data(3, 3, 1)
	data(6, 3, 1)
	note("k1", span{0, 3, 0, 6})
	f(one, `0+6 "k1" foreign false; 6+3 "" foreign false; `, 0)

	data(0, 3, 1) // the events from 3 are missing, so that the key must not be used
	data(6, 3, 1)
	note("k1", span{0, 3, 0, 6})
	f(one, `0+3 "" foreign false; 6+3 "" foreign false; `, 1)

	data(0, 3, 1) // likewise
	data(4, 2, 1)
	note("k1", span{0, 3, 3, 3})
	f(one, `0+3 "" foreign false; 4+2 "" foreign false; `, 1)

	data(0, 3, 1)
	data(3, 3, 1)
	note("k1", span{0, 3, 0, 6})
	note("k2", span{0, 3, 0, 3}) // the later one is valid
	f(one, `0+3 "k2" foreign false; 3+3 "" foreign false; `, 1)

	data(0, 3, 1) // written again after an fsync that failed
	data(0, 5, 1)
	data(1, 2, 1)
	f(one, `0+5 "" foreign false; `, 2)

	data(0, 3, 2)
	f(settings{laneCount: 2, ordered: true, keyFingerprint: 9}, `0+3 "" foreign false; `, 0)
	data(0, 3, 2)
	f(settings{laneCount: 2, ordered: true, keyFingerprint: 8}, `0+3 "" foreign true; `, 0)
	data(0, 3, 2)
	f(settings{laneCount: 3, keyFingerprint: 9}, `0+3 "" foreign false; `, 0)

	put(spool.Data, 0, 4, []byte("damage"))
	put(spool.Batch, 0, 0, []byte{9})
	data(4, 2, 1)
	if r := f(one, `4+2 "" foreign false; `, 2); r.corrupt != 2 || r.lost != 4 {
		t.Errorf("%d records and %d events cannot be decoded, want 2 and 4", r.corrupt, r.lost)
	}
}
