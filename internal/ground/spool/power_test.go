package spool_test

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// A ledger has what the spool reported to the writer of the test.
type ledger struct {
	mu struct {
		sync.Mutex
		sent    map[key][]byte // ever appended
		durable map[key]bool   // the callback got nil
		acked   map[key]bool   // about to be acknowledged, or more
		over    bool           // the power is lost: reports no longer count
	}
}

func newLedger() *ledger {
	l := &ledger{}
	l.mu.sent, l.mu.durable, l.mu.acked = make(map[key][]byte), make(map[key]bool), make(map[key]bool)
	return l
}

// check compares the ledger with a recovered spool, and keeps what is left.
func (l *ledger) check(t *testing.T, s *spool.Spool, rep spool.Recovery) map[key]spool.Position {
	t.Helper()
	got, at := recovered(t, s)
	l.mu.Lock()
	defer l.mu.Unlock()
	for k := range l.mu.durable {
		if _, ok := got[k]; !ok && !l.mu.acked[k] {
			t.Errorf("%+v was durable and is lost; %+v", k, rep)
		}
	}
	for k, b := range got {
		if want, ok := l.mu.sent[k]; !ok || !bytes.Equal(b, want) {
			t.Errorf("%+v: got %.30q, want %.30q", k, b, want)
		}
	}
	if uint64(len(got)) != rep.Records {
		t.Errorf("got %d records, want %d as reported", len(got), rep.Records)
	}
	return at
}

// TestPowerLoss is row 7: records that were durable and not acknowledged come back
// unchanged after any number of losses of power, also during recovery.
func TestPowerLoss(t *testing.T) {
	const rounds = 400
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	fs := vfstest.New()
	l := newLedger()
	durable, epoch := 0, uint64(0)
	for round := range rounds {
		opt := spool.Options{
			Dir: dir, FS: fs, SegmentBytes: 8 << 10, SyncEvery: -1, SyncBytes: int64(1 + rnd.IntN(8000)),
			CheckpointEvery: time.Duration(1+rnd.IntN(3)) * 100 * time.Microsecond,
		}
		s, rep := open(t, opt)
		if s.Epoch() <= epoch {
			t.Fatalf("round %d: got epoch %d after %d", round, s.Epoch(), epoch)
		}
		epoch = s.Epoch()
		at := l.check(t, s, rep)
		if t.Failed() {
			t.Fatalf("round %d, seed %d", round, seed)
		}
		next := l.run(t, s, fs, rnd, at)
		if err := s.Close(); err != nil { // on the disk before the loss of power
			t.Fatal(err)
		}
		durable += len(l.mu.durable)
		l.mu.over = false
		fs = next
	}
	if durable < rounds {
		t.Errorf("got %d durable records in %d rounds: the test tests nothing", durable, rounds)
	}
}

// run appends and acknowledges at random, until the power is lost, and returns
// the disk after that.
func (l *ledger) run(t *testing.T, s *spool.Spool, fs *vfstest.FS, rnd *rand.Rand, at map[key]spool.Position) *vfstest.FS {
	t.Helper()
	seq := make(map[uint16]uint64)
	for range rnd.IntN(80) {
		switch rnd.IntN(5) {
		case 0, 1, 2:
			lane := uint16(rnd.IntN(3))
			k := key{lane, s.Epoch(), seq[lane]}
			seq[lane]++
			b := payload(lane, k.seq, rnd.IntN(2000))
			l.mu.Lock()
			l.mu.sent[k] = b
			l.mu.Unlock()
			p, err := s.Append(spool.Record{Kind: spool.Data, Lane: lane, Epoch: k.epoch, Seq: k.seq, Count: 1, Payload: b})
			if err != nil {
				t.Fatal(err)
			}
			at[k] = p
			s.Durable(p, func(err error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if err == nil && !l.mu.over {
					l.mu.durable[k] = true
				}
			})
		case 3:
			keys := slices.SortedFunc(maps.Keys(at), func(a, b key) int { // or the rnd would not repeat
				return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.lane, b.lane), cmp.Compare(a.seq, b.seq))
			})
			for len(keys) > 0 && rnd.IntN(10) > 0 {
				i := rnd.IntN(len(keys))
				k := keys[i]
				keys = slices.Delete(keys, i, i+1)
				l.mu.Lock()
				l.mu.acked[k] = true
				l.mu.Unlock()
				s.Ack(at[k])
				delete(at, k)
			}
		case 4:
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.over = true
	return fs.Crash(rnd)
}

