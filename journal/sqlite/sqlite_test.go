package sqlite_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

func TestMain(m *testing.M) { leak.Main(m) }

// full reports whether tests have the length of the contract, which make test-faults asks for.
func full() bool { return os.Getenv("DURABLE_FAULTS") == "full" }

// open opens a journal for a test. The test closes it.
func open(tb testing.TB, name string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(name, sqlite.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func shut(tb testing.TB, s *sqlite.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}

// A filler is a store that the kit can fill.
type filler struct {
	*sqlite.Store
	tb testing.TB
}

func (f filler) Fill(full bool) {
	if err := f.Store.LimitPages(full); err != nil {
		f.tb.Error(err)
	}
}

func TestConformance(t *testing.T) {
	var mu sync.Mutex
	names := make(map[string]string)
	journaltest.Run(t, func(t *testing.T) journal.Store {
		mu.Lock()
		defer mu.Unlock()
		name := names[t.Name()]
		if name == "" {
			name = filepath.Join(t.TempDir(), "a journal?x=%41#")
			names[t.Name()] = name
		}
		return filler{open(t, name), t}
	})
}
