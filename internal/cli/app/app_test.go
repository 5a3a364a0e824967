package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

// TestEnd prints every error once, and returns the code of the first.
func TestEnd(t *testing.T) {
	f := func(err error, want int, text string) {
		t.Helper()
		var errs bytes.Buffer
		root := func(*app.App) *cobra.Command {
			return &cobra.Command{SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return err }}
		}
		if got := app.Main(t.Context(), nil, apptest.Machine(io.Discard, &errs, nil), root); got != want || errs.String() != text {
			t.Errorf("%v: got %d, %q, want %d, %q", err, got, errs.String(), want, text)
		}
	}
	one, two := errors.New("one"), errors.New("two")
	f(nil, 0, "")
	f(one, 3, "uniflow: one\n")
	f(app.ErrFindings(), 1, "")
	f(errors.Join(app.ErrFindings(), one), 1, "uniflow: one\n")
	f(errors.Join(errors.Join(one, app.Usagef("x y", "h", "%w", two)), nil), 3, "uniflow: one\nuniflow: two\nhint: h\nSee 'x y --help'.\n")
	f(fmt.Errorf("%w and %w", one, two), 3, "uniflow: one and two\n")
	f(errors.New("a server says x\x1b[31m\r\nand \u202e\xff"), 3, "uniflow: a server says x\\x1b[31m\\r\nand \\u202e\\xff\n")
}

// TestReplaceFile keeps a file that cannot be replaced.
func TestReplaceFile(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "out.parquet", "as it was")
	err := app.ReplaceFile("out.parquet", func(w io.Writer) error {
		if _, err := io.WriteString(w, "half"); err != nil {
			t.Error(err)
		}
		return errors.New("disk full")
	})
	if err == nil || !strings.HasSuffix(err.Error(), "disk full") {
		t.Errorf("got %v, want disk full", err)
	}
	data, err := os.ReadFile("out.parquet")
	entries, dirErr := os.ReadDir(".")
	if err != nil || dirErr != nil || string(data) != "as it was" || len(entries) != 1 {
		t.Errorf("got %q and %d files, errors %v, %v, want the file as it was, alone", data, len(entries), err, dirErr)
	}
}
