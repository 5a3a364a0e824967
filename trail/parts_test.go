package trail

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// parted are options under which segments are divided early.
func parted() Options {
	opt := quiet()
	opt.rows, opt.spill = 600, 500
	return opt
}

func exported(t *testing.T, s *Store) string {
	t.Helper()
	var file bytes.Buffer
	if _, err := s.Export(t.Context(), &file, nil); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// largest returns the most rows of a segment, and fails if segments have the same users
// of a bucket.
func largest(t *testing.T, s *Store) (rows int64) {
	t.Helper()
	sn, err := s.state.view()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.unpin()
	for _, files := range grouped(sn.sources, ofBucket) {
		if !apart(files) {
			t.Errorf("got segments of the same users in bucket %d", files[0].Bucket)
		}
	}
	for _, src := range sn.sources {
		rows = max(rows, src.Rows)
	}
	return rows
}

// TestImportInParts imports more rows than fit into memory, and into a segment, from
// each format. The store has what it has if they fit.
func TestImportInParts(t *testing.T) {
	lot := rand.New(rand.NewPCG(6, 2))
	var events []event.Event
	for i, e := range draw(lot, 12_000, "x") {
		e.User = fmt.Sprintf("u%d", lot.IntN(700))
		e.Properties[0] = prop("country", event.StringOf(fmt.Sprintf("page-%d-%d", i%3, lot.IntN(9000))))
		events = append(events, e)
	}
	events = append(events, events[:500]...) // in other parts: once, by their ids
	csv := write(t, "all.csv", csvOf(events))
	opt := ImportOptions{ID: "key", TimeUnit: "ms"}
	whole := open(t, t.TempDir(), quiet())
	if r, err := whole.Import(t.Context(), []string{csv}, opt); err != nil || r.Rows() != 12_000 || r.Files[0].Duplicates != 500 {
		t.Fatal(r, err)
	}
	want := exported(t, whole)
	parquet := write(t, "all.parquet", want)
	for _, c := range []struct {
		name, file string
		terms      int64
		opt        ImportOptions
	}{
		{"CSV", csv, 0, opt},
		{"CSV, strings that do not fit", csv, 100 << 10, opt},
		{"Parquet", parquet, 0, ImportOptions{}},
		{"Parquet, strings that do not fit", parquet, 100 << 10, ImportOptions{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, opt := t.TempDir(), parted()
			opt.terms = c.terms
			s := open(t, dir, opt)
			if r, err := s.Import(t.Context(), []string{c.file}, c.opt); err != nil || r.Rows() != 12_000 {
				t.Fatal(r, err)
			}
			if got := exported(t, s); got != want {
				t.Error("got another file from export")
			}
			if got := largest(t, s); got > 600 {
				t.Errorf("got a segment of %d rows, want at most 600", got)
			}
			wantSound(t, dir)
			if c.opt.ID != "" {
				if r, err := s.Import(t.Context(), []string{c.file}, c.opt); err != nil || r.Rows() != 0 {
					t.Errorf("got %+v and %v of a second import, want nothing", r, err)
				}
			}
			if names, err := os.ReadDir(filepath.Join(dir, tmpDir)); err != nil || len(names) > 0 {
				t.Errorf("got %v and %v in the folder for temporary files, want nothing", names, err)
			}
		})
	}
}

// TestParts divides a bucket, and has appends, deletions, a damage and a rebuild work
// on the parts.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, parted())
	n := 0
	more := func(rows int) {
		var events []event.Event
		for range rows {
			events = append(events, ev(fmt.Sprintf("u%d", n%997), base+int64(n), "view", prop("n", event.IntOf(int64(n)))))
			n++
		}
		add(t, s, events...)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	compact := func() {
		t.Helper()
		if err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for range 9 {
		more(400)
	}
	compact()
	wantCount(t, s, 3600)
	if got := len(s.Info().Segments); got != 8 {
		t.Errorf("got %d segments, want 8 of about 450 rows", got)
	}
	if got := largest(t, s); got > 600 {
		t.Errorf("got a segment of %d rows, want at most 600", got)
	}
	wantSound(t, dir)
	before := s.Info().Segments
	if _, err := s.DeleteUser(t.Context(), "u5"); err != nil {
		t.Fatal(err)
	}
	compact()
	wantCount(t, s, 3596)
	kept := make(map[string]bool)
	for _, seg := range before {
		kept[seg.File] = true
	}
	same := 0
	for _, seg := range s.Info().Segments {
		if kept[seg.File] {
			same++
		}
	}
	if same != 7 {
		t.Errorf("got %d segments as they were, want 7: the user is in one", same)
	}
	for range 6 {
		more(400)
	}
	compact()
	wantCount(t, s, 3596+2400)
	wantSound(t, dir)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	sn := openAt(t, dir)
	hurt := sn.Info().Segments[3]
	path := filepath.Join(dir, segmentDir, hurt.File)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	lost, err := sn.Discard(t.Context(), hurt.File)
	if err != nil || lost != hurt.Rows {
		t.Fatal(lost, err)
	}
	wantCount(t, sn, 3596+2400-lost)
	if err := sn.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range manifestNames {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	opt := parted()
	opt.Rebuild = true
	again := open(t, dir, opt)
	if err := again.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	wantCount(t, again, 3596+2400-lost)
	wantSound(t, dir)
}

func openAt(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, parted())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestVerifyParts finds a segment with users that are not in its part.
func TestVerifyParts(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	add(t, s, ev("a", base, "view"), ev("b", base, "view"), ev("c", base, "view"), ev("d", base, "view"))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	err := s.catalog.commit(func(m *manifest) error {
		m.Segments[0].Hashes = segment.HashRange{Bits: 4, Index: 3}
		return nil
	}, func() []*source { return nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := Verify(t.Context(), dir, nil)
	if err != nil || len(r.Damages) != 1 || !strings.Contains(r.Damages[0].Reason, "outside of its part") {
		t.Errorf("got %+v and %v, want users outside of the part", r, err)
	}
}

// TestMergeMemory checks that the memory of a merge does not grow with the bucket: with
// four times the rows there are four times as many segments, and the memory for each is
// the same.
func TestMergeMemory(t *testing.T) {
	perSegment := func(rows int) float64 {
		opt := quiet()
		opt.rows = 20_000
		s := open(t, t.TempDir(), opt)
		lot := rand.New(rand.NewPCG(5, 5))
		var sources []*source
		for range 3 {
			w := newRunWriter(t.Context(), s.files, s.opt)
			w.extend(event.Schema{{Name: "item", Type: event.String}, {Name: "price", Type: event.Float}})
			for range rows / 3 {
				item, price := event.StringOf(fmt.Sprint("item-", lot.IntN(100))), event.FloatOf(float64(lot.IntN(1000))/100)
				w.add(0, fmt.Sprint("u", lot.IntN(rows)), lot.Int64N(1e9), "view", 0, []event.Value{item, price}, nil)
			}
			runs, err := w.finish()
			w.close()
			if err != nil {
				t.Fatal(err)
			}
			sources = append(sources, runs...)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		made, err := s.segments.write(t.Context(), sources)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		s.files.dropUncommitted(made, nil)
		s.files.dropFiles(sources)
		return float64(after.TotalAlloc-before.TotalAlloc) / float64(len(made))
	}
	few, many := perSegment(60_000), perSegment(240_000)
	t.Logf("%.0f and %.0f bytes allocated for each segment", few, many)
	if many > few*1.3 {
		t.Errorf("got %.0f bytes allocated for each segment of a bucket of 240,000 rows, and %.0f of one of 60,000; want the same", many, few)
	}
}

// TestHeavyUser merges the events of one user, which are more than a segment should
// have, again and again: the parts get no smaller than a manifest can record.
func TestHeavyUser(t *testing.T) {
	dir := t.TempDir()
	opt := parted()
	opt.rows = 10
	var now atomic.Int64 // read by the loop that compacts as well
	now.Store(base + 2000)
	opt.Retention, opt.now = time.Second, func() time.Time { return event.Time(now.Load()) }
	s := open(t, dir, opt)
	var events []event.Event
	for i := range 1000 {
		events = append(events, ev("everybody", base+1000+int64(i), "view"))
	}
	add(t, s, events...)
	for range 40 {
		now.Add(1) // one event is too old now, so that the segment is written again
		if err := s.Compact(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	wantCount(t, s, 960)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir, opt)
	wantCount(t, again, 960)
	wantSound(t, dir)
}

// TestSchemaWithoutRows has a property come up after the last rows were spilled, as from
// a batch whose rows are all too old: segments are made in parallel then, of strings that
// no goroutine may add to any more.
func TestSchemaWithoutRows(t *testing.T) {
	s := open(t, t.TempDir(), parted())
	w := newRunWriter(t.Context(), s.files, s.opt)
	defer w.close()
	schema := event.Schema{{Name: "a", Type: event.String}}
	w.extend(schema)
	for i := range 3000 {
		w.add(0, fmt.Sprint("u", i), int64(i), "view", 0, []event.Value{event.StringOf("x")}, nil)
	}
	if err := w.flush(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"b", "c", "d"} {
		schema = append(schema, event.Field{Name: name, Type: event.String})
	}
	w.extend(schema)
	runs, err := w.finish()
	if err != nil {
		t.Fatal(err)
	}
	var rows int64
	for _, r := range runs {
		rows += r.Rows
	}
	if rows != 3000 || len(runs) < 4 {
		t.Errorf("got %d rows in %d segments, want 3000 in several", rows, len(runs))
	}
	s.files.dropFiles(runs)
}

// TestFailedMergeOfImport fails when the first bucket of an import was merged. Nothing is
// left of it.
func TestFailedMergeOfImport(t *testing.T) {
	opt := parted()
	opt.terms = 1
	s := open(t, t.TempDir(), opt)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newRunWriter(ctx, s.files, s.opt)
	for range 3 { // the same users each time
		for i := range 1000 {
			w.add(int64(i%2), fmt.Sprint("u", i%100), int64(i), "view", 0, nil, nil)
		}
		if err := w.flush(); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.spills.Wait(); err != nil {
		t.Fatal(err)
	}
	merges := 0
	s.files.fs = countedFS{s.files.fs, func() {
		if merges++; merges > 6 {
			cancel()
		}
	}}
	if _, err := w.finish(); err == nil {
		t.Fatal("got no error of an import that was cancelled")
	}
	w.close()
	names, err := os.ReadDir(s.files.path(tmpDir))
	if err != nil || len(names) > 0 {
		t.Errorf("got %v and %v in the folder for temporary files, want nothing", names, err)
	}
}

// A countedFS calls created for each file.
type countedFS struct {
	vfs.FS
	created func()
}

func (f countedFS) Create(path string) (vfs.File, error) {
	f.created()
	return f.FS.Create(path)
}
