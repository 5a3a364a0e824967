package trail

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// lossOf returns what a query warns of.
func lossOf(t *testing.T, s *Store) string {
	t.Helper()
	a, err := s.Query(t.Context(), &query.Query{Segment: &query.Segment{}}, QueryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(a.Stats.Warnings, "; ")
}

// TestLostRecordsAreNotForgotten damages the log in several ways. Queries and
// Verify report it, before and after a writer opened the store, until the user
// removes the quarantine.
func TestLostRecordsAreNotForgotten(t *testing.T) {
	logFile := func(t *testing.T, dir string) string {
		found, err := filepath.Glob(filepath.Join(dir, walDir, "*.seg"))
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		return found[len(found)-1]
	}
	for _, c := range []struct {
		how    string
		damage func(t *testing.T, dir string) error
	}{
		{"flipped", func(t *testing.T, dir string) error {
			b, err := os.ReadFile(logFile(t, dir))
			if err != nil {
				return err
			}
			b[len(strings.TrimRight(string(b), "\x00"))-20] ^= 1
			return os.WriteFile(logFile(t, dir), b, 0o600)
		}},
		{"cut", func(t *testing.T, dir string) error { return os.Truncate(logFile(t, dir), 100) }},
		{"missing", func(_ *testing.T, dir string) error { return os.RemoveAll(filepath.Join(dir, walDir)) }},
		{"empty", func(_ *testing.T, dir string) error {
			return os.RemoveAll(filepath.Join(dir, walDir)) // and made again below
		}},
	} {
		t.Run(c.how, func(t *testing.T) {
			dir := small(t)
			if err := c.damage(t, dir); err != nil {
				t.Fatal(err)
			}
			if c.how == "empty" {
				if err := os.Mkdir(filepath.Join(dir, walDir), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			wantMissing := func(when string) {
				t.Helper()
				s, err := Open(dir, Options{ReadOnly: true})
				if err != nil {
					t.Fatal(err)
				}
				if got := lossOf(t, s); !strings.Contains(got, "events are missing") {
					t.Errorf("%s: got the warnings %q", when, got)
				}
				if got := s.Info().Damaged; len(got) != 1 {
					t.Errorf("%s: got %q of Info, want one damage", when, got)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				r, err := Verify(t.Context(), dir, nil)
				if err != nil || r.OK() {
					t.Errorf("%s: got a sound store, %v", when, err)
				}
			}
			wantMissing("before a writer")
			for range 2 {
				s, err := Open(dir, quiet())
				if err != nil {
					t.Fatal(err)
				}
				add(t, s, ev("late", base, "view"))
				if got := lossOf(t, s); !strings.Contains(got, "events are missing") {
					t.Errorf("writer: got the warnings %q", got)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
				wantMissing("after a writer")
			}
			r, err := Verify(t.Context(), dir, nil)
			if err != nil || len(r.Damages) == 0 || !strings.Contains(r.Damages[0].Hint, filepath.Join(walDir, quarantineDir)) {
				t.Errorf("got %+v and %v, want a hint at the quarantine", r.Damages, err)
			}
			if err := os.RemoveAll(filepath.Join(dir, walDir, quarantineDir)); err != nil {
				t.Fatal(err)
			}
			wantSound(t, dir)
			if got := lossOf(t, open(t, dir, quiet())); got != "" {
				t.Errorf("got the warnings %q after the quarantine was removed", got)
			}
		})
	}
}

// A lockedFS may not read files of a folder.
type lockedFS struct {
	vfs.FS
	folder string
}

func (f lockedFS) Open(name string) (vfs.File, error) {
	if strings.HasPrefix(name, f.folder) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return f.FS.Open(name)
}

func TestVerifyTellsWhatMayNotBeRead(t *testing.T) {
	for _, c := range []struct {
		folder string
		want   int // files
	}{{"MANIFEST", 2}, {segmentDir, 4}, {walDir, 1}, {cohortDir, 1}} {
		dir := small(t)
		opt, err := Options{ReadOnly: true, fs: lockedFS{vfs.OS{ReadOnly: true}, filepath.Join(dir, c.folder)}}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		r, err := verify(t.Context(), newFolder(dir, opt), nil)
		if err != nil || len(r.Damages) > 0 || len(r.Denied) != c.want || r.OK() {
			t.Errorf("%s: got %+v and %v, want %d files that may not be read", c.folder, r, err, c.want)
		}
		for _, file := range r.Denied {
			if !strings.HasPrefix(file, c.folder) {
				t.Errorf("%s: got %s", c.folder, file)
			}
		}
	}
}

// TestDeletionsAreForgotten compacts a store into which nothing came after the
// deletion.
func TestDeletionsAreForgotten(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, quiet())
	add(t, s, ev("a", base, "view"), ev("b", base, "view"))
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int{1, 0} { // the second time user a has no events any more
		if known, err := s.DeleteUser(t.Context(), "a", "unknown"); err != nil || known != want {
			t.Errorf("got %d known users and %v, want %d", known, err, want)
		}
		if got := s.Info().Deleted; got != 1 {
			t.Errorf("got %d users to delete, want 1", got)
		}
	}
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if info := s.Info(); info.Deleted != 0 || info.Rows != 1 {
		t.Errorf("got %d users to delete and %d rows after a compaction, want 0 and 1", info.Deleted, info.Rows)
	}
	if known, err := s.DeleteUser(t.Context(), "b"); err != nil || known != 1 {
		t.Errorf("got %d known users and %v, want 1", known, err)
	}
	wantSound(t, dir)
}

// A stuckFS cannot replace the first copy of the manifest.
type stuckFS struct {
	vfs.FS
	stuck *bool
}

func (f stuckFS) Create(name string) (vfs.File, error) {
	if *f.stuck && strings.HasPrefix(filepath.Base(name), "MANIFEST") {
		return nil, &fs.PathError{Op: "create", Path: name, Err: syscall.ENOSPC}
	}
	return f.FS.Create(name)
}

// TestDiscardThatFails fills the disk: the segment is where it was, and can be given
// up later.
func TestDiscardThatFails(t *testing.T) {
	dir := small(t)
	stuck := false
	opt := quiet()
	opt.fs = stuckFS{vfs.OS{}, &stuck}
	s, err := Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	hurt := s.Info().Segments[0]
	path := filepath.Join(dir, segmentDir, hurt.File)
	if err := os.WriteFile(path, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	stuck = true
	if _, err := s.Discard(t.Context(), hurt.File); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want the error of a full disk", err)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "broken" {
		t.Errorf("got %q and %v of the segment file", b, err)
	}
	stuck = false
	if _, err := s.Discard(t.Context(), hurt.File); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSound(t, dir)
}

// TestRebuildNeedsDamage opens a store whose manifests may not be read: they are not
// replaced, whatever Options.Rebuild says.
func TestRebuildNeedsDamage(t *testing.T) {
	dir := small(t)
	opt := quiet()
	opt.Rebuild = true
	opt.fs = lockedFS{vfs.OS{}, filepath.Join(dir, "MANIFEST")}
	if _, err := Open(dir, opt); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrManifest) {
		t.Errorf("got %v, want the error of the permission", err)
	}
	wantSound(t, dir)
}
