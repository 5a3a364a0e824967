// Package app is what all commands share: the process that they run in, exit codes
// and errors, arguments and flags, output, and a log that does not wait for its
// reader.
//
// Read [Main] and [Machine] first.
//
// Invariants: data goes to standard output and everything else to standard error.
// Whatever ends a command is an error that has an exit code, and only [Main] turns
// it into one. Commands know the process only by their [Machine], so tests can run
// them in their own process.
//
// The package must not know what any command does.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// The exit codes. A program that is ended by a second signal exits with 128 and
// the number of the signal, as shells count.
const (
	ExitOK       = 0
	ExitFindings = 1 // the documents have errors, or are not formatted; a file that was named is not there
	ExitUsage    = 2 // the command line or the config file cannot be used
	ExitFailure  = 3 // something failed: an address is in use, a file cannot be written
)

// ExitCodes are the exit codes with their meaning.
func ExitCodes() [][]string {
	return [][]string{
		{"0", "success; also after SIGTERM or SIGINT, if all processes ended within the grace period"},
		{"1", "the documents have findings, or are not formatted; a file that was named as input is not there; a job had an error or dead letters"},
		{"2", "the command line, the environment or the config file cannot be used"},
		{"3", "something failed: an address is in use, a file cannot be written, processes took too long to end"},
		{"130, 143", "ended immediately by a second SIGINT or SIGTERM; a job was ended by the first"},
	}
}

// A Machine is what a command sees of the process it runs in. All fields but Kinds
// and Program are required.
type Machine struct {
	Kinds   []func(stream.Options) []*node.Def // that documents may use in addition to package std
	Program string                             // the executable to start for isolated scripts, which must call Main; without it, no script can be isolated

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	// Getenv returns a variable of the environment, empty if it is not set.
	Getenv func(name string) string

	// Environ returns the environment as KEY=VALUE. It may be nil.
	Environ func() []string

	// Signals returns a channel that gets the given signals from now on, and a
	// function that ends this. Of several SIGTERM at about the same time it gets one.
	Signals func(sigs ...os.Signal) (signals <-chan os.Signal, stop func())

	// Terminal reports whether a stream is shown on a terminal.
	Terminal func(stream io.Writer) bool
}

// System returns the machine that the program runs on.
func System() Machine {
	return Machine{
		Program: os.Args[0],
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Environ: os.Environ,
		Signals: func(sigs ...os.Signal) (<-chan os.Signal, func()) {
			// Room for a few: a second signal may come while the first is handled.
			c := make(chan os.Signal, 8)
			signal.Notify(c, sigs...)
			once, end := repeated(c, time.Now)
			return once, func() {
				signal.Stop(c)
				end()
			}
		},
		Terminal: func(stream io.Writer) bool {
			f, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(f.Fd()))
		},
	}
}

// Main runs a command line, without the program's name, and returns its exit code.
// When ctx ends, a program that serves shuts down as upon SIGTERM.
func Main(ctx context.Context, args []string, sys Machine, commands func(*App) *cobra.Command) int {
	a := New(args, sys)
	root := commands(a)
	code := a.end(root.ExecuteContext(ctx))
	a.stderr.flush(a.patience())
	return code
}

// An App is one run of the command line.
type App struct {
	Machine
	Args   []string
	stderr *stderr // what Stderr is

	// Deadline is when the program must have ended after a signal; zero before that.
	Deadline time.Time

	// ColourOut and ColourErr report whether findings on a stream are coloured.
	ColourOut, ColourErr bool

	// TerminalErr reports whether standard error is a terminal.
	TerminalErr bool
}

// New returns a run of a command line.
func New(args []string, sys Machine) *App {
	plain := sys.Getenv("NO_COLOR") != "" || sys.Getenv("TERM") == "dumb"
	a := &App{Machine: sys, Args: append([]string{}, args...)} // never nil: cobra would take os.Args
	a.ColourOut = !plain && sys.Terminal(sys.Stdout)
	a.TerminalErr = sys.Terminal(sys.Stderr)
	a.ColourErr = !plain && a.TerminalErr
	a.stderr = &stderr{w: sys.Stderr}
	a.Stderr = a.stderr
	return a
}

