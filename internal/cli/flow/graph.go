package flow

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/diagram"
)

const graphLong = `Graph draws the nodes and links of one namespace, from left to right, without tests and what only
these lead to. It prints SVG, which browsers and GitHub show in the light or dark colours of the
reader; --mermaid prints a flowchart for Markdown, --json what a program needs to draw it. Workflows
without a link between them are drawn below each other.
The same documents give the same picture. Nothing is started.`

const graphExample = `  uniflow graph flow.yaml > flow.svg
  uniflow graph flows --namespace billing --mermaid
  uniflow graph flow.yaml --closed --json`

func graphCommand(a commands) *cobra.Command {
	s := settings.New()
	var svg, asJSON, mermaid, closed bool
	cmd := &cobra.Command{
		Use:     "graph [FILE...]",
		Short:   "Draw the nodes and links of a workflow",
		Long:    graphLong,
		Example: graphExample,

		ValidArgsFunction: completeDocuments,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddDocumentFlags(cmd)
	flags.BoolVar(&svg, "svg", false, "print SVG, which is the default")
	flags.BoolVar(&mermaid, "mermaid", false, "print a flowchart of Mermaid")
	flags.BoolVar(&asJSON, "json", false, "print the nodes and links with their places as JSON")
	flags.BoolVar(&closed, "closed", false, "draw each sub-graph as one box")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		if len(s.Specs) == 0 {
			return app.Usagef(cmd.CommandPath(), "write graph FILE", "no files are named")
		}
		if err := app.AtMostOneFlag(cmd, "svg", "mermaid", "json"); err != nil {
			return err
		}
		o, err := a.overview(cmd, s, len(args) == 0)
		if err != nil {
			return err
		}
		var d diagram.Diagram
		for _, outline := range o.outlines {
			d.Add(diagram.Of(outline, s.Namespace, func(string) bool { return !closed }))
		}
		if len(d.Nodes) == 0 {
			return &app.ExitError{Code: app.ExitFindings, Err: fmt.Errorf("namespace %s has no nodes to draw", s.Namespace), Hint: o.elsewhere(s.Namespace)}
		}
		d.Hide(o.redact)
		switch {
		case asJSON:
			return a.PrintJSON(d)
		case mermaid:
			return a.Print(string(d.Mermaid()))
		}
		return a.Print(string(d.SVG(o.redact(strings.Join(s.Specs, ", ")))))
	}
	return cmd
}
