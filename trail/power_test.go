package trail

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/trail/event"
)

func powerOptions(fsys vfs.FS) Options {
	return Options{Bucket: 24 * time.Hour, FlushEvery: -1, rows: 200, spill: 100, fs: fsys}
}

// TestPowerLoss takes the power from a store that is appended to, flushed, imported
// to and compacted, at random moments, and looks for what it had acknowledged.
func TestPowerLoss(t *testing.T) {
	rounds := 12
	if os.Getenv("TRAIL_FAULTS") == "full" {
		rounds = 400
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 1))
	csv := filepath.Join(t.TempDir(), "file.csv")
	fsys := vfstest.New()
	acked := acknowledged{imported: make(map[string]bool), deleted: make(map[string]bool)}
	for round := range rounds {
		tap := &tapFS{FS: fsys}
		s, err := Open("store", powerOptions(tap))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		checkAcknowledged(t, s, &acked)
		if t.Failed() {
			t.Fatalf("round %d", round)
		}
		s.checkVerify(t, fsys)
		var after *vfstest.FS
		steps := 3 + lot.IntN(25)
		for step := range steps {
			if step == steps-1 { // the power goes while this one is at work
				after = duringPower(t, s, fsys, tap, lot, csv, round, step, &acked)
			} else {
				powerStep(t, s, lot, csv, fmt.Sprintf("import-%d-%d", round, step), &acked)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		fsys = after
	}
}

func (s *Store) checkVerify(t *testing.T, fsys *vfstest.FS) {
	t.Helper()
	opt, err := Options{ReadOnly: true, fs: fsys}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r, err := verify(t.Context(), newFolder("store", opt), nil)
	if err != nil || !r.OK() {
		t.Fatalf("got %v and %v, want a sound store", err, r.Damages)
	}
}

// powerStep does one thing to a store and notes what was acknowledged.
func powerStep(t *testing.T, s *Store, lot *rand.Rand, csv, name string, acked *acknowledged) {
	t.Helper()
	var err error
	switch lot.IntN(10) {
	case 0:
		err = s.Flush(t.Context())
	case 1:
		err = s.Compact(t.Context(), nil)
	case 2:
		text := "user,time,event,file\n"
		for r := range importRows {
			text += fmt.Sprintf("i%d,%d,import,%s\n", r%11, day(int64(r%6))+int64(r), name)
		}
		if err := os.WriteFile(csv, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		acked.imported[name] = false
		if _, err = s.Import(t.Context(), []string{csv}, ImportOptions{TimeUnit: "ms"}); err == nil {
			acked.imported[name] = true
		}
	case 3:
		if err = s.Append(t.Context(), []event.Event{ev("gone-"+name, day(1), "gone")}); err == nil {
			if _, err = s.DeleteUser(t.Context(), "gone-"+name); err == nil {
				acked.deleted["gone-"+name] = true
			}
		}
	default:
		w := lot.IntN(writers)
		source := fmt.Sprint("w", w)
		n, _ := strconv.Atoi(string(s.Mark(source))) // 0 before the first
		batch := make([]event.Event, 1+lot.IntN(40))
		for i := range batch {
			batch[i] = eventOf(w, n+i)
		}
		n += len(batch)
		if err = s.AppendMarked(t.Context(), batch, source, strconv.AppendInt(nil, int64(n), 10)); err == nil {
			acked.written[w] = n
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

// duringPower does a step, and returns what a loss of power leaves at a random
// operation of the file system within it, or after it. What the step has
// acknowledged counts in the second case alone.
func duringPower(t *testing.T, s *Store, fsys *vfstest.FS, tap *tapFS, lot *rand.Rand, csv string, round, step int, acked *acknowledged) *vfstest.FS {
	t.Helper()
	var once sync.Once
	var after *vfstest.FS
	var operations atomic.Int64
	at := int64(lot.IntN(40))
	crash := rand.New(rand.NewPCG(lot.Uint64(), 1))
	before := acknowledged{written: acked.written, imported: make(map[string]bool), deleted: make(map[string]bool)}
	for k, v := range acked.imported {
		before.imported[k] = v
	}
	for k, v := range acked.deleted {
		before.deleted[k] = v
	}
	name := fmt.Sprintf("import-%d-%d", round, step)
	before.imported[name] = false
	lost := false
	hit := func() {
		if operations.Add(1) == at {
			once.Do(func() { after, lost = fsys.Crash(crash), true })
		}
	}
	tap.hit.Store(&hit)
	powerStep(t, s, lot, csv, name, acked)
	once.Do(func() { after = fsys.Crash(crash) })
	if lost {
		*acked = before
	}
	return after
}

// TestFaults has each operation of the file system fail once, and the disk full for
// a while: what is refused is not there, what is acknowledged is, now and after the
// next Open.
func TestFaults(t *testing.T) {
	ops := []vfstest.Op{
		vfstest.Create, vfstest.Open, vfstest.Read, vfstest.Write, vfstest.Truncate, vfstest.Sync,
		vfstest.Remove, vfstest.Rename, vfstest.SyncDir,
	}
	steps := 60
	if invariant.Race {
		steps = 20
	}
	if os.Getenv("TRAIL_FAULTS") == "full" {
		steps = 1500
	}
	for _, op := range ops {
		t.Run(string(op), func(t *testing.T) { faults(t, op, syscall.EIO, steps) })
	}
	t.Run("full disk", func(t *testing.T) { faults(t, vfstest.Write, syscall.ENOSPC, steps) })
}

func faults(t *testing.T, op vfstest.Op, fault error, steps int) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	lot := rand.New(rand.NewPCG(seed, 1))
	fsys := vfstest.New()
	s, err := Open("store", powerOptions(fsys))
	if err != nil {
		t.Fatal(err)
	}
	var present [writers]int // events that are there
	for step := range steps {
		var seen atomic.Int64
		at := int64(1 + lot.IntN(4))
		last := at
		if lot.IntN(3) == 0 {
			last = at + 3 // it fails for a while
		}
		fsys.SetFail(func(o vfstest.Op, _ string) error {
			if o == op {
				if n := seen.Add(1); n >= at && n <= last {
					return fault
				}
			}
			return nil
		})
		w := lot.IntN(writers)
		var e event.Event
		switch lot.IntN(6) {
		case 0:
			err = s.Flush(context.Background())
		case 1:
			err = s.Compact(context.Background(), nil)
		default:
			e = eventOf(w, present[w])
			err = s.Append(context.Background(), []event.Event{e})
			if err == nil {
				present[w]++
			}
		}
		fsys.SetFail(nil)
		if err != nil && !errors.Is(err, fault) && !errors.Is(err, syscall.EIO) {
			t.Fatalf("step %d: got %v, want it to wrap %v", step, err, fault)
		}
		if lot.IntN(12) > 0 {
			checkPresent(t, s, present)
			continue
		}
		if err := s.Close(); err != nil && !errors.Is(err, fault) {
			t.Fatal(err)
		}
		if s, err = Open("store", powerOptions(fsys)); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		checkPresent(t, s, present)
		if t.Failed() {
			t.Fatalf("step %d", step)
		}
	}
	if err := s.Compact(context.Background(), nil); err != nil {
		t.Error(err)
	}
	checkPresent(t, s, present)
	s.checkVerify(t, fsys)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func checkPresent(t *testing.T, s *Store, present [writers]int) {
	t.Helper()
	var got [writers]int
	eachRow(t, s, func(_ *cursor, schema event.Schema, values []event.Value) {
		w, n := values[schema.Index("writer")].Int(), values[schema.Index("n")].Int()
		if n >= int64(present[w]) {
			t.Errorf("writer %d: got event %d, which was refused", w, n)
		}
		got[w]++
	})
	if got != present {
		t.Errorf("got %v events, want %v", got, present)
	}
}

// TestMemoryIsFull lets flushes fail: appends are refused, with the reason, once
// there is twice as much in memory as there should be, and go on when the disk
// works again.
func TestMemoryIsFull(t *testing.T) {
	fsys := vfstest.New()
	opt := powerOptions(fsys)
	opt.Memory = 64 << 10
	s := open(t, "store", opt)
	broken := errors.New("broken")
	fsys.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Create && strings.HasSuffix(filepath.Dir(name), tmpDir) {
			return broken
		}
		return nil
	})
	lot := rand.New(rand.NewPCG(1, 2))
	taken := 0
	var err error
	for err == nil {
		if err = s.Append(t.Context(), draw(lot, 100, fmt.Sprint(taken))); err == nil {
			taken += 100
		}
		if taken > 1e6 {
			t.Fatal("appends are never refused")
		}
	}
	if !errors.Is(err, broken) {
		t.Errorf("got %v, want the reason why nothing can be flushed", err)
	}
	wantCount(t, s, int64(taken))
	fsys.SetFail(nil)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, draw(lot, 100, "more")...)
	wantCount(t, s, int64(taken+100))
}