// Environment returns the environment as KEY=VALUE.
func (a *App) Environment() []string {
	if a.Environ == nil {
		return nil
	}
	return a.Environ()
}

// patience is how long the last writes to standard error may take: until the
// deadline, but at least 100 ms and at most a second.
func (a *App) patience() time.Duration {
	if a.Deadline.IsZero() {
		return time.Second
	}
	return min(max(time.Until(a.Deadline), 100*time.Millisecond), time.Second)
}

// An ExitError ends a command with an exit code. Err is nil if everything has been
// printed already.
type ExitError struct {
	Code    int
	Err     error
	Hint    string
	Command string // whose --help to point at; empty for none
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// hint returns the hint of the error, or of the finding that it wraps.
func (e *ExitError) hint() string {
	var d *diag.Diagnostic
	if e.Hint == "" && errors.As(e.Err, &d) {
		return d.Hint
	}
	return e.Hint
}

// ErrFindings ends a command that has printed its findings.
func ErrFindings() error { return &ExitError{Code: ExitFindings} }

// Usagef is the error of a command line that cannot be used.
func Usagef(command, hint, format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...), Hint: hint, Command: command}
}

// AtMostOneFlag refuses a command line with two flags of which each says the whole output.
func AtMostOneFlag(cmd *cobra.Command, names ...string) error {
	names = slices.DeleteFunc(names, func(name string) bool { return !cmd.Flags().Changed(name) })
	if len(names) < 2 {
		return nil
	}
	return Usagef(cmd.CommandPath(), "leave one out", "--%s and --%s do not go together", names[0], names[1])
}

// InputError is the error of a file that was named as input and cannot be read. All
// commands exit with the same code for one that is not there.
func InputError(file string, err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		err = path.Err // the name is there already
	}
	if errors.Is(err, fs.ErrNotExist) {
		return &ExitError{Code: ExitFindings, Err: fmt.Errorf("%s: %w", file, err)}
	}
	return fmt.Errorf("%s: %w", file, err)
}

// DidYouMean is a hint at the nearest spelling, empty if none is near.
func DidYouMean(word string, candidates []string, prefix string) string {
	if near, ok := spell.Nearest(word, candidates); ok {
		return "did you mean " + prefix + near + "?"
	}
	return ""
}

// Complain prints an error of a command that goes on.
func (a *App) Complain(err error) { a.end(err) }

// end prints why a command ended and returns the exit code. Of joined errors each
// is printed, and the code of the first counts.
func (a *App) end(err error) int {
	if err == nil {
		return ExitOK
	}
	if errs := joined(err); len(errs) > 0 {
		code := a.end(errs[0])
		for _, err := range errs[1:] {
			a.end(err)
		}
		return code
	}
	var exit *ExitError
	if !errors.As(err, &exit) {
		exit = &ExitError{Code: ExitFailure, Err: err}
	}
	if exit.Err == nil {
		return exit.Code
	}
	text := "uniflow: " + show.PrintableLines(exit.Err.Error()) + "\n"
	if hint := exit.hint(); hint != "" {
		text += "hint: " + show.PrintableLines(hint) + "\n"
	}
	if exit.Command != "" {
		text += "See '" + exit.Command + " --help'.\n"
	}
	a.Talk("%s", text)
	return exit.Code
}

// joined returns the errors that errors.Join has joined. Other errors that wrap
// several have a message of their own.
func joined(err error) []error {
	j, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	errs := j.Unwrap()
	lines := make([]string, len(errs))
	for i, err := range errs {
		lines[i] = err.Error()
	}
	if strings.Join(lines, "\n") != err.Error() {
		return nil
	}
	return errs
}

// Talk writes to standard error. There is nowhere to report that this failed.
func (a *App) Talk(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Stderr, format, args...) // see above
}

// SignalCode is the exit code of a program that a signal has ended.
func SignalCode(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return ExitFailure
}
