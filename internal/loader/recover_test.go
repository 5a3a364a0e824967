package loader

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRestart goes on in the same files, and remembers keys.
func TestRestart(t *testing.T) {
	opts := Options{Rotate: 40, journalRotate: 300}
	r := openRig(t, opts)
	var want []string
	for i := range 12 {
		if i%5 == 4 {
			r = r.reopen(opts)
		}
		for range 2 {
			got := r.want(r.post(array(i, 1), "Idempotency-Key", fmt.Sprint(i)), 200)
			if got.Accepted != 1 {
				t.Errorf("got %+v", got)
			}
		}
		want = append(want, fmt.Sprintf(`{"id":%d}`, i))
	}
	r.wantEvents(want...)
	r = r.reopen(opts)
	if got := r.loader.Recovered(); got.Events != 12 || got.Batches != 12 || got.Keys != 12 {
		t.Errorf("got %+v", got)
	}
	if s := r.loader.Stats(); s.Files != 3 || s.Keys != 12 {
		t.Errorf("got %+v, want 3 files with 4 events each", s)
	}
	if n := len(r.glob("journal-*.log")); n < 3 {
		t.Errorf("got %d journals, want some", n)
	}
}

func (r *rig) glob(pattern string) []string {
	r.t.Helper()
	paths, err := filepath.Glob(filepath.Join(r.loader.Dir(), pattern))
	if err != nil {
		r.t.Fatal(err)
	}
	return paths
}

// TestCompaction removes journals that no remembered key is in; the keys of the
// others are still known, and counts go on.
func TestCompaction(t *testing.T) {
	opts := Options{DedupeKeys: 5, journalRotate: 200}
	r := openRig(t, opts)
	for i := range 100 {
		r.want(r.post(array(i, 1), "Idempotency-Key", fmt.Sprint(i)), 200)
		r.want(r.post(array(i, 1)), 200)
	}
	if n := len(r.glob("journal-*.log")); n > 9 {
		t.Errorf("got %d journals, want those of 5 keys", n)
	}
	for range 2 {
		for i := 95; i < 100; i++ {
			if got := r.want(r.post("[]", "Idempotency-Key", fmt.Sprint(i)), 200); !got.Dup || got.Accepted != 1 {
				t.Errorf("key %d: got %+v", i, got)
			}
		}
		r = r.reopen(opts)
		if got := r.loader.Recovered(); got.Events != 200 || got.Batches != 200 || got.Keys != 5 {
			t.Errorf("got %+v", got)
		}
	}
	if got := r.want(r.post("[]", "Idempotency-Key", "94"), 200); got.Dup {
		t.Errorf("got %+v for a key that was forgotten", got)
	}
}

// TestInUse refuses a folder that another loader has.
func TestInUse(t *testing.T) {
	r := openRig(t, Options{})
	l, err := Open(Options{Dir: r.loader.Dir()})
	if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), r.loader.Dir()) {
		t.Errorf("got %v, %v", l, err)
	}
}

