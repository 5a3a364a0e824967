// Package cli is the command line: one file per command, and what they share.
//
// Read [Main] and [Machine] first, then settings.go (flags, environment and
// config file, in that order), sources.go (what a run reads), and serve.go with
// watch.go (a program that serves until it is told to end). The pages that are
// generated from the kinds and the catalogue are in the package reference below
// this one.
//
// Invariants: data goes to standard output and talk to standard error; whatever
// ends a command is an error that knows its exit code, and only [Main] makes a
// code of it. What the commands know of the process they run in comes from a
// [Machine], so that tests can run them in their own process.
//
// The package must not know how workflows are compiled or run.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// The exit codes. A program that is ended by a second signal exits with 128 and
// the number of the signal, as shells count.
const (
	exitOK       = 0
	exitFindings = 1 // the documents have errors, or differ from their form
	exitUsage    = 2 // the command line or the config file cannot be used
	exitEngine   = 3 // what was asked for could not be done: bind, start, write
)

// A Machine is what a command sees of the process it runs in. All fields but Kinds
// and Program are required.
type Machine struct {
	Kinds   []*node.Def // that documents may use beside those of package std
	Program string      // what the executable of the process is called so that it calls Main; without it, no script can be isolated

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	// Getenv returns a variable of the environment, empty if it is not set.
	Getenv func(name string) string

	// Signals returns a channel of the given signals from now on, and what
	// stops that.
	Signals func(sigs ...os.Signal) (signals <-chan os.Signal, stop func())

	// Terminal reports whether a stream is shown on a terminal.
	Terminal func(stream io.Writer) bool
}

// System returns the machine that the program runs on.
func System() Machine {
	return Machine{
		Program: os.Args[0],
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv,
		Signals: func(sigs ...os.Signal) (<-chan os.Signal, func()) {
			// Room for a few: a second signal may come while the first is handled.
			c := make(chan os.Signal, 8)
			signal.Notify(c, sigs...)
			return c, func() { signal.Stop(c) }
		},
		Terminal: func(stream io.Writer) bool {
			f, ok := stream.(*os.File)
			return ok && term.IsTerminal(int(f.Fd()))
		},
	}
}

// Main runs a command line, without the program's name, and returns its exit
// code. When ctx ends, a program that serves shuts down as upon SIGTERM.
func Main(ctx context.Context, args []string, sys Machine) int {
	a := newApp(args, sys)
	code := a.end(a.root().ExecuteContext(ctx))
	a.stderr.flush(a.patience())
	return code
}

// An app is one run of the command line.
type app struct {
	Machine
	args   []string
	stderr *stderr // what Stderr is

	// deadline is when a program that was told to end has to; zero before that.
	deadline time.Time

	// colourOut and colourErr tell whether findings on a stream are painted.
	colourOut, colourErr bool
}

// kinds are all that documents may use. Language is that of expressions that name
// none.
func (a *app) kinds(language string) []*node.Def {
	return append(std.Defs(language, a.worker()...), a.Kinds...)
}

func newApp(args []string, sys Machine) *app {
	plain := sys.Getenv("NO_COLOR") != "" || sys.Getenv("TERM") == "dumb"
	a := &app{Machine: sys, args: append([]string{}, args...)} // never nil: cobra would take os.Args
	a.colourOut = !plain && sys.Terminal(sys.Stdout)
	a.colourErr = !plain && sys.Terminal(sys.Stderr)
	a.stderr = &stderr{w: sys.Stderr}
	a.Stderr = a.stderr
	return a
}

// patience is how long the last of what a command does may take: what there is up
// to the deadline, but 100 ms in any case and a second at most.
func (a *app) patience() time.Duration {
	if a.deadline.IsZero() {
		return time.Second
	}
	return min(max(time.Until(a.deadline), 100*time.Millisecond), time.Second)
}

// An exitError ends a command with a code. Err is nil if what there is to say
// has been said.
type exitError struct {
	code    int
	err     error
	hint    string
	command string // whose --help to point at; empty for none
}

// Error returns the message.
func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

// Unwrap returns the cause.
func (e *exitError) Unwrap() error { return e.err }

// errFindings ends a command that has printed its findings.
func errFindings() error { return &exitError{code: exitFindings} }

func usagef(command, hint, format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint, command: command}
}

// didYouMean is a hint at the nearest spelling, empty if none is near.
func didYouMean(word string, candidates []string, prefix string) string {
	if near, ok := spell.Nearest(word, candidates); ok {
		return "did you mean " + prefix + near + "?"
	}
	return ""
}

// end says why a command ended and returns the exit code. Of several errors each
// is told, and the code of the first counts.
func (a *app) end(err error) int {
	if err == nil {
		return exitOK
	}
	if errs := joined(err); len(errs) > 0 {
		code := a.end(errs[0])
		for _, err := range errs[1:] {
			a.end(err)
		}
		return code
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		exit = &exitError{code: exitEngine, err: err}
	}
	if exit.err == nil {
		return exit.code
	}
	text := "uniflow: " + show.PrintableLines(exit.err.Error()) + "\n"
	if exit.hint != "" {
		text += "hint: " + exit.hint + "\n"
	}
	if exit.command != "" {
		text += "See '" + exit.command + " --help'.\n"
	}
	a.talk("%s", text)
	return exit.code
}

// joined returns the errors that errors.Join has made one of. Others that wrap
// several have something to say themselves.
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

// talk writes to standard error. There is nowhere to report that this failed.
func (a *app) talk(format string, args ...any) {
	_, _ = fmt.Fprintf(a.Stderr, format, args...) // see above
}

// signalCode is the exit code of a program that a signal has ended.
func signalCode(sig os.Signal) int {
	if n, ok := sig.(syscall.Signal); ok {
		return 128 + int(n)
	}
	return exitEngine
}
