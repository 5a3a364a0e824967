// Package cli is the command uniflow: the root of its commands, and the page of the
// reference about them.
//
// Read [Main] first. The commands are in the folders below, by product: flow has
// those about workflows, profile, top, loader and trail have one command each with
// what belongs to it, settings is what commands read from flags, the environment
// and the config file, and app is what all of them share. Package reference writes the
// pages about kinds and codes.
//
// The package must not know what any command does.
package cli

import (
	"context"
	"io"
	"log"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/build"
	"github.com/uniflow-labs/uniflow/internal/cli/dap"
	"github.com/uniflow-labs/uniflow/internal/cli/debugger"
	"github.com/uniflow-labs/uniflow/internal/cli/flow"
	"github.com/uniflow-labs/uniflow/internal/cli/loader"
	"github.com/uniflow-labs/uniflow/internal/cli/profile"
	"github.com/uniflow-labs/uniflow/internal/cli/top"
	"github.com/uniflow-labs/uniflow/internal/cli/trail"
)

const rootLong = `Uniflow serves workflows: nodes that are declared in YAML and joined by links.

Data goes to standard output, everything else to standard error. Exit codes:
`

const rootExample = `  uniflow init ping
  uniflow start examples/ping.yaml
  uniflow check examples
  uniflow describe listener`

// Main runs a command line, without the program's name, and returns its exit code.
// When ctx ends, a program that serves shuts down as upon SIGTERM.
func Main(ctx context.Context, args []string, sys app.Machine) int {
	// net/http prints there what a service sends unasked: data of anyone, with no
	// secret hidden, and not in the form of our log.
	log.SetOutput(io.Discard)
	return app.Main(ctx, args, sys, root)
}

// root returns the tree of commands.
func root(a *app.App) *cobra.Command {
	all := append(flow.Commands(a), profile.Command(a), loader.Command(a), trail.Command(a), readyCommand(a), build.Command(a), top.Command(a), debugger.Command(a), dap.Command(a), versionCommand(a))
	return a.Root(&cobra.Command{Use: "uniflow", Short: "Serve workflows declared in YAML", Long: rootLong + indent(app.Columns(app.ExitCodes())), Example: rootExample}, foreignCommands, all...)
}

// foreignCommands says how to do what commands of other programs do.
var foreignCommands = map[string]string{
	"lint": "uniflow check finds errors in documents", "validate": "uniflow check finds errors in documents",
	"verify": "uniflow check finds errors in documents", "vet": "uniflow check finds errors in documents",
	"run": "uniflow start serves a workflow; uniflow call sends one payload to it", "serve": "uniflow start serves a workflow",
	"up": "uniflow start serves a workflow", "exec": "uniflow call sends a payload to a node; uniflow eval evaluates code",
	"try": "uniflow call sends a payload to a node; uniflow eval evaluates code",
	"new": "uniflow init writes an example workflow", "create": "uniflow init writes an example workflow",
	"format": "uniflow fmt formats documents", "kinds": "uniflow list lists the kinds of nodes",
	"redrive": "uniflow dead requeue sends dead letters through the workflow again", "replay": "uniflow dead requeue sends dead letters through the workflow again",
	"draw": "uniflow graph draws a workflow", "dot": "uniflow graph draws a workflow", "viz": "uniflow graph draws a workflow",
}
