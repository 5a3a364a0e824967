package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/node"
)

// listedKind is one element of what list --json prints.
type listedKind struct {
	Kind    string `json:"kind"`
	Summary string `json:"summary"`
}

func listCommand(a *app) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the kinds of nodes",
		Long:    "List prints every kind of node with a sentence about it.",
		Example: "  uniflow list\n  uniflow list --json",
		Args:    noArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		if asJSON {
			kinds := []listedKind{}
			for _, def := range a.sortedKinds() {
				kinds = append(kinds, listedKind{def.Kind, def.Summary})
			}
			return a.printJSON(kinds)
		}
		var rows [][]string
		for _, def := range a.sortedKinds() {
			rows = append(rows, []string{def.Kind, def.Summary})
		}
		return a.print(columns(rows))
	}
	return cmd
}

// sortedKinds returns the kinds by name.
func (a *app) sortedKinds() []*node.Def {
	defs := a.kinds("")
	slices.SortFunc(defs, func(a, b *node.Def) int { return strings.Compare(a.Kind, b.Kind) })
	return defs
}

func (a *app) kindNames() []string {
	var names []string
	for _, def := range a.sortedKinds() {
		names = append(names, def.Kind)
	}
	return names
}

// kind finds a kind by name.
func (a *app) kind(command, name string) (*node.Def, error) {
	for _, def := range a.sortedKinds() {
		if def.Kind == name {
			return def, nil
		}
	}
	hint := didYouMean(name, a.kindNames(), "")
	if hint == "" {
		hint = "uniflow list shows all kinds"
	}
	return nil, usagef(command, hint, "unknown kind %q", name)
}

// columns aligns rows of cells.
func columns(rows [][]string) string {
	var t show.Table
	for range rows[0] {
		t.Text("")
	}
	for _, row := range rows {
		t.Row(row...)
	}
	return t.Body()
}
