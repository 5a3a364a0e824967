// Package cli is the command uniflow for programs with kinds of their own: start,
// check, fmt, list, describe, schema and the rest know these like the kinds of package
// std.
//
//	func main() {
//		os.Exit(cli.Main(context.Background(), os.Args[1:], own.Defs))
//	}
//
// Read [Main]. The package adds nothing to the commands: docs/reference/cli.md
// describes them.
package cli

import (
	"context"
	"os"
	"slices"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// Main runs a command line, without the program's name, and returns its exit code.
// Documents may use the kinds of package std and those that kinds return. Each of these
// functions is called once for each set of kinds that a command makes, with the languages
// of expressions, and returns kinds freshly made. If a kind has an invalid description or
// the name of another, check and start fail with a message. When ctx ends, a program that
// serves shuts down as upon SIGTERM.
//
// If args are the arguments of the process, scripts can be isolated: Main then starts
// the executable again for each of their processes, so a program should call Main
// before it does anything else.
//
// It reads the environment, standard input and signals of the process, and writes to
// its standard output and error. Queries know the time zones of the system; import
// time/tzdata for others.
func Main(ctx context.Context, args []string, kinds ...func(stream.Options) []*node.Def) (code int) {
	machine := app.System()
	machine.Kinds = kinds
	if !slices.Equal(args, os.Args[1:]) {
		machine.Program = "" // it might not get here with the arguments of a worker
	}
	return cli.Main(ctx, args, machine)
}
