package faults

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// damagedEvents is the number of events on the damaged disk, in records of at most
// damagedRecord.
const (
	damagedEvents = 240
	damagedRecord = 10
)

// damageConfig returns the options of both processors: the one that fills the disk and the
// one that finds it damaged.
func damageConfig(dir string, send batch.SendFunc) config {
	return config{
		Send:    send,
		Trigger: batch.Trigger{Count: damagedRecord},
		Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 2},
		Spool:   &batch.Spool{Dir: dir, WriteAhead: true, SegmentBytes: 8 << 10},
	}
}

// writeSpool fills a spool and returns its files.
func writeSpool(t *testing.T) (*oracle.Ledger, map[string][]byte) {
	t.Helper()
	dir := t.TempDir()
	r := start(t, damageConfig(dir, func(context.Context, *batch.Batch) batch.Outcome {
		return batch.Outcome{Err: errors.New("down")}
	}))
	for i := range damagedEvents {
		e := r.ledger.Next(uint64(i/damagedRecord%2), 60)
		ticket, err := r.AddAck(t.Context(), e)
		if r.ledger.Added(e, err) != nil {
			t.Fatal(err)
		}
		if i%damagedRecord == damagedRecord-1 {
			if err := ticket.Wait(t.Context(), batch.StateDurable); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report, _ := r.Close(ctx); report.Spooled != damagedEvents {
		t.Fatalf("Close: got %+v, want %d spooled", report, damagedEvents)
	}
	files := make(map[string][]byte)
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[rel], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.ledger, files
}

// TestFault09_Damage: a byte of the spool is wrong, or a file ends early. New works, the
// lost events are counted, and all others are delivered.
func TestFault09_Damage(t *testing.T) {
	ledger, files := writeSpool(t)
	rnd := random(t)
	for _, file := range slices.Sorted(maps.Keys(files)) {
		data := files[file]
		for _, at := range places(rnd, file, len(data)) {
			for _, how := range []string{"flip", "cut", "zero"} {
				bad := slices.Clone(data)
				switch how {
				case "flip":
					bad[at] ^= 1 << rnd.IntN(8)
				case "cut":
					bad = bad[:at]
				case "zero":
					clear(bad[at:min(len(bad), at+512)])
				}
				if slices.Equal(bad, data) {
					continue
				}
				damaged(t, ledger, files, file, bad, fmt.Sprintf("%s of %s at %d", how, file, at), how)
				if t.Failed() {
					return
				}
			}
		}
	}
}

// places returns the offsets to damage: all of files with events, and the beginning of
// others.
func places(rnd *rand.Rand, file string, size int) []int {
	n := scale(10, 100)
	used := min(size, 200)
	if strings.HasSuffix(file, ".seg") {
		n, used = scale(12, 1000), size
	}
	if used == 0 {
		return nil
	}
	at := []int{0, used - 1}
	for range n {
		at = append(at, rnd.IntN(used))
	}
	return at
}

// damaged runs a processor on the files with one of them replaced.
func damaged(t *testing.T, ledger *oracle.Ledger, files map[string][]byte, file string, bad []byte, what, how string) {
	dir := t.TempDir()
	for name, data := range files {
		if name == file {
			data = bad
		}
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}()
	store := oracle.NewStore(oracle.Rules{})
	c := damageConfig(dir, into(store))
	c.Encode = oracle.Encode
	c.Lanes.Key = func(e *event) uint64 { return e.Key }
	p, err := batch.New(c)
	if err != nil {
		t.Fatalf("%s: New: %v", what, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	found := p.Stats()
	if err := found.Balance(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	if err := p.Flush(ctx); err != nil {
		t.Fatalf("%s: Flush: %v; %+v", what, err, p.Stats())
	}
	report, err := p.Close(ctx)
	if err != nil || report.Undelivered > 0 || report.Spooled > 0 {
		t.Errorf("%s: Close: got %+v, %v", what, report, err)
	}
	s := p.Stats()
	if err := s.Balance(); err != nil {
		t.Errorf("%s: %v", what, err)
	}
	missing := damagedEvents - len(store.Copies())
	touched := damagedRecord
	if how == "zero" {
		touched *= 3 // 512 bytes reach into a third record at most
	}
	if how == "cut" {
		touched = damagedEvents // everything after it in the file
	}
	if missing > touched {
		t.Errorf("%s: got %d events lost, want at most %d; %+v", what, missing, touched, s)
	}
	if missing > 0 && s.Corrupt == 0 && how == "flip" {
		t.Errorf("%s: got %d events lost and no damage counted", what, missing)
	}
	if s.LostOnDisk > uint64(missing) {
		t.Errorf("%s: got %d events counted as lost, %d are", what, s.LostOnDisk, missing)
	}
	// Each record has the same number of events, so a gap is noticed unless it is at
	// the end of a lane.
	if how == "flip" && missing > 0 && s.LostOnDisk == 0 && !lastOfLane(store, ledger) {
		t.Errorf("%s: got no events counted as lost, %d are", what, missing)
	}
	for _, problem := range oracle.Judge(store, ledger, oracle.Promise{Once: true, Order: true, Lost: missing}) {
		t.Errorf("%s: %s", what, problem)
	}
	if t.Failed() {
		var names []string
		_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, _ error) error { // for the message only
			names = append(names, path)
			return nil
		})
		t.Logf("%s: files: %s", what, strings.Join(names, " "))
	}
}

// lastOfLane reports whether the last event of a key is missing.
func lastOfLane(store *oracle.Store, ledger *oracle.Ledger) bool {
	made := uint64(ledger.Count().Made)
	return !store.Has(made) || !store.Has(made-damagedRecord)
}

// TestFault09_Rot: files are damaged while a processor with events on disk only runs. It
// sends the other events, and reports how many it cannot send.
func TestFault09_Rot(t *testing.T) {
	v := &valve{store: oracle.NewStore(oracle.Rules{})}
	dir := t.TempDir()
	r := start(t, config{
		Send:    v.send,
		Trigger: batch.Trigger{Count: 20, Linger: time.Millisecond},
		Queue:   batch.Queue{Events: 100},
		Lanes:   batch.Lanes[event]{Order: batch.OrderTotal},
		Spool:   &batch.Spool{Dir: dir, SyncEvery: time.Millisecond},
	})
	r.load(1, 2000, 100)
	if s := r.balance("spilled"); s.Spooled < 1000 {
		t.Fatalf("got %d events on disk only, want most of 2000", s.Spooled)
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("got files %q, %v", paths, err)
	}
	for _, path := range paths {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at := int64(10_000); at < 100_000; at += 20_000 { // five records at most
			if _, err := f.WriteAt([]byte("rot"), at); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	v.open.Store(true)
	r.flush()
	_, s := r.end(patience)
	if s.Unreadable == 0 || s.Unreadable > 5*20*uint64(len(paths)) || s.Delivered+s.Unreadable != 2000 {
		t.Errorf("got %d delivered, %d unreadable of 2000, want a few unreadable", s.Delivered, s.Unreadable)
	}
	r.verdict(v.store, oracle.Promise{Once: true, Order: true, Kept: int(s.Unreadable)})
}
