package flow

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
)

// explained is what explain --json prints of a code.
type explained struct {
	Code        diag.Code `json:"code"`
	Title       string    `json:"title"`
	Explanation string    `json:"explanation"`
	Bad         string    `json:"bad,omitempty"`
	Good        string    `json:"good,omitempty"`
}

// explainedNode is one element of what explain --json prints of a workflow.
type explainedNode struct {
	Name      string          `json:"name"`
	Kind      string          `json:"kind"`
	Namespace string          `json:"namespace"`
	Place     string          `json:"place"`
	Links     []explainedLink `json:"links"`
}

type explainedLink struct {
	Out string `json:"out"`
	To  string `json:"to"`
	In  string `json:"in"`
}

const explainLong = `Explain shows what a code such as F3001 means, an example that causes it, and how to fix it.
Without a code it lists all codes. With files or folders it shows the nodes and links that the
documents are compiled to: those in sub-graphs and templates, too.`

func explainCommand(a commands) *cobra.Command {
	var asJSON bool
	s := settings.New()
	cmd := &cobra.Command{
		Use:               "explain [CODE | FILE...]",
		Short:             "Explain the code of a finding, or what a workflow is compiled to",
		Long:              explainLong,
		Example:           "  uniflow explain F3001\n  uniflow explain\n  uniflow explain flow.yaml",
		ValidArgsFunction: app.CompleteWords(codes),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	s.AddDocumentFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		documents := len(args) > 0 && isFile(args[0])
		if !documents {
			if err := app.AtMostOneArg("code")(cmd, args); err != nil {
				return err
			}
		}
		switch named := cmd.Flags().Changed(settings.FromSpecs) || cmd.Flags().Changed(settings.Config); {
		case named && len(args) > 0 && !documents:
			return app.Usagef(cmd.CommandPath(), "", "explain takes a code or files, not both")
		case named || documents:
			return a.explainWorkflow(cmd, s, args, asJSON)
		case len(args) == 0:
			return a.explainAll(asJSON)
		}
		e, ok := diag.Lookup(diag.Code(strings.ToUpper(args[0])))
		if !ok {
			hint := app.DidYouMean(strings.ToUpper(args[0]), codes(), "")
			if hint == "" {
				hint = "uniflow explain lists all codes"
			}
			return app.Usagef(cmd.CommandPath(), hint, "unknown code %q", args[0])
		}
		if asJSON {
			return a.PrintJSON(explained(e))
		}
		return a.Print(reference.Explain(e))
	}
	return cmd
}

// explainWorkflow prints nodes and links.
func (a commands) explainWorkflow(cmd *cobra.Command, s *settings.Settings, files []string, asJSON bool) error {
	if err := s.Resolve(a.App, cmd, files...); err != nil {
		return err
	}
	o, err := a.overview(cmd, s, len(files) == 0)
	if err != nil {
		return err
	}
	nodes := []explainedNode{}
	var text strings.Builder
	for _, outline := range o.outlines {
		links := make(map[string][]explainedLink)
		for _, l := range outline.Links {
			links[l.From.ID] = append(links[l.From.ID], explainedLink{l.Out, l.To.String(), l.In})
		}
		for _, n := range outline.Nodes {
			node := explainedNode{n.String(), n.Kind, n.Namespace, n.Pos.String(), append([]explainedLink{}, links[n.ID]...)}
			nodes = append(nodes, node)
			fmt.Fprintf(&text, "%s: %s, %s\n", node.Name, node.Kind, node.Place)
			for _, l := range node.Links {
				fmt.Fprintf(&text, "  %s -> %s.%s\n", l.Out, l.To, l.In)
			}
		}
	}
	if asJSON {
		return a.PrintJSON(nodes)
	}
	return a.Print(text.String())
}

func codes() []string {
	var codes []string
	for _, e := range diag.Catalogue() {
		codes = append(codes, string(e.Code))
	}
	return codes
}

func (a commands) explainAll(asJSON bool) error {
	if asJSON {
		all := []explained{}
		for _, e := range diag.Catalogue() {
			all = append(all, explained(e))
		}
		return a.PrintJSON(all)
	}
	var rows [][]string
	for _, e := range diag.Catalogue() {
		rows = append(rows, []string{string(e.Code), e.Title})
	}
	return a.Print(app.Columns(rows))
}
