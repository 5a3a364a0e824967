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

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestRestart goes on in the same files, and remembers keys.
func TestRestart(t *testing.T) {
	opts := Options{Rotate: 40, journalBytes: 300}
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
	if n := len(r.glob("journal/*.seg")); n < 3 {
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
	opts := Options{DedupeKeys: 5, journalBytes: 200}
	r := openRig(t, opts)
	for i := range 100 {
		r.want(r.post(array(i, 1), "Idempotency-Key", fmt.Sprint(i)), 200)
		r.want(r.post(array(i, 1)), 200)
	}
	if n := len(r.glob("journal/*.seg")); n > 9 {
		t.Errorf("got %d journals, want no more than 5 keys need", n)
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

// wrote is a folder that a loader has written: the only files of its journal and
// its events, and their lengths after each batch.
type wrote struct {
	journal, events []byte
	note            []byte // of what was answered
	after           []struct{ journal, events int }
}

const tornBatches = 4

func writeFolder(t *testing.T) wrote {
	t.Helper()
	disk := vfstest.New()
	r := openRig(t, Options{Dir: memory, fs: disk})
	var w wrote
	read := func() {
		newest := r.loader.journal.live.at(r.loader.journal.live.end - 1).at // the committer waits
		var segment, offset int64
		if _, err := fmt.Sscanf(newest.String(), "%x+%d", &segment, &offset); err != nil {
			t.Fatal(err)
		}
		w.journal = disk.Content(segmentPath(1))[:offset+newest.Size()]
		w.events = disk.Content(eventsPath(1))
		w.note = disk.Content(memory + "/journal/" + ackedName)
		w.after = append(w.after, struct{ journal, events int }{len(w.journal), len(w.events)})
	}
	read()
	for i := range tornBatches {
		r.want(r.post(fmt.Sprintf("{\"id\":%d}\nx\n{\"id\":%d}\n", 2*i, 2*i+1), "Content-Type", "application/x-ndjson", "Idempotency-Key", fmt.Sprint(i)), 200)
		read()
	}
	return w
}

func segmentPath(n int) string { return fmt.Sprintf("%s/journal/%016x.seg", memory, n) }

func eventsPath(n uint64) string { return filepath.Join(memory, series().Name(n)) }

// restore makes a disk with a journal and events. There is no checkpoint, as after
// kill -9 soon after the start.
func restore(journal, events []byte) *vfstest.FS {
	disk := vfstest.New()
	disk.SetContent(segmentPath(1), journal)
	disk.SetContent(eventsPath(1), events)
	return disk
}

// resend sends all batches again, and checks that each event is there once: batches
// of which the journal has the record are duplicates, the others are taken.
func resend(t *testing.T, name string, disk *vfstest.FS, known int) {
	t.Helper()
	l, err := Open(Options{Dir: memory, fs: disk, journalBytes: 8 << 10})
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
	lines, err := readEvents(disk, memory)
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

// TestTornJournal cuts the journal at every byte after its first record, with all
// events there: those without a record are removed, and can be sent again. The same
// holds for zeros after the cut.
func TestTornJournal(t *testing.T) {
	w := writeFolder(t)
	for n := w.after[0].journal; n <= len(w.journal); n++ {
		known := 0
		for known < tornBatches && w.after[known+1].journal <= n {
			known++
		}
		resend(t, fmt.Sprintf("cut at %d", n), restore(w.journal[:n], w.events), known)
		if n%7 == 0 {
			zeros := append(bytes.Clone(w.journal[:n]), make([]byte, 100)...)
			resend(t, fmt.Sprintf("zeros from %d", n), restore(zeros, w.events), known)
		}
	}
}

// TestTornEvents cuts the events at every byte after those that have a record, like
// a process that is killed while it writes events.
func TestTornEvents(t *testing.T) {
	w := writeFolder(t)
	for known := range tornBatches {
		from := w.after[known]
		for n := from.events; n <= len(w.events); n++ {
			resend(t, fmt.Sprintf("%d known, cut at %d", known, n), restore(w.journal[:from.journal], w.events[:n]), known)
		}
	}
}

// TestTornBoth cuts both, at different places.
func TestTornBoth(t *testing.T) {
	w := writeFolder(t)
	for n := w.after[0].journal; n <= len(w.journal); n += 13 {
		known := 0
		for known < tornBatches && w.after[known+1].journal <= n {
			known++
		}
		for e := w.after[known].events; e <= len(w.events); e += 17 {
			resend(t, fmt.Sprintf("cut at %d and %d", n, e), restore(w.journal[:n], w.events[:e]), known)
		}
	}
}

// TestNextFileTorn removes a file of events without any record.
func TestNextFileTorn(t *testing.T) {
	w := writeFolder(t)
	disk := restore(w.journal, w.events)
	disk.SetContent(eventsPath(2), []byte(`{"id":`))
	resend(t, "next file", disk, tornBatches)
	// A file of the journal that was just begun does no harm.
	disk = restore(w.journal, w.events)
	disk.SetContent(segmentPath(2), make([]byte, 1000))
	resend(t, "next journal", disk, tornBatches)
}

// TestDamagedJournal damages each byte of the record of the second batch: the other
// batches are known, and no event is removed.
func TestDamagedJournal(t *testing.T) {
	w := writeFolder(t)
	for i := w.after[1].journal; i < w.after[2].journal; i++ {
		journal := bytes.Clone(w.journal)
		journal[i] ^= 0x55
		disk := restore(journal, w.events)
		var log bytes.Buffer
		l, err := Open(Options{Dir: memory, fs: disk, journalBytes: 8 << 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatalf("byte %d: %v", i, err)
		}
		if got := l.Recovered(); got.Keys != tornBatches-1 || got.Batches != tornBatches || got.Events != 2*tornBatches {
			t.Errorf("byte %d: got %+v", i, got)
		}
		if !strings.Contains(log.String(), "the journal is damaged") {
			t.Errorf("byte %d: got no word of it: %s", i, log.String())
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if got := disk.Content(eventsPath(1)); !bytes.Equal(got, w.events) {
			t.Errorf("byte %d: got events %q", i, got)
		}
	}
}

// TestDamagedEnd damages each byte of the record of the newest batch, cuts the journal
// there, and removes the record: it was answered, so no event is removed. Without the note
// it looks like a batch that was not answered.
func TestDamagedEnd(t *testing.T) {
	w := writeFolder(t)
	check := func(name string, journal []byte) {
		disk := restore(journal, w.events)
		disk.SetContent(memory+"/journal/"+ackedName, w.note)
		for round := range 3 {
			var log bytes.Buffer
			l, err := Open(Options{Dir: memory, fs: disk, journalBytes: 8 << 10, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := l.Recovered(); got.Batches != tornBatches || got.Events != 2*tornBatches || got.Keys != tornBatches-1 {
				t.Errorf("%s, round %d: got %+v", name, round, got)
			}
			if logged := strings.Contains(log.String(), "is damaged"); logged != (round == 0) {
				t.Errorf("%s, round %d: got log %s", name, round, log.String())
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			if got := disk.Content(eventsPath(1)); !bytes.Equal(got, w.events) {
				t.Errorf("%s: got events %q", name, got)
			}
		}
	}
	from, to := w.after[tornBatches-1].journal, w.after[tornBatches].journal
	for i := from; i < to; i++ {
		journal := bytes.Clone(w.journal)
		journal[i] ^= 0x55
		check(fmt.Sprintf("byte %d", i), journal)
		check(fmt.Sprintf("cut at %d", i), w.journal[:i])
	}
}

// TestForeignFiles leaves files of events alone when there is no journal.
func TestForeignFiles(t *testing.T) {
	w := writeFolder(t)
	for name, journal := range map[string][]byte{"no journal": nil, "a torn first record": w.journal[:w.after[0].journal-3]} {
		disk := restore(journal, w.events)
		if journal == nil {
			if err := disk.Remove(segmentPath(1)); err != nil {
				t.Fatal(err)
			}
		}
		for round := range 3 {
			l, err := Open(Options{Dir: memory, fs: disk, journalBytes: 8 << 10})
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
		if got := disk.Content(eventsPath(1)); !bytes.Equal(got, w.events) {
			t.Errorf("%s: got events %q", name, got)
		}
		if got := disk.Content(eventsPath(2)); string(got) != "{\"id\":8}\n" {
			t.Errorf("%s: got events %q", name, got)
		}
	}
}

// TestMovedFiles goes on with the next file when the files of events were moved
// away, or one was shortened; keys are still known.
func TestMovedFiles(t *testing.T) {
	w := writeFolder(t)
	for _, left := range [][]byte{nil, w.events[:5]} {
		disk := restore(w.journal, left)
		if left == nil {
			if err := disk.Remove(eventsPath(1)); err != nil {
				t.Fatal(err)
			}
		}
		l, err := Open(Options{Dir: memory, fs: disk, journalBytes: 8 << 10})
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
		if got := disk.Content(eventsPath(2)); string(got) != "{\"id\":8}\n" {
			t.Errorf("got events %q", got)
		}
	}
}