// TestOptions refuses what makes no sense.
func TestOptions(t *testing.T) {
	for _, o := range []Options{{}, {Dir: t.TempDir(), Rotate: -1}, {Dir: t.TempDir(), MaxBody: 2 << 30}, {Dir: filepath.Join(os.DevNull, "x")}} {
		if l, err := Open(o); err == nil {
			t.Errorf("%+v: got no error", o)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// wrote is a folder that a loader has written: what it answered, and where its
// journal and its events were after each batch.
type wrote struct {
	journal, events []byte
	after           []struct{ journal, events int }
}

const tornBatches = 4

func writeFolder(t *testing.T) wrote {
	t.Helper()
	r := openRig(t, Options{})
	var w wrote
	read := func() {
		var err error
		if w.journal, err = os.ReadFile(r.glob("journal-*.log")[0]); err != nil {
			t.Fatal(err)
		}
		w.events = nil
		for _, path := range r.glob("events-*.ndjson") {
			if w.events, err = os.ReadFile(path); err != nil {
				t.Fatal(err)
			}
		}
		w.after = append(w.after, struct{ journal, events int }{len(w.journal), len(w.events)})
	}
	read()
	for i := range tornBatches {
		r.want(r.post(fmt.Sprintf("{\"id\":%d}\nx\n{\"id\":%d}\n", 2*i, 2*i+1), "Content-Type", "application/x-ndjson", "Idempotency-Key", fmt.Sprint(i)), 200)
		read()
	}
	return w
}

// restore makes a folder of a journal and events.
func restore(t *testing.T, journal, events []byte) string {
	t.Helper()
	dir := t.TempDir()
	err := errors.Join(
		os.WriteFile(filepath.Join(dir, "journal-000001.log"), journal, 0o644),
		os.WriteFile(filepath.Join(dir, "events-000001.ndjson"), events, 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// resend sends all batches again, and wants each event once: those that the
// journal vouches for are duplicates, the others are taken.
func resend(t *testing.T, name, dir string, known int) {
	t.Helper()
	l, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	if got := l.Recovered(); got.Keys != known || got.Events != uint64(2*known) {
		t.Errorf("%s: got %+v, want %d keys", name, got, known)
	}
	for i := range tornBatches {
		body := fmt.Sprintf("{\"id\":%d}\nx\n{\"id\":%d}\n", 2*i, 2*i+1)
		got := ask(l, body, "Content-Type", "application/x-ndjson", "Idempotency-Key", fmt.Sprint(i))
		if got.status != 200 || got.Accepted != 2 || got.Dup != (i < known) || len(got.Rejected) != 1 {
			t.Errorf("%s: batch %d: got %s", name, i, got.body)
		}
	}
	lines, err := readEvents(dir)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	slices.Sort(lines)
	for i, line := range lines {
		if len(lines) != 2*tornBatches || line != fmt.Sprintf(`{"id":%d}`, i) {
			t.Fatalf("%s: got %q", name, lines)
		}
	}
}

// TestTornJournal cuts the journal at every byte after its header, with events
// whole: what it does not vouch for is taken away, and can be sent again. So it
// is with anything behind the cut that is no record.
func TestTornJournal(t *testing.T) {
	t.Parallel() // it waits for the disk
	w := writeFolder(t)
	for n := w.after[0].journal; n <= len(w.journal); n++ {
		known := 0
		for known < tornBatches && w.after[known+1].journal <= n {
			known++
		}
		resend(t, fmt.Sprintf("cut at %d", n), restore(t, w.journal[:n], w.events), known)
		if n%7 == 0 {
			zeros := append(bytes.Clone(w.journal[:n]), make([]byte, 100)...)
			resend(t, fmt.Sprintf("zeros from %d", n), restore(t, zeros, w.events), known)
		}
	}
}

// TestTornEvents cuts the events at every byte beyond what the journal vouches
// for, as a process does that is killed between the two.
func TestTornEvents(t *testing.T) {
	t.Parallel() // it waits for the disk
	w := writeFolder(t)
	for known := range tornBatches {
		from := w.after[known]
		for n := from.events; n <= len(w.events); n++ {
			resend(t, fmt.Sprintf("%d known, cut at %d", known, n), restore(t, w.journal[:from.journal], w.events[:n]), known)
		}
	}
}

// TestTornBoth cuts both at places of their own.
func TestTornBoth(t *testing.T) {
	t.Parallel() // it waits for the disk
	w := writeFolder(t)
	for n := w.after[0].journal; n <= len(w.journal); n += 13 {
		known := 0
		for known < tornBatches && w.after[known+1].journal <= n {
			known++
		}
		for e := w.after[known].events; e <= len(w.events); e += 17 {
			resend(t, fmt.Sprintf("cut at %d and %d", n, e), restore(t, w.journal[:n], w.events[:e]), known)
		}
	}
}

// TestNextFileTorn takes away a file of events that was begun and not vouched
// for.
func TestNextFileTorn(t *testing.T) {
	w := writeFolder(t)
	dir := restore(t, w.journal, w.events)
	if err := os.WriteFile(filepath.Join(dir, "events-000002.ndjson"), []byte(`{"id":`), 0o644); err != nil {
		t.Fatal(err)
	}
	resend(t, "next file", dir, tornBatches)
	// So is what is left of a journal that was about to begin.
	dir = restore(t, w.journal, w.events)
	if err := os.WriteFile(filepath.Join(dir, "journal-000002.log.new"), []byte(`0000`), 0o644); err != nil {
		t.Fatal(err)
	}
	resend(t, "next journal", dir, tornBatches)
}

// TestDamagedJournal flips each byte of the second record: the batches after it
// are known, and no event is taken away.
func TestDamagedJournal(t *testing.T) {
	t.Parallel() // it waits for the disk
	w := writeFolder(t)
	for i := w.after[1].journal; i < w.after[2].journal; i++ {
		journal := bytes.Clone(w.journal)
		journal[i] ^= 0x55
		dir := restore(t, journal, w.events)
		var log bytes.Buffer
		l, err := Open(Options{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
		// A flipped end of the line takes the next record with it.
		want := tornBatches - 1
		if i == w.after[2].journal-1 {
			want--
		}
		if got := l.Recovered(); got.Keys != want {
			t.Errorf("byte %d: got %+v", i, got)
		}
		if !strings.Contains(log.String(), "damaged") {
			t.Errorf("byte %d: got no word of it: %s", i, log.String())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "events-000001.ndjson")); err != nil || !bytes.Equal(got, w.events) {
			t.Errorf("byte %d: got events %q, error %v", i, got, err)
		}
	}
}

// TestForeignFiles leaves files alone that no journal vouches for.
func TestForeignFiles(t *testing.T) {
	w := writeFolder(t)
	for name, journal := range map[string][]byte{"no journal": nil, "a torn header": w.journal[:w.after[0].journal-3]} {
		dir := restore(t, journal, w.events)
		if journal == nil {
			if err := os.Remove(filepath.Join(dir, "journal-000001.log")); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 3 {
			l, err := Open(Options{Dir: dir})
			if err != nil {
				t.Fatal(name, err)
			}
			if got := ask(l, `[{"id":8}]`, "Idempotency-Key", "8"); got.status != 200 || got.Dup != (round > 0) {
				t.Errorf("%s: got %+v", name, got)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		if got, err := os.ReadFile(filepath.Join(dir, "events-000001.ndjson")); err != nil || !bytes.Equal(got, w.events) {
			t.Errorf("%s: got events %q, error %v", name, got, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "events-000002.ndjson")); err != nil || string(got) != "{\"id\":8}\n" {
			t.Errorf("%s: got events %q, error %v", name, got, err)
		}
	}
}

// TestMovedFiles goes on with the next file when somebody has taken the files of
// events away, or shortened one; keys are still known.
func TestMovedFiles(t *testing.T) {
	w := writeFolder(t)
	for _, left := range [][]byte{nil, w.events[:5]} {
		dir := restore(t, w.journal, left)
		if left == nil {
			if err := os.Remove(filepath.Join(dir, "events-000001.ndjson")); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if got := ask(l, `[]`, "Idempotency-Key", "3"); !got.Dup {
			t.Errorf("got %+v", got)
		}
		if got := ask(l, `[{"id":8}]`, "Idempotency-Key", "8"); got.status != 200 || got.Dup {
			t.Errorf("got %+v", got)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, "events-000002.ndjson")); err != nil || string(got) != "{\"id\":8}\n" {
			t.Errorf("got events %q, error %v", got, err)
		}
	}
}
