package flow

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
)

// explained is what explain --json prints of a code.
type explained struct {
	Code        diag.Code `json:"code"`
	Title       string    `json:"title"`
	Explanation string    `json:"explanation"`
	Bad         string    `json:"bad,omitempty"`
	Good        string    `json:"good,omitempty"`
}

func explainCommand(a commands) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "explain [CODE]",
		Short:             "Explain the code of a finding",
		Long:              "Explain shows what a code such as F3001 means, an example that causes it, and how to fix it.\nWithout a code it lists all codes.",
		Example:           "  uniflow explain F3001\n  uniflow explain",
		Args:              app.AtMostOneArg("code"),
		ValidArgsFunction: app.CompleteWords(codes),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
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
