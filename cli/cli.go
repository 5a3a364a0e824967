// Package cli is the command uniflow for programs that have kinds of their own:
// start, check, fmt, list, describe, schema and the rest know these as they know
// those of package std.
//
//	func main() {
//		os.Exit(cli.Main(context.Background(), os.Args[1:], kinds()...))
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
)

// Main runs a command line, without the program's name, and returns its exit code.
// Documents may use the kinds beside those of package std; one that is described
// badly or has the name of another keeps check and start from working, with a
// message. When ctx ends, a program that serves shuts down as upon SIGTERM.
//
// If args are those of the process, scripts can be isolated: then the executable is
// started again for each process that such a script runs in, so a program should call
// Main before it does anything else.
//
// It reads the environment, standard input and signals of the process, and writes to
// its standard output and error. Time zones of queries are those of the system;
// import time/tzdata for others.
func Main(ctx context.Context, args []string, kinds ...*node.Def) (code int) {
	machine := app.System()
	machine.Kinds = kinds
	if !slices.Equal(args, os.Args[1:]) {
		machine.Program = "" // it might not get here with the arguments of a worker
	}
	return cli.Main(ctx, args, machine)
}
