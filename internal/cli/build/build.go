// Package build is the command uniflow build: it makes a program with the kinds of other
// modules of Go.
//
// Read [Command] first. package.go reads what --with names, checkout.go reads a checkout of
// this product, program.go writes the module of the new program, and has the go command
// build it.
//
// The package must not know what kinds are.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

const long = `Build makes a program like this one, which has the kinds of other modules, too. It needs
the go command.

PACKAGE is the import path of a package of Go with the function

  func Defs(o stream.Options) []*node.Def

as docs/nodes.md describes it. VERSION is a version, a branch or "latest", the default.
PACKAGE=FOLDER takes the package from a folder on this machine, which has a go.mod or is in a
module. Modules are fetched as the go command is set up to: see "go help environment" for
GOPROXY, GOPRIVATE and GONOSUMDB. GOOS and GOARCH name another system to build for.

The code of these modules becomes part of the program, with all rights of the program: name
only what you trust. Build prints what it is going to compile, with versions, before it
begins. It compiles no C, and runs none of the code.`

const example = `  uniflow build --with example.com/kinds/geo@v1.2.0 -o uniflow-geo
  uniflow build --with example.com/kinds/geo=../geo --source ../uniflow -o uniflow-geo
  ./uniflow-geo describe geo`

type options struct {
	with   []string
	source string
	output string
	goTool string
	asks   []request // what with says
}

// commands are the commands of one run.
type commands struct{ *app.App }

// Command is the command build.
func Command(shared *app.App) *cobra.Command {
	a := commands{shared}
	o := new(options)
	cmd := &cobra.Command{
		Use:     "build --with PACKAGE[@VERSION]...",
		Short:   "Make a program with kinds of other modules",
		Long:    long,
		Example: example,
		Args:    app.NoArgs,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&o.with, "with", nil, "add the kinds of `PACKAGE[@VERSION]`, or of PACKAGE=FOLDER; may be repeated")
	flags.StringVarP(&o.output, "output", "o", "", "write the program to `FILE`; the default is uniflow-with-NAME, after the first package")
	flags.StringVar(&o.source, "source", "", "build from a checkout of uniflow at `FOLDER`; required while this program is not a release")
	flags.StringVar(&o.goTool, "go", "go", "the go `COMMAND`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.check(cmd.CommandPath()); err != nil {
			return err
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error { return a.build(ctx, o) })
	}
	return cmd
}

// check completes the options.
func (o *options) check(command string) error {
	if len(o.with) == 0 {
		return app.Usagef(command, "write build --with example.com/kinds/geo@v1.2.0", "build takes at least one --with")
	}
	for _, text := range o.with {
		r, err := readRequest(text)
		if err != nil {
			return app.Usagef(command, "write --with example.com/kinds/geo@v1.2.0, or --with example.com/kinds/geo=FOLDER", "--with %q: %v", text, err)
		}
		for _, other := range o.asks {
			if other.path == r.path {
				return app.Usagef(command, "leave one out", "--with names %s twice", r.path)
			}
		}
		o.asks = append(o.asks, r)
	}
	if o.source == "" && !released(app.Version()) {
		return app.Usagef(command, "clone the repository of uniflow, and write --source FOLDER", "this program (version %s) is not a release that a module could name: its source is required", app.Version())
	}
	if o.output == "" {
		o.output = "uniflow-with-" + o.asks[0].name()
	}
	switch info, err := os.Stat(o.output); {
	case err != nil:
	case info.IsDir():
		return app.Usagef(command, "write -o "+filepath.Join(o.output, "uniflow"), "--output %s is a folder", o.output)
	case !isProgram(o.output):
		return app.Usagef(command, "name another file, or remove it", "--output %s is there, and is not a program", o.output)
	}
	return nil
}

// isProgram reports whether a file begins as a program of some system does, or is empty: one
// that does not is the user's.
func isProgram(file string) bool {
	f, err := os.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	begin := make([]byte, 4)
	n, err := io.ReadFull(f, begin)
	if n == 0 {
		return errors.Is(err, io.EOF)
	}
	for _, magic := range []string{"\x7fELF", "MZ", "\xcf\xfa\xed\xfe", "\xca\xfe\xba\xbe", "\x00asm"} {
		if bytes.HasPrefix(begin[:n], []byte(magic)) {
			return true
		}
	}
	return false
}

// build makes the program.
func (a commands) build(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp("", "uniflow-build-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	p := &program{dir: dir, tool: o.goTool, progress: a.Stderr, source: o.source, asks: o.asks}
	if err := p.write(ctx); err != nil {
		return failed(err)
	}
	modules, err := p.resolve(ctx)
	if err != nil {
		return failed(err)
	}
	a.Talk("compiles foreign code into %s, with all rights of the program:\n", o.output)
	for _, m := range modules {
		a.Talk("  %s\n", m)
	}
	if err := p.build(ctx, o.output); err != nil {
		return failed(err)
	}
	run := o.output
	if !strings.ContainsRune(run, filepath.Separator) {
		run = "./" + run
	}
	a.Talk("wrote %s: %s list shows its kinds\n", o.output, run)
	return nil
}

// failed gives an error the exit code of what failed.
func failed(err error) error {
	var e *app.ExitError
	if errors.As(err, &e) {
		return err
	}
	return &app.ExitError{Code: app.ExitFailure, Err: err}
}

// hinted is an error with what to do about it.
func hinted(hint, format string, args ...any) error {
	return &app.ExitError{Code: app.ExitFailure, Err: fmt.Errorf(format, args...), Hint: hint}
}
