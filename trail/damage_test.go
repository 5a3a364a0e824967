package trail

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// small makes a store with segments in two buckets, a cohort, a deletion and
// records in the log, and returns its folder, closed as if by a kill.
func small(t testing.TB) string {
	t.Helper()
	dir, snap := t.TempDir(), filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	lot := rand.New(rand.NewPCG(1, 2))
	add(t, s, draw(lot, 60, "a")...)
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	q := &query.Query{Name: "buyers", Cohort: &query.Cohort{Did: []query.Did{{Match: query.Match{Events: []string{"purchase"}}}}}}
	if _, err := s.Query(t.Context(), q, QueryOptions{Save: true}); err != nil {
		t.Fatal(err)
	}
	add(t, s, draw(lot, 20, "b")...)
	if _, err := s.DeleteUser(t.Context(), "u3"); err != nil {
		t.Fatal(err)
	}
	if err := s.wal.Close(); err != nil { // so that it knows what was durable
		t.Fatal(err)
	}
	if err := os.CopyFS(snap, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return snap
}

// answers returns how many events there are, or the error.
func answers(dir string) (int64, error) {
	s, err := Open(dir, Options{ReadOnly: true})
	if err != nil {
		return 0, err
	}
	a, err := s.Query(context.Background(), countQuery(), QueryOptions{})
	if err = errors.Join(err, s.Close()); err != nil {
		return 0, err
	}
	return a.Segment.Rows[0].Value.Int, nil
}

// TestFlippedBytes changes bytes of every file of a store. Verify names the file,
// or the byte means nothing and the answer is the same; nothing ever crashes.
func TestFlippedBytes(t *testing.T) {
	dir := small(t)
	want, err := answers(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantSound(t, dir)
	step := 61 // of the bytes of a file
	if os.Getenv("TRAIL_FAULTS") == "full" {
		step = 1
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		name = filepath.ToSlash(name)
		sound, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		zeros := len(strings.TrimRight(string(sound), "\x00"))
		for i := 0; i < min(len(sound), zeros+64); i += step {
			b := slices.Clone(sound)
			b[i] ^= 1 << (i % 8)
			if err := os.WriteFile(path, b, 0o600); err != nil {
				return err
			}
			named := verifyNames(t, dir, name)
			got, err := answers(dir)
			switch {
			case err == nil && got == want:
			case !named:
				t.Errorf("%s byte %d: Verify does not name it, and the answer is %d, %v", name, i, got, err)
			case err == nil && !strings.HasPrefix(name, walDir):
				t.Errorf("%s byte %d: got %d events without an error, want %d", name, i, got, want)
			}
			// A loss of power may tear the note of what is acknowledged.
			if harmless := name == lockName || name == ackedName || strings.HasPrefix(name, walDir); !named && !harmless {
				t.Errorf("%s byte %d: Verify does not name it", name, i)
			}
		}
		return os.WriteFile(path, sound, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	wantSound(t, dir)
}

func verifyNames(t *testing.T, dir, name string) bool {
	t.Helper()
	r, err := Verify(t.Context(), dir, nil)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return slices.ContainsFunc(r.Damages, func(d Damage) bool { return d.File == name })
}

func TestVerifyFindsNoStore(t *testing.T) {
	for _, dir := range []string{filepath.Join(t.TempDir(), "missing"), t.TempDir()} {
		if _, err := Verify(t.Context(), dir, nil); !errors.Is(err, ErrNoStore) {
			t.Errorf("got %v for %s, want ErrNoStore", err, dir)
		}
	}
	dir := t.TempDir()
	open(t, dir, quiet())
	wantSound(t, dir) // empty, and in use
}

func TestOneManifestIsEnough(t *testing.T) {
	for _, name := range manifestNames {
		dir := small(t)
		want, err := answers(dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if !verifyNames(t, dir, name) {
			t.Errorf("Verify does not name %s", name)
		}
		s := open(t, dir, quiet())
		wantCount(t, s, want)
		wantSound(t, dir) // it was rewritten
	}
}

func TestRebuild(t *testing.T) {
	dir := small(t)
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	add(t, s, ev("zoe", base, "view"))
	if err := errors.Join(s.Compact(t.Context(), nil), s.Close()); err != nil {
		t.Fatal(err)
	}
	want, err := answers(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range manifestNames {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, opt := range []Options{quiet(), {ReadOnly: true}} {
		if _, err := Open(dir, opt); !errors.Is(err, ErrManifest) || !strings.Contains(err.Error(), "uniflow trail compact --rebuild") {
			t.Errorf("got %v, want ErrManifest and what to do", err)
		}
	}
	if r, err := Verify(t.Context(), dir, nil); err != nil || len(r.Damages) != 2 || !strings.Contains(r.Damages[0].Hint, "--rebuild") {
		t.Errorf("got %v and %v, want two damages with a hint", r, err)
	}
	opt := quiet()
	opt.Rebuild = true
	s = open(t, dir, opt)
	wantCount(t, s, want)
	wantSound(t, dir)
}

// TestDamagedSegment has the queries that need a damaged or missing segment fail, and
// nothing else.
func TestDamagedSegment(t *testing.T) {
	for _, how := range []string{"missing", "footer", "page"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			s, err := Open(dir, quiet())
			if err != nil {
				t.Fatal(err)
			}
			lot := rand.New(rand.NewPCG(1, 2))
			add(t, s, draw(lot, 3000, "a")...)
			if err := s.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			hurt := s.Info().Segments[0]
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(dir, segmentDir, hurt.File)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			switch how {
			case "missing":
				err = os.Remove(path)
			case "footer":
				b[len(b)-20] ^= 1
				err = os.WriteFile(path, b, 0o600)
			case "page":
				b[100] ^= 1
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, quiet())
			if _, err := s.Query(t.Context(), countQuery("view"), QueryOptions{}); err == nil || !strings.Contains(err.Error(), hurt.File) {
				t.Errorf("got %v, want an error that names %s", err, hurt.File)
			}
			later := countQuery("view")
			later.Segment.Bounds = query.Bounds{From: hurt.MaxTime + 1, HasFrom: true}
			if _, err := s.Query(t.Context(), later, QueryOptions{}); err != nil {
				t.Errorf("got %v of a query that does not need the segment", err)
			}
			// Compactions do without it, and what was deleted stays so.
			add(t, s, draw(lot, 100, "b")...)
			if _, err := s.DeleteUser(t.Context(), "u1"); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := s.Compact(t.Context(), nil); err != nil {
					t.Errorf("got %v of a compaction", err)
				}
			}
			info := s.Info()
			if info.Deleted != 1 || info.Users != -1 || len(info.Damaged) != 1 || !strings.Contains(info.Damaged[0], hurt.File) {
				t.Errorf("got %d users to delete, %d users and the damages %q", info.Deleted, info.Users, info.Damaged)
			}
			if !verifyNames(t, dir, segmentDir+"/"+hurt.File) {
				t.Error("Verify does not name it")
			}

			// It is given up.
			var named *DamagedError
			_, err = s.Query(t.Context(), countQuery("view"), QueryOptions{})
			if !errors.As(err, &named) || named.File != hurt.File || named.Dir != dir {
				t.Fatalf("got %v, want a DamagedError about %s", err, hurt.File)
			}
			if rows, err := s.Discard(t.Context(), named.File); err != nil || rows != hurt.Rows {
				t.Errorf("got %d rows and %v, want %d", rows, err, hurt.Rows)
			}
			if _, err := os.Stat(filepath.Join(dir, lostDir, hurt.File)); (err == nil) != (how != "missing") {
				t.Errorf("got %v of the file that was given up", err)
			}
			if _, err := s.Discard(t.Context(), named.File); err == nil {
				t.Error("got no error for a segment that is not there any more")
			}
			want := s.Info().Rows
			wantCount(t, s, want)
			wantSound(t, dir)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = open(t, dir, quiet())
			wantCount(t, s, want)
			if err := s.Compact(t.Context(), nil); err != nil {
				t.Error(err)
			}
			if got := s.Info(); got.Deleted != 0 || len(got.Damaged) > 0 {
				t.Errorf("got %d users to delete and the damages %q, want none", got.Deleted, got.Damaged)
			}
			if _, err := s.Discard(t.Context(), s.Info().Segments[0].File); err == nil || !strings.Contains(err.Error(), "not damaged") {
				t.Errorf("got %v for a sound segment", err)
			}
			wantSound(t, dir)
		})
	}
}
