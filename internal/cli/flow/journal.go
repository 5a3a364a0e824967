package flow

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/sqlite"
)

// sqlitePrefix begins the address of a journal in a file.
const sqlitePrefix = "sqlite:"

// openJournal opens the journal with an address for a server; nil for none.
func openJournal(address string) (journal.Store, error) {
	if address == "" {
		return nil, nil
	}
	file, err := journalFile("uniflow start", address)
	if err != nil {
		return nil, err
	}
	store, err := sqlite.Open(file, sqlite.Options{})
	if err != nil {
		return nil, fmt.Errorf("--journal: %w", err)
	}
	return store, nil
}

// journalFile returns the file of the journal with an address.
func journalFile(command, address string) (string, error) {
	file, ok := strings.CutPrefix(address, sqlitePrefix)
	switch {
	case strings.HasPrefix(address, "postgres:"), strings.HasPrefix(address, "postgresql:"):
		return "", app.Usagef(command, "write --journal sqlite:FILE", "--journal: PostgreSQL cannot keep a journal yet")
	case !ok || file == "":
		return "", app.Usagef(command, "write --journal sqlite:FILE", "--journal: %q is not the address of a journal", address)
	}
	return file, nil
}

// oldJournal opens a journal that is there, and that no server has.
func oldJournal(file string) (journal.Store, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, app.InputError(file, err)
	}
	if info.Mode().IsRegular() && info.Size() == 0 { // it would become a journal
		return nil, fmt.Errorf("journal %s: %w: it is empty", file, sqlite.ErrDamaged)
	}
	store, err := sqlite.Open(file, sqlite.Options{Readers: 1})
	switch {
	case errors.Is(err, journal.ErrLocked):
		return nil, &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf("%s: %w", file, journal.ErrLocked), Hint: "uniflow runs and journal export ask the program that has it with --admin ADDRESS; else stop that program first"}
	case err != nil:
		return nil, err
	}
	return store, nil
}

func journalCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "journal", Short: "Look after a journal, and export it",
		Long:    "Journal is for the file in which start --journal keeps durable runs. uniflow runs lists the runs in it.",
		Example: "  uniflow journal check runs.db\n  uniflow journal export runs.db > runs.jsonl",
		Args:    cobra.ArbitraryArgs, RunE: app.RunGroup,
	}
	cmd.AddCommand(journalCheckCommand(a), journalExportCommand(a))
	return cmd
}

const journalCheckLong = `Check reads the whole file of a journal and looks for damage: pages and indexes that do not
fit each other, and rows that belong to no run. It prints what it finds, and exits with 1 then.
Bytes that have changed within a payload are not found.

No server may have the file meanwhile. A file that was written by an older version is brought
to this one, as start does.`

func journalCheckCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use: "check FILE", Short: "Look for damage in the file of a journal", Long: journalCheckLong,
		Example: "  uniflow journal check runs.db",
	}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 {
			return app.Usagef(cmd.CommandPath(), "name the file of start --journal sqlite:FILE", "check takes one file, got %d", len(args))
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		file := strings.TrimPrefix(args[0], sqlitePrefix)
		store, err := oldJournal(file)
		if errors.Is(err, sqlite.ErrDamaged) {
			return &app.ExitError{Code: app.ExitFindings, Err: err}
		}
		if err != nil {
			return journalFailure(err)
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		found, err := store.Check(cmd.Context())
		if err != nil {
			return journalFailure(err)
		}
		if len(found) == 0 {
			return a.Print(file + ": no damage\n")
		}
		for _, text := range found {
			for line := range strings.Lines(text) {
				line = strings.TrimSpace(line)
				if line == "" || strings.HasPrefix(line, "***") { // a heading of SQLite
					continue
				}
				if err := a.Print(file + ": " + show.Printable(strings.TrimPrefix(line, "journal "+file+": ")) + "\n"); err != nil {
					return err
				}
			}
		}
		return app.ErrFindings()
	}
	return cmd
}

// journalFailure gives an error of a journal its exit code.
func journalFailure(err error) error {
	if errors.As(err, new(*app.ExitError)) {
		return err
	}
	if errors.Is(err, fs.ErrPermission) {
		return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "only the owner of the file may read it"}
	}
	return &app.ExitError{Code: app.ExitFailure, Err: err}
}
