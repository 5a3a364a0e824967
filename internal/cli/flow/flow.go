// Package flow has the commands about workflows: to write, check, format, try and
// serve them, and to look up kinds and codes.
//
// Read [Commands] first, then sources.go (what a run reads), serve.go with watch.go (a
// program that serves until a signal ends it), and run.go (one that ends with its work).
//
// The package must not know how workflows are compiled or run.
package flow

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// commands are the commands of one run.
type commands struct{ *app.App }

// Commands returns the commands about workflows.
func Commands(shared *app.App) []*cobra.Command {
	a := commands{shared}
	return []*cobra.Command{
		initCommand(a), startCommand(a), runCommand(a), runsCommand(a), queuesCommand(a), deadCommand(a), journalCommand(a), checkCommand(a), callCommand(a), mcpCommand(a), testCommand(a), evalCommand(a), formatCommand(a),
		listCommand(a), describeCommand(a), explainCommand(a), graphCommand(a), schemaCommand(a), openapiCommand(a), lspCommand(a), workerCommand(a), confineCommand(a),
	}
}

// kinds returns all kinds that documents may use. Expressions that name no language are
// in the given one.
func (a commands) kinds(language string) []*node.Def {
	return std.DefsAnd(a.Kinds, language, a.worker()...)
}

// templates returns the kinds by which documents declare kinds.
func (a commands) templates() func(kind string) bool {
	kinds := make(map[string]bool)
	for _, def := range a.kinds("") {
		if def.Subgraph == node.SubgraphTemplate {
			kinds[def.Kind] = true
		}
	}
	return func(kind string) bool { return kinds[kind] }
}

// filesAndNode separates files from the name of a node. The last of several arguments is a
// name if it does not look like a path, and there is no such file.
func filesAndNode(args []string) (files, name []string) {
	if len(args) < 2 {
		return args, nil
	}
	last := args[len(args)-1]
	if isFile(last) || filepath.Base(last) != last {
		return args, nil
	}
	return args[:len(args)-1], args[len(args)-1:]
}

// resolve resolves the settings of a command that takes files and the name of a node. Without a
// file among the arguments, the documents are those of the settings.
func (a commands) resolve(cmd *cobra.Command, s *settings.Settings, args []string) (name []string, err error) {
	files, name := filesAndNode(args)
	single := len(args) == 1 && !isFile(args[0]) && filepath.Base(args[0]) == args[0]
	if single {
		files, name = nil, args
	}
	if err := s.Resolve(a.App, cmd, files...); err != nil {
		return nil, err
	}
	if single && len(s.Specs) == 0 {
		s.Specs, name = args, nil // then it is a file that is not there
	}
	if len(s.Specs) == 0 {
		return nil, app.Usagef(cmd.CommandPath(), "write "+cmd.Name()+" FILE, or "+cmd.Name()+" FILE NODE", "%s takes files, and maybe the name of a node, got no file", cmd.Name())
	}
	return name, nil
}

// isFile reports whether an argument stands for documents: there is such a file or folder, it has the
// extension of one, or it is standard input.
func isFile(arg string) bool {
	_, err := os.Stat(arg)
	return err == nil || arg == app.StdinPath || slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(arg))
}

// completeFilesAndNode completes files, and after the first one the names of the nodes of the
// files as well.
func completeFilesAndNode(cmd *cobra.Command, args []string, word string) (names []string, directive cobra.ShellCompDirective) {
	if len(args) == 0 {
		return completeDocuments(cmd, args, word)
	}
	if slices.Contains(args, app.StdinPath) {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	docs, _ := spec.Read(args, nil) // the command reports the errors
	for _, doc := range docs {
		specs, _ := spec.Parse(doc, spec.ParseOptions{})
		for _, s := range specs {
			if s.Name != "" {
				names = append(names, s.Name)
			}
		}
	}
	return names, cobra.ShellCompDirectiveDefault
}

// completeDocuments completes arguments with files of documents, and folders.
func completeDocuments(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return []string{"yaml", "yml", "json"}, cobra.ShellCompDirectiveFilterFileExt
}