// TestSyncFails shows what follows a failed fsync: waiters get the error, the file is
// not synced again, its records stay readable, and records appended again are safe.
func TestSyncFails(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	good := put(t, s, 0, 0, 100)
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	syncs := make(map[string]int) // read and written under the lock of fs
	var broken string
	fs.SetFail(func(op vfstest.Op, name string) error {
		if op != vfstest.Sync || len(name) < 4 || name[len(name)-4:] != ".seg" {
			return nil
		}
		if broken == "" {
			broken = name
		}
		syncs[name]++
		if name == broken {
			return syscall.EIO
		}
		return nil
	})
	var at []spool.Position
	var again []spool.Position
	calls := 0
	for seq := uint64(1); seq <= 3; seq++ {
		p := put(t, s, 0, seq, 100)
		at = append(at, p)
		s.Durable(p, func(err error) {
			calls++
			var failed *spool.SyncError
			if !errors.As(err, &failed) || !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want a SyncError of EIO", err)
			}
			p, err := s.Append(spool.Record{Kind: spool.Data, Epoch: s.Epoch(), Seq: seq, Count: 1, Payload: payload(0, seq, 100)})
			if err != nil {
				t.Error(err)
			}
			again = append(again, p)
		})
	}
	var failed *spool.SyncError
	if err := s.Sync(); !errors.As(err, &failed) {
		t.Errorf("got %v, want a SyncError", err)
	}
	if calls != 3 {
		t.Errorf("got %d callbacks, want 3", calls)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("got %v for the new segment", err)
	}
	for i, p := range at {
		if b, err := s.Read(p, nil); err != nil || !bytes.Equal(b, payload(0, uint64(i+1), 100)) {
			t.Errorf("got %.20q %v, want it readable", b, err)
		}
	}
	if b, err := s.Read(good, nil); err != nil || !bytes.Equal(b, payload(0, 0, 100)) {
		t.Errorf("got %.20q %v, want it readable", b, err)
	}
	after := fs.Crash(rand.New(rand.NewPCG(1, 1)))
	for _, p := range append(at, good) {
		s.Ack(p)
	}
	shut(t, s)
	if syncs[broken] != 1 {
		t.Errorf("got %d fsyncs of the broken file, want 1", syncs[broken])
	}
	s, _ = open(t, quiet(after))
	got, _ := recovered(t, s)
	for seq := uint64(0); seq <= 3; seq++ {
		found := false
		for k := range got {
			found = found || k.seq == seq
		}
		if !found {
			t.Errorf("seq %d is lost", seq)
		}
	}
	shut(t, s)
	if len(again) != 3 {
		t.Errorf("got %d records appended again, want 3", len(again))
	}
}

// TestWriteFails shows that Append goes on to the next file if one cannot be written.
func TestWriteFails(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	put(t, s, 0, 0, 100)
	broken := ""
	fs.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Write && len(name) > 4 && name[len(name)-4:] == ".seg" && (broken == "" || broken == name) {
			broken = name
			return syscall.EIO
		}
		return nil
	})
	put(t, s, 0, 1, 100)
	put(t, s, 0, 2, 100)
	shut(t, s)
	s, rep := open(t, quiet(fs))
	if got, _ := recovered(t, s); len(got) != 3 || rep.Corrupt != 0 {
		t.Errorf("got %d records, %+v", len(got), rep)
	}
	fs.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Write {
			return syscall.EIO
		}
		return nil
	})
	if _, err := s.Append(spool.Record{Kind: spool.Data, Payload: []byte("x")}); !errors.Is(err, syscall.EIO) || errors.Is(err, spool.ErrFull) {
		t.Errorf("got %v, want EIO when every file is broken", err)
	}
	fs.SetFail(nil)
	put(t, s, 0, 3, 10)
	shut(t, s)
}

// TestStress uses all methods concurrently.
func TestStress(t *testing.T) {
	opt := spool.Options{Dir: t.TempDir(), SegmentBytes: 32 << 10, SyncEvery: time.Millisecond, CheckpointEvery: time.Millisecond}
	s, _ := open(t, opt)
	const workers, each = 8, 300
	var wg, callbacks sync.WaitGroup
	errs := make(chan error, workers)
	for lane := range uint16(workers) {
		wg.Go(func() {
			var buf []byte
			var mine []spool.Position
			for seq := range uint64(each) {
				want := payload(lane, seq, int(seq%700))
				p, err := s.Append(spool.Record{Kind: spool.Data, Lane: lane, Epoch: s.Epoch(), Seq: seq, Count: 1, Payload: want})
				if err != nil {
					errs <- err
					return
				}
				callbacks.Add(1)
				s.Durable(p, func(error) { callbacks.Done() })
				if buf, err = s.Read(p, buf[:0]); err != nil || !bytes.Equal(buf, want) {
					errs <- fmt.Errorf("read %v: %.20q %w", p, buf, err)
					return
				}
				mine = append(mine, p)
				if seq%3 != 0 {
					s.Ack(mine[0])
					mine = mine[1:]
				}
				if seq%100 == 0 {
					if err := s.Sync(); err != nil {
						errs <- err
						return
					}
				}
				s.Stats()
			}
			for _, p := range mine[1:] {
				s.Ack(p)
			}
		})
	}
	wg.Wait()
	select {
	case err := <-errs:
		t.Fatal(err)
	default:
	}
	if st := s.Stats(); st.LiveRecords != workers || st.Appended != workers*each {
		t.Errorf("got %+v, want %d live", st, workers)
	}
	shut(t, s)
	callbacks.Wait()
	s, rep := open(t, opt)
	if got, _ := recovered(t, s); len(got) != workers || rep.Corrupt != 0 || rep.Truncated != 0 {
		t.Errorf("got %d records, %+v", len(got), rep)
	}
	shut(t, s)
}

