package trail

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// killed returns the folder of a store as a kill leaves it right after an append was
// answered, before the log could note what is durable: one segment, and records in
// the log. content is where the last of them ends.
func killed(t *testing.T) (dir, log string, content int64) {
	t.Helper()
	live, dir := t.TempDir(), filepath.Join(t.TempDir(), "store")
	s := open(t, live, Options{FlushEvery: -1})
	add(t, s, ev("a", base, "view"))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	lot := rand.New(rand.NewPCG(1, 2))
	for i := range 5 {
		add(t, s, draw(lot, 3, fmt.Sprint(i))...)
	}
	if err := os.CopyFS(dir, os.DirFS(live)); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, walDir, "*.seg"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	// The last byte of a record may be a zero, which nothing here depends on.
	return dir, found[0], int64(len(bytes.TrimRight(b, "\x00")))
}

// wantLoss opens a store in every way: each reports that events are missing, before and
// after a writer opened the store, until the user removes the quarantine.
func wantLoss(t *testing.T, dir, how string) {
	t.Helper()
	wantMissing := func(when string) {
		t.Helper()
		r, err := Verify(t.Context(), dir, nil)
		if err != nil || r.OK() {
			t.Errorf("%s: %s: got a sound store, %v", how, when, err)
		}
		s, err := Open(dir, Options{ReadOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		if got := lossOf(t, s); !strings.Contains(got, "events are missing") {
			t.Errorf("%s: %s: got the warnings %q", how, when, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantMissing("before a writer")
	for _, opt := range []Options{quiet(), {}} {
		s, err := Open(dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := lossOf(t, s); !strings.Contains(got, "events are missing") {
			t.Errorf("%s: got the warnings %q of a writer", how, got)
		}
		add(t, s, ev("late", base, "view"))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	wantMissing("after a writer")
	if err := os.RemoveAll(filepath.Join(dir, walDir, quarantineDir)); err != nil {
		t.Fatal(err)
	}
	wantNoLoss(t, dir, how+", and the quarantine removed")
}

// wantNoLoss opens a store in every way: none reports a loss.
func wantNoLoss(t *testing.T, dir, how string) {
	t.Helper()
	for _, opt := range []Options{{ReadOnly: true}, quiet(), {ReadOnly: true}} {
		r, err := Verify(t.Context(), dir, nil)
		if err != nil || !r.OK() {
			t.Errorf("%s: got %v and %v, want a sound store", how, r.Damages, err)
		}
		s, err := Open(dir, opt)
		if err != nil {
			t.Fatal(err)
		}
		if got := lossOf(t, s); got != "" {
			t.Errorf("%s: got the warnings %q", how, got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestEndOfTheLog cuts and damages the end of the log at many places.
func TestEndOfTheLog(t *testing.T) {
	first, log, content := killed(t)
	name := filepath.Base(log)
	again := func() (dir, log string) {
		dir = filepath.Join(t.TempDir(), "store")
		if err := os.CopyFS(dir, os.DirFS(first)); err != nil {
			t.Fatal(err)
		}
		return dir, filepath.Join(dir, walDir, name)
	}
	for cut := int64(0); cut < content; cut += 41 {
		dir, log := again()
		if err := os.Truncate(log, cut); err != nil {
			t.Fatal(err)
		}
		wantLoss(t, dir, fmt.Sprint("cut to ", cut))
	}
	for _, back := range []int64{1, 5, 30, 60} { // in the last record
		dir, log := again()
		b, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		b[content-back] ^= 0x10
		if err := os.WriteFile(log, b, 0o600); err != nil {
			t.Fatal(err)
		}
		wantLoss(t, dir, fmt.Sprint("flipped ", back, " before the end"))
	}
	dir, log := again()
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	wantLoss(t, dir, "removed")

	dir, _ = again()
	wantNoLoss(t, dir, "killed")
	dir, log = again()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	copy(b[content+8:], b[content-60:content-10]) // what was interrupted, and never answered
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	wantNoLoss(t, dir, "a torn write behind the end")
	for _, note := range []string{"", "torn", strings.Repeat("x", ackedSize+4)} {
		dir, _ = again()
		if err := os.WriteFile(filepath.Join(dir, ackedName), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
		wantNoLoss(t, dir, fmt.Sprintf("the note %q", note))
	}
	dir, _ = again()
	note := filepath.Join(dir, ackedName)
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(note, 0o700); err != nil {
		t.Fatal(err)
	}
	wantNoLoss(t, dir, "a note that cannot be read")
	s := open(t, dir, quiet())
	add(t, s, ev("late", base, "view")) // nor written
}

// TestEndOfTheLogRebuilt has no manifest to say which commits are in segments.
func TestEndOfTheLogRebuilt(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e := ev("a", base, "view")
	e.ID = "once"
	add(t, s, e)
	add(t, s, e) // leaves no segment
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range manifestNames {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("broken"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	opt := quiet()
	opt.Rebuild = true
	if got := lossOf(t, open(t, dir, opt)); got != "" {
		t.Errorf("got the warnings %q", got)
	}
}

// TestInfoOfALog calls Info of a reader while a writer has events in the log alone.
func TestInfoOfALog(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	reader := func() *Store {
		add(t, s, ev("a", base, "view"))
		return open(t, dir, Options{ReadOnly: true})
	}()
	for range 3 {
		if err := reader.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		got, want := reader.Info(), s.Info()
		if got.WALBytes == 0 || got.WALBytes != want.WALBytes || got.WALRecords != want.WALRecords {
			t.Errorf("got %d bytes in %d records, want %d in %d", got.WALBytes, got.WALRecords, want.WALBytes, want.WALRecords)
		}
		add(t, s, draw(rand.New(rand.NewPCG(1, 2)), 20, "x")...)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := reader.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := reader.Info(); got.WALBytes != 0 || got.WALRecords != 0 {
		t.Errorf("got %d bytes in %d records after a flush", got.WALBytes, got.WALRecords)
	}
}
