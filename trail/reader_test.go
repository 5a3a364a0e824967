package trail

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestReadersBesideAWriter has stores open for reading refreshed all the time,
// while a writer appends, flushes, compacts and deletes files under them: they see
// everything that was acknowledged before, once.
func TestReadersBesideAWriter(t *testing.T) {
	opt := quiet()
	opt.FlushRows = 300
	dir := t.TempDir()
	s := open(t, dir, opt)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var acked, begun atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		lot := rand.New(rand.NewPCG(1, 1))
		for i := 0; ctx.Err() == nil; i++ {
			begun.Add(20)
			if err := s.Append(t.Context(), draw(lot, 20, fmt.Sprint(i))); err != nil {
				t.Error(err)
				return
			}
			acked.Add(20)
			if i%20 == 19 {
				if err := s.Compact(t.Context(), nil); err != nil {
					t.Error(err)
				}
			}
		}
	})
	for range 2 {
		r := open(t, dir, Options{ReadOnly: true})
		for range 2 {
			wg.Go(func() {
				for ctx.Err() == nil {
					least := acked.Load()
					if err := r.Refresh(t.Context()); err != nil {
						t.Error(err)
						return
					}
					if got, most := count(t, r), begun.Load(); got < least || got > most {
						t.Errorf("got %d events, want %d to %d", got, least, most)
						return
					}
				}
			})
		}
	}
	wg.Go(func() {
		for ctx.Err() == nil {
			r, err := Verify(t.Context(), dir, nil)
			if err != nil || !r.OK() {
				t.Errorf("got %v and %v while the store is in use", err, r.Damages)
				return
			}
		}
	})
	wg.Wait()
}

// TestReaderAlone has a reader follow a log and a manifest that are written here, without
// a store of either side.
func TestReaderAlone(t *testing.T) {
	cat, fsys := newCatalogBench(t)
	wal, _, err := spool.Open(spool.Options{Dir: cat.files.path(walDir), FS: fsys, SyncEvery: -1, SyncBytes: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := wal.Close(); err != nil {
			t.Error(err)
		}
	}()
	write := func(payload []byte) {
		t.Helper()
		if _, err := wal.Append(spool.Record{Kind: spool.Data, Count: 1, Payload: payload}); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(number uint64, user string) {
		t.Helper()
		write(encodeRecord(nil, record{commit: number, chunks: [][]byte{requestOf(t, ev(user, base, "view")).chunk}}))
	}
	opt, err := Options{fs: fsys, ReadOnly: true}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	st := newState(newFolder("store", opt), opt)
	r := reader{files: st.files, state: st, acked: &ackNote{files: st.files}}
	want := func(rows int64) {
		t.Helper()
		if err := r.load(); err != nil {
			t.Fatal(err)
		}
		if got := rowsIn(t, st); got != rows {
			t.Errorf("got %d events, want %d", got, rows)
		}
	}
	commit(1, "a")
	want(1)
	defer func() { st.current.Swap(nil).unpin() }()
	commit(2, "b")
	want(2)
	write(encodeRecord(nil, record{commit: 3, voided: []uint64{2}})) // 2 was refused
	want(1)

	// The disk cannot be read: the state stays, and the next load finds what there is.
	commit(4, "c")
	broken := errors.New("broken")
	fsys.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Open && strings.Contains(name, ".seg") {
			return broken
		}
		return nil
	})
	if err := r.load(); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
	if rows := rowsIn(t, st); rows != 1 {
		t.Errorf("got %d events, want 1", rows)
	}
	fsys.SetFail(nil)
	want(2)

	// Events go from the log to a segment, and are seen once.
	made := segmentFile(t, cat, 1, 4)
	if err := cat.replace(nil, []*source{made}, func(m *manifest) error {
		m.Flushed = 4
		return nil
	}, nil); err != nil {
		t.Fatal(err)
	}
	want(made.Rows)

	// A record that cannot be read is an error each time, and not skipped.
	write(encodeRecord(nil, record{commit: 5, chunks: [][]byte{[]byte("not a chunk")}}))
	for range 2 {
		if err := r.load(); !errors.Is(err, errRecord) {
			t.Errorf("got %v, want %v", err, errRecord)
		}
	}
	if rows := rowsIn(t, st); rows != made.Rows {
		t.Errorf("got %d events, want %d", rows, made.Rows)
	}
}
