package flow

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// sqlitePrefix begins the address of a journal in a file.
const sqlitePrefix = "sqlite:"

// openJournal opens the journal with an address; nil for none.
func openJournal(address string) (journal.Store, error) {
	if address == "" {
		return nil, nil
	}
	file, ok := strings.CutPrefix(address, sqlitePrefix)
	switch {
	case strings.HasPrefix(address, "postgres:"), strings.HasPrefix(address, "postgresql:"):
		return nil, app.Usagef("uniflow start", "write --journal sqlite:FILE", "--journal: PostgreSQL cannot keep a journal yet")
	case !ok || file == "":
		return nil, app.Usagef("uniflow start", "write --journal sqlite:FILE", "--journal: %q is not the address of a journal", address)
	}
	store, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		return nil, fmt.Errorf("--journal: %w", err)
	}
	return store, nil
}
