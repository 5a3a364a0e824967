package trail

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// before copies the store in testdata/store1, which an earlier version of this
// program left behind when it was killed: five segments with 42 events, of years from
// 1990 to 2150, a cohort, a user who is deleted, and 7 events in the log.
func before(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join("testdata", "store1"))); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestStoreFromBefore reads and goes on with a store from before.
func TestStoreFromBefore(t *testing.T) {
	dir := before(t)
	wantSound(t, dir)
	look := func(s *Store, want int64) {
		t.Helper()
		wantCount(t, s, want)
		wantCount(t, s, 5, "purchase")
		q, err := query.Parse("q", []byte("{segment: {where: {cohort: buyers}}}"))
		if err != nil {
			t.Fatal(err)
		}
		a := ask(t, s, q)
		if got := a.Segment.Rows[0].Value.Int; got != 16 {
			t.Errorf("got %d events of the cohort, want 16", got)
		}
		if got := string(s.Mark("queue")); got != "7" {
			t.Errorf("got the mark %q, want 7", got)
		}
		if got := s.Info().Damaged; len(got) > 0 {
			t.Errorf("got %q as damaged", got)
		}
	}
	look(open(t, dir, Options{ReadOnly: true}), 45)
	s, err := Open(dir, quiet())
	if err != nil {
		t.Fatal(err)
	}
	look(s, 45)
	add(t, s, ev("ann", base, "view", prop("n", event.IntOf(1<<60))))
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	look(s, 46)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	wantSound(t, dir)
	look(open(t, dir, Options{ReadOnly: true}), 46)
}
