package trailstore

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/trail"
)

// TestJournalOf4d86ea6 goes on with the journal in the store that test/before/make has left
// with revision 4d86ea6: it knows the keys of both batches, and their verdicts.
func TestJournalOf4d86ea6(t *testing.T) {
	dir := filepath.Join(vfstest.Unpack(t, filepath.Join("..", "..", "..", "trail", "testdata", "4d86ea6.tar.gz")), "store")
	opts := loader.Options{Log: slog.New(slog.DiscardHandler)}
	store, err := Use(&opts, Options{Dir: dir, Fields: trail.ImportOptions{ID: "id"}, Times: trail.Times{Any: true}})
	if err != nil {
		t.Fatal(err)
	}
	l, err := loader.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(l.Close(), store.Close()); err != nil {
			t.Error(err)
		}
	}()
	for n, want := range []string{`"accepted":5,"duplicate":true`, `"accepted":5,"duplicate":true`, `"accepted":1,"duplicate":false`} {
		req := httptest.NewRequest("POST", "/batch", strings.NewReader(`[{"user":"u","time":1736000000,"event":"e","id":"i"}]`))
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", fmt.Sprintf("trail/%d", n))
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, req)
		if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, want) || strings.Contains(got, `"index":5`) != (n < 2) {
			t.Errorf("batch %d: got %d %s, want %s", n, w.Code, got, want)
		}
	}
}
