package cli

import (
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

func versionCommand(a *app.App) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Long:    "Version prints the version of the program, and what it was built with.",
		Example: "  uniflow version --json",
		Args:    app.NoArgs,
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(*cobra.Command, []string) error {
		v := app.ReadBuild()
		if asJSON {
			return a.PrintJSON(v)
		}
		return a.Print(v.Text())
	}
	return cmd
}
