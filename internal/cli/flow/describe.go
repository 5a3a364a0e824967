package flow

import (
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
)

func describeCommand(a commands) *cobra.Command {
	var asJSON, asMarkdown bool
	cmd := &cobra.Command{
		Use:               "describe KIND",
		Short:             "Describe a kind of node",
		Long:              "Describe shows what a kind of node does: its fields, its ports, and an example.\nWith -f it knows the templates in documents, too.",
		Example:           "  uniflow describe listener\n  uniflow describe --json snippet\n  uniflow describe greeting -f kinds.yaml",
		Args:              app.OneArg("kind", "uniflow list shows all kinds"),
		ValidArgsFunction: app.CompleteWords(a.kindNames),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.Flags().BoolVar(&asMarkdown, "markdown", false, "print a page in Markdown")
	files := templateFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := app.AtMostOneFlag(cmd, "json", "markdown"); err != nil {
			return err
		}
		defs, err := a.sortedKinds(cmd.CommandPath(), files)
		if err != nil {
			return err
		}
		def, err := kind(cmd.CommandPath(), defs, args[0])
		switch {
		case err != nil:
			return err
		case asJSON:
			return a.PrintJSON(reference.Describe(def))
		case asMarkdown:
			return a.Print(reference.Page(def))
		}
		return a.Print(reference.Describe(def).Text())
	}
	return cmd
}
