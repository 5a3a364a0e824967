package app

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// PrintJSON writes data for programs, indented.
func (a *App) PrintJSON(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		return err
	}
	return a.Print(b.String())
}

// Print writes data.
func (a *App) Print(text string) error {
	if _, err := io.WriteString(a.Stdout, text); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	return nil
}

// CountFindings writes how many errors and warnings a list has.
func CountFindings(list diag.List) string {
	errs, warnings := list.Counts()
	var parts []string
	if errs > 0 {
		parts = append(parts, show.Count(int64(errs), "error"))
	}
	if warnings > 0 {
		parts = append(parts, show.Count(int64(warnings), "warning"))
	}
	return strings.Join(parts, ", ")
}

// Progress returns what shows the progress of a long piece of work. Call its End
// before anything else is written.
func (a *App) Progress() *show.Progress {
	return show.NewProgress(a.Stderr, a.Terminal(a.stderr.w) && a.Getenv("TERM") != "dumb")
}

// Columns aligns rows of cells.
func Columns(rows [][]string) string {
	var t show.Table
	for range rows[0] {
		t.Text("")
	}
	for _, row := range rows {
		t.Row(row...)
	}
	return t.Body()
}

// StdinPath stands for standard input among paths.
const StdinPath = "-"

// ReplaceFile lets write fill a temporary file in the same folder, which then replaces
// the named one: no reader sees half of it, and the old file stays if anything fails. A
// symbolic link stays one, and permissions stay.
func ReplaceFile(name string, write func(io.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	mode := os.FileMode(0o644)
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*.part")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", name, err), f.Close(), os.Remove(f.Name()))
		}
	}()
	b := bufio.NewWriterSize(f, 1<<20)
	if err := write(b); err != nil {
		return err
	}
	if err := errors.Join(b.Flush(), f.Chmod(mode), f.Sync()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), name); err != nil {
		return err
	}
	_ = f.Close() // the file is synced and has its name
	return nil
}
