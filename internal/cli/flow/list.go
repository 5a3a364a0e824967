package flow

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/registry"
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
		Long:    "List prints every kind of node with a one-line description, and with -f the templates in documents.",
		Example: "  uniflow list\n  uniflow list --json\n  uniflow list -f kinds.yaml",
		Args:    app.RefuseArgs("uniflow describe KIND shows the fields and ports of a kind"),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	files := templateFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		defs, err := a.sortedKinds(cmd.CommandPath(), files)
		if err != nil {
			return err
		}
		if asJSON {
			kinds := []listedKind{}
			for _, def := range defs {
				kinds = append(kinds, listedKind{def.Kind, def.Summary})
			}
			return a.PrintJSON(kinds)
		}
		var rows [][]string
		for _, def := range defs {
			rows = append(rows, []string{def.Kind, def.Summary})
		}
		return a.Print(app.Columns(rows))
	}
	return cmd
}

// templateFlag adds the flags that name documents which declare kinds.
func templateFlag(cmd *cobra.Command) *declaring {
	d := new(declaring)
	cmd.Flags().StringArrayVarP(&d.files, "from-specs", "f", nil, "a `file` with templates of kinds, or a folder; repeatable, - is standard input")
	cmd.Flags().StringArrayVar(&d.plugins, settings.Plugins, nil, "a `folder` with folders that have a kind.yaml; repeatable")
	return d
}

// declaring are documents that declare kinds.
type declaring struct{ files, plugins []string }

// sortedKinds returns the kinds by name, with the templates in some files.
func (a commands) sortedKinds(command string, of *declaring) ([]*node.Def, error) {
	s := settings.New()
	s.Specs, s.Plugins = of.files, of.plugins
	r, err := newReading(command, s, a.App)
	if err != nil {
		return nil, err
	}
	src, list, err := r.read()
	if err != nil {
		return nil, err
	}
	engine, err := uniflow.New(uniflow.Options{Kinds: a.kinds("")})
	if err != nil {
		return nil, err
	}
	defs, found := engine.Kinds(uniflow.Source{Documents: src.specs})
	list.Append(found)
	if list.HasErrors() {
		return nil, a.showFindings(list, src)
	}
	return defs, nil
}

func (a commands) kindNames() []string {
	var names []string
	for _, def := range a.kinds("") {
		names = append(names, def.Kind)
	}
	slices.Sort(names)
	return names
}

// kind finds a kind by name.
func kind(command string, defs []*node.Def, name string) (*node.Def, error) {
	var names []string
	for _, def := range defs {
		if def.Kind == name {
			return def, nil
		}
		names = append(names, def.Kind)
	}
	hint := registry.Elsewhere(name)
	if hint == "" {
		hint = app.DidYouMean(name, names, "")
	}
	if hint == "" {
		hint = "uniflow list shows all kinds; templates need -f FILE, kinds of a folder --plugins FOLDER"
	}
	return nil, app.Usagef(command, hint, "unknown kind %q", name)
}