// TestCloseWhileInUse closes a spool while others append and sync.
func TestCloseWhileInUse(t *testing.T) {
	s, _ := open(t, spool.Options{Dir: dir, FS: vfstest.New(), SegmentBytes: 4096})
	var wg sync.WaitGroup
	started := make(chan struct{}, 4)
	for lane := range uint16(4) {
		wg.Go(func() {
			for seq := uint64(0); ; seq++ {
				p, err := s.Append(spool.Record{Kind: spool.Data, Lane: lane, Seq: seq, Count: 1, Payload: payload(lane, seq, 300)})
				if errors.Is(err, spool.ErrClosed) {
					return
				}
				if seq == 10 {
					started <- struct{}{}
				}
				if seq%2 == 0 {
					s.Ack(p)
				}
				if err := s.Sync(); err != nil && !errors.Is(err, spool.ErrClosed) {
					t.Error(err)
				}
			}
		})
	}
	for range 4 {
		<-started
	}
	shut(t, s)
	wg.Wait()
}

// TestKilledBeforeFolderSync kills the process after it has made a segment, before the
// entry of the folder is durable. What the next one recovers must survive a loss of
// power.
func TestKilledBeforeFolderSync(t *testing.T) {
	fs := vfstest.New()
	s, _ := open(t, quiet(fs))
	s.Ack(put(t, s, 1, 6, 100))
	shut(t, s) // both checkpoints are there
	s, _ = open(t, quiet(fs))
	put(t, s, 1, 7, 100)
	fs.SetFail(func(op vfstest.Op, _ string) error {
		if op == vfstest.SyncDir {
			return syscall.EIO
		}
		return nil
	})
	if err := s.Sync(); err == nil {
		t.Error("got no error")
	}
	shut(t, s)
	fs.SetFail(nil)
	s, _ = open(t, quiet(fs))
	_, at := recovered(t, s)
	if len(at) != 1 {
		t.Fatalf("got %d records", len(at))
	}
	for _, p := range at {
		durable := make(chan error, 1)
		s.Durable(p, func(err error) { durable <- err })
		if err := <-durable; err != nil {
			t.Fatal(err)
		}
	}
	for seed := range uint64(10) {
		after, rep := open(t, quiet(fs.Crash(rand.New(rand.NewPCG(seed, 1)))))
		if rep.Records != 1 || rep.Corrupt != 0 {
			t.Errorf("got %+v", rep)
		}
		shut(t, after)
	}
	shut(t, s)
}

// TestCloseAfterFailedSync gets an error from Close for an fsync that failed, before it
// or within it, and that nothing else has reported.
func TestCloseAfterFailedSync(t *testing.T) {
	begin := func() (s *spool.Spool, fail func()) {
		fs := vfstest.New()
		s, _ = open(t, quiet(fs))
		return s, func() {
			once := true // as the kernel says it once; read and written under the lock of fs
			fs.SetFail(func(op vfstest.Op, name string) error {
				if op == vfstest.Sync && strings.HasSuffix(name, ".seg") && once {
					once = false
					return syscall.EIO
				}
				return nil
			})
		}
	}
	var failed *spool.SyncError

	s, fail := begin()
	put(t, s, 0, 0, 100)
	fail()
	if err := s.Close(); !errors.As(err, &failed) {
		t.Errorf("a record that is not durable: got %v, want a SyncError", err)
	}

	s, fail = begin()
	s.Durable(put(t, s, 0, 0, 100), func(error) {
		fail()
		put(t, s, 0, 1, 100)
	})
	if err := s.Close(); !errors.As(err, &failed) {
		t.Errorf("a record that was appended while it closes: got %v, want a SyncError", err)
	}

	s, fail = begin()
	s.Durable(put(t, s, 0, 0, 100), func(err error) {
		if err != nil {
			put(t, s, 0, 0, 100)
		}
	})
	fail()
	if err := s.Close(); err != nil {
		t.Errorf("a record that was appended again: got %v", err)
	}
}
