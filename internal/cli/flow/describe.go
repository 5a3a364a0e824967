package flow

import (
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
)

func describeCommand(a commands) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "describe KIND",
		Short:             "Describe a kind of node",
		Long:              "Describe shows what a kind of node does: its fields, its ports, and an example.",
		Example:           "  uniflow describe listener\n  uniflow describe --json snippet",
		Args:              app.OneArg("kind", "uniflow list shows all kinds"),
		ValidArgsFunction: app.CompleteWords(a.kindNames),
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		def, err := a.kind(cmd.CommandPath(), args[0])
		if err != nil {
			return err
		}
		if asJSON {
			return a.PrintJSON(reference.Describe(def))
		}
		return a.Print(reference.Describe(def).Text())
	}
	return cmd
}
