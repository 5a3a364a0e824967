package trail

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// newCatalogBench returns the catalog of an empty store with both copies of the manifest.
func newCatalogBench(t *testing.T) (*catalog, *vfstest.FS) {
	t.Helper()
	st, fsys := memoryState(t)
	c := &catalog{files: st.files, state: st}
	opt, err := Options{}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.open(opt); err != nil {
		t.Fatal(err)
	}
	return c, fsys
}

// segmentFile returns a segment that is in a file, and in no manifest.
func segmentFile(t *testing.T, c *catalog, bucket int64, commit uint64) *source {
	t.Helper()
	w := segmentWriter{files: c.files, state: c.state, rows: segmentRows}
	made, err := w.write(t.Context(), []*source{runOf(t, bucket, commit, 3)})
	if err != nil || len(made) != 1 {
		t.Fatal(made, err)
	}
	return made[0]
}

// hasFile reports whether the file of a segment is there.
func hasFile(fsys *vfstest.FS, src *source) bool {
	return slices.ContainsFunc(fsys.Names(), func(name string) bool { return strings.HasSuffix(name, src.File) })
}

// failing makes the nth write of a manifest fail in an operation.
func failing(fsys *vfstest.FS, op vfstest.Op, nth int, err error) {
	fsys.SetFail(func(did vfstest.Op, name string) error {
		if did == op && (strings.Contains(name, "MANIFEST") || op == vfstest.SyncDir && name == "store") {
			if nth--; nth == 0 {
				return err
			}
		}
		return nil
	})
}

// TestCatalogFails has the write of a manifest fail in each of its steps. The store has
// the old segment or the new one then, and the files that the next Open may need stay.
func TestCatalogFails(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		op        vfstest.Op
		copy      int // 1 or 2
		committed bool
		both      bool // files stay
	}{
		{vfstest.Write, 1, false, false},
		{vfstest.Sync, 1, false, false},
		{vfstest.Rename, 1, false, true},
		{vfstest.SyncDir, 1, false, true},
		{vfstest.Write, 2, true, true},
		{vfstest.Rename, 2, true, true},
	} {
		t.Run(string(c.op)+" "+manifestNames[c.copy-1], func(t *testing.T) {
			cat, fsys := newCatalogBench(t)
			old := segmentFile(t, cat, 1, 1)
			if err := cat.replace(nil, []*source{old}, nil, nil); err != nil {
				t.Fatal(err)
			}
			made := segmentFile(t, cat, 1, 1)
			failing(fsys, c.op, c.copy, broken)
			applied := false
			err := cat.replace([]*source{old}, []*source{made}, nil, func() { applied = true })
			fsys.SetFail(nil)
			want, gone := old, made
			if c.committed {
				want, gone = made, old
			}
			if (err == nil) != c.committed || applied != c.committed {
				t.Fatalf("got %v, and changed the state: %v", err, applied)
			}
			if got := cat.state.current.Load().sources; len(got) != 1 || got[0] != want {
				t.Errorf("got %v, want %s", got, want.File)
			}
			if !hasFile(fsys, want) || hasFile(fsys, gone) != c.both {
				t.Errorf("got files %q", fsys.Names())
			}
			if best := cat.files.readManifests().best; best.Segments[0].File != want.File && !c.both {
				t.Errorf("got %s in the manifest, want %s", best.Segments[0].File, want.File)
			}
			// The next one goes well, and what no copy names any more is deleted.
			if err := cat.replace([]*source{want}, nil, nil, nil); err != nil {
				t.Fatal(err)
			}
			if hasFile(fsys, want) || c.committed && hasFile(fsys, gone) {
				t.Errorf("got files %q after the next commit", fsys.Names())
			}
			if found := cat.files.readManifests(); !found.same() || len(found.best.Segments) > 0 {
				t.Errorf("got different copies of the manifest, or %d segments", len(found.best.Segments))
			}
		})
	}
}

// TestCatalogKeepsPinned checks that a file stays while a snapshot that has it is pinned.
func TestCatalogKeepsPinned(t *testing.T) {
	cat, fsys := newCatalogBench(t)
	old := segmentFile(t, cat, 1, 1)
	if err := cat.replace(nil, []*source{old}, nil, nil); err != nil {
		t.Fatal(err)
	}
	sn, err := cat.state.view()
	if err != nil {
		t.Fatal(err)
	}
	if err := cat.replace([]*source{old}, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	if !hasFile(fsys, old) || rowsIn(t, cat.state) != 0 {
		t.Error("the file of a pinned snapshot is gone, or queries still see it")
	}
	sn.unpin()
	if hasFile(fsys, old) {
		t.Error("the file is there after the last snapshot that had it")
	}
}

// TestCatalogFlushesMemory flushes while the second copy cannot be written: runs in
// memory have no file that is to be deleted later.
func TestCatalogFlushesMemory(t *testing.T) {
	cat, fsys := newCatalogBench(t)
	run := runOf(t, 1, 1, 3)
	cat.state.update(func() { cat.state.replaceLocked(nil, run) })
	failing(fsys, vfstest.Write, 2, errors.New("broken"))
	if err := cat.replace([]*source{run}, []*source{segmentFile(t, cat, 1, 1)}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if len(cat.garbage) > 0 {
		t.Errorf("got %q to be deleted, want nothing", cat.garbage)
	}
}

// TestSegmentWriterFails has the files of a merge fail in each step. None is left.
func TestSegmentWriterFails(t *testing.T) {
	for _, op := range []vfstest.Op{vfstest.Create, vfstest.Write, vfstest.Sync, vfstest.Rename, vfstest.Open, vfstest.SyncDir} {
		t.Run(string(op), func(t *testing.T) {
			st, fsys := memoryState(t)
			w := segmentWriter{files: st.files, state: st, rows: segmentRows}
			broken, nth := errors.New("broken"), 2
			if op == vfstest.SyncDir {
				nth = 1
			}
			fsys.SetFail(func(did vfstest.Op, name string) error {
				if did == op {
					if nth--; nth == 0 {
						return broken
					}
				}
				return nil
			})
			made, err := w.write(t.Context(), []*source{runOf(t, 1, 1, 3), runOf(t, 2, 1, 3)})
			if !errors.Is(err, broken) {
				t.Errorf("got %d segments and %v, want %v", len(made), err, broken)
			}
			if names := fsys.Names(); len(names) > 0 {
				t.Errorf("got files %q, want none", names)
			}
		})
	}
}
