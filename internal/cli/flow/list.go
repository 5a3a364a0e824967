package flow

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/node"
)

// listedKind is one element of what list --json prints.
type listedKind struct {
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
}

func listCommand(a commands) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the kinds of nodes",
		Long:    "List prints every kind of node with a one-line description.",
		Example: "  uniflow list\n  uniflow list --json",
		Args:    app.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		if asJSON {
			kinds := []listedKind{}
			for _, def := range a.sortedKinds() {
				kinds = append(kinds, listedKind{def.Kind, def.Summary})
			}
			return a.PrintJSON(kinds)
		}
		var rows [][]string
		for _, def := range a.sortedKinds() {
			rows = append(rows, []string{def.Kind, def.Summary})
		}
		return a.Print(app.Columns(rows))
	}
	return cmd
}

// sortedKinds returns the kinds by name.
func (a commands) sortedKinds() []*node.Def {
	defs := a.kinds("")
	slices.SortFunc(defs, func(a, b *node.Def) int { return strings.Compare(a.Kind, b.Kind) })
	return defs
}

func (a commands) kindNames() []string {
	var names []string
	for _, def := range a.sortedKinds() {
		names = append(names, def.Kind)
	}
	return names
}

// kind finds a kind by name.
func (a commands) kind(command, name string) (*node.Def, error) {
	for _, def := range a.sortedKinds() {
		if def.Kind == name {
			return def, nil
		}
	}
	hint := app.DidYouMean(name, a.kindNames(), "")
	if hint == "" {
		hint = "uniflow list shows all kinds"
	}
	return nil, app.Usagef(command, hint, "unknown kind %q", name)
}
