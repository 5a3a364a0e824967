// Package flow has the commands about workflows: to write, check, format, try and
// serve them, and to look up kinds and codes.
//
// Read [Commands] first, then sources.go (what a run reads), serve.go with watch.go (a
// program that serves until a signal ends it), and run.go (one that ends with its work).
//
// The package must not know how workflows are compiled or run.
package flow

import (
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

// commands are the commands of one run.
type commands struct{ *app.App }

// Commands returns the commands about workflows.
func Commands(shared *app.App) []*cobra.Command {
	a := commands{shared}
	return []*cobra.Command{
		initCommand(a), startCommand(a), runCommand(a), deadCommand(a), checkCommand(a), callCommand(a), mcpCommand(a), testCommand(a), evalCommand(a), formatCommand(a),
		listCommand(a), describeCommand(a), explainCommand(a), schemaCommand(a), openapiCommand(a), workerCommand(a),
	}
}

// kinds returns all kinds that documents may use. Expressions that name no language are
// in the given one.
func (a commands) kinds(language string) []*node.Def {
	return append(std.Defs(language, a.worker()...), a.Kinds...)
}

// completeDocuments completes arguments with files of documents, and folders.
func completeDocuments(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}
