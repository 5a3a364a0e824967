// Package program is what the commands of bench have in common: [Main] and [Run]
// with the exit codes, a [Lab] and [Turns], a [Log] of progress, a [Table], and [Targets] with
// verdicts; the [Facts] of the machine and the processors it has; the [Toolchain],
// which makes test binaries, and a [BenchRun] of one; and what profiles say. It knows
// nothing of what is measured.
//
// Reading order: program.go, machine.go, gotest.go, profiles.go.
package program

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// Exit codes.
const (
	OK      = 0
	Failed  = 1 // what was measured is not as it must be
	Usage   = 2
	Trouble = 3 // something could not be measured
)

// A Lab is where a command measures. It is used by one goroutine, and must be closed.
type Lab struct {
	Dir    string // a temporary folder, which Close removes
	Self   string // this program
	Binary string // the program to measure
	*Log
}

// NewLab returns a lab for the program to measure. Progress goes to the log.
func NewLab(binary string, log io.Writer) (*Lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	dir, err := os.MkdirTemp("", "uniflow-bench-")
	return &Lab{dir, self, path, NewLog(log)}, err
}

// File returns the path of a file in the lab's folder.
func (l *Lab) File(name string) string { return filepath.Join(l.Dir, name) }

// Close removes the folder.
func (l *Lab) Close() error { return os.RemoveAll(l.Dir) }

// Turns calls side with each index below sides once a round, in rotating order, so that changes on
// the machine affect all.
func Turns(rounds, sides int, side func(i int) error) error {
	for round := range rounds {
		for i := range sides {
			if err := side((i + round) % sides); err != nil {
				return err
			}
		}
	}
	return nil
}

// Main runs a command until it ends or is interrupted, and exits with its code.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Flags returns the flags of a command, which [Run] parses.
func Flags(name string) *flag.FlagSet { return flag.NewFlagSet(name, flag.ContinueOnError) }

// Run parses the flags, calls check and then measure, and returns the exit code.
// An error of check is one of usage. measure returns whether all is as it must be.
func Run(flags *flag.FlagSet, args []string, stderr io.Writer, check func() error, measure func() (ok bool, err error)) int {
	flags.SetOutput(stderr)
	if flags.Parse(args) != nil {
		return Usage
	}
	if err := check(); err != nil || flags.NArg() > 0 {
		if err == nil {
			err = fmt.Errorf("unexpected arguments: %q", flags.Args())
		}
		return Report(stderr, flags.Name(), err, Usage)
	}
	ok, err := measure()
	switch {
	case err != nil:
		return Report(stderr, flags.Name(), err, Trouble)
	case !ok:
		return Failed
	}
	return OK
}

// Report writes an error and returns the exit code.
func Report(stderr io.Writer, name string, err error, code int) int {
	fmt.Fprintf(stderr, "%s: %v\n", name, err)
	return code
}

// A Log writes progress with the time since it was made.
type Log struct {
	w     io.Writer
	start time.Time
}

// NewLog returns a log that starts now.
func NewLog(w io.Writer) *Log { return &Log{w, time.Now()} }

// Progress writes a line.
func (l *Log) Progress(format string, args ...any) {
	fmt.Fprintf(l.w, "%6.1fs %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// A Table has a column of text and columns of figures.
type Table struct {
	show.Table
}

// Row adds a line, the first of which has the titles. Cells of other types than
// string are written as fmt.Sprint does.
func (t *Table) Row(cells ...any) {
	line := make([]string, len(cells))
	for i, cell := range cells {
		line[i] = fmt.Sprint(cell)
	}
	if t.Columns() == 0 {
		t.Text(line[0])
		t.Figures(line[1:]...)
		return
	}
	t.Table.Row(line...)
}

// Print writes a title and the table; nothing if the table has no rows.
func (t *Table) Print(w io.Writer, title string) error {
	if t.Body() == "" {
		return nil
	}
	_, err := fmt.Fprintf(w, "\n%s\n\n%s", title, t)
	return err
}

// A Target is what a measurement must show, and whether it did.
type Target struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
	// Correct says that the target is about correctness, not speed: if it is
	// missed, the command fails.
	Correct bool `json:"correct,omitempty"`
}

// Targets are all targets of a measurement.
type Targets []Target

// Add adds a target.
func (t *Targets) Add(met bool, name, want, got string) {
	*t = append(*t, Target{Name: name, Want: want, Got: got, Met: met})
}

// Must adds a target of correctness.
func (t *Targets) Must(met bool, name, want, got string) {
	*t = append(*t, Target{name, want, got, met, true})
}

// Correct reports whether all targets of correctness are met.
func (t Targets) Correct() bool {
	return !slices.ContainsFunc(t, func(t Target) bool { return t.Correct && !t.Met })
}

// Print writes the targets with verdicts.
func (t Targets) Print(w io.Writer) error {
	var table Table
	table.Row("target", "want", "got", "")
	for _, g := range t {
		table.Row(g.Name, g.Want, g.Got, map[bool]string{true: "ok", false: "MISSED"}[g.Met])
	}
	return table.Print(w, "Targets")
}

// Median returns the middle of values, which need not be sorted; 0 of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	values = slices.Sorted(slices.Values(values))
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// Wait waits, unless the context ends first.
func Wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}

// Write writes what was measured to a file as JSON, and makes its folder.
func Write(path string, measured any) error {
	data, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(data, '\n'), 0o644)
}
