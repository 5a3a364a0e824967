package loader

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// TestFolderOf4d86ea6 opens the folder that test/before/make has left with revision
// 4d86ea6: all events are there, and batches that come again get their answers.
func TestFolderOf4d86ea6(t *testing.T) {
	r := openRig(t, Options{Dir: filepath.Join(vfstest.Unpack(t, filepath.Join("testdata", "4d86ea6.tar.gz")), "events")})
	got := r.events()
	if len(got) != 107 || !strings.HasPrefix(got[6], `{"method":"GET"`) {
		t.Fatalf("got %d events %.200q, want 107", len(got), got)
	}
	for n := range 6 {
		if want := fmt.Sprintf(`{"own":%d}`, n); got[n] != want {
			t.Errorf("got %s, want %s", got[n], want)
		}
	}
	for n := range 100 {
		if want := fmt.Sprintf(`"remote":"127.0.0.1","body":{"n":%d}}`, n); !strings.HasPrefix(got[7+n], `{"method":"POST","scheme":"http",`) || !strings.HasSuffix(got[7+n], want) {
			t.Errorf("got %s, want %s at its end", got[7+n], want)
		}
	}
	if found := r.loader.Recovered(); found.Events != 107 || found.Keys < 5 {
		t.Errorf("recovered %+v", found)
	}
	for n := range 3 {
		again := r.want(r.post("[]", "Idempotency-Key", fmt.Sprintf("own/%d", n)), 200)
		if !again.Dup || again.Accepted != 2 || len(again.Rejected) != 1 || again.Rejected[0].Index != 1 || again.Rejected[0].Retry {
			t.Errorf("got %+v", again)
		}
	}
	r.want(r.post(`["new"]`, "Idempotency-Key", "own/3"), 200)
	if now := r.events(); !slices.Equal(now, append(got, `"new"`)) {
		t.Errorf("got %d events, want one more", len(now))
	}
}
