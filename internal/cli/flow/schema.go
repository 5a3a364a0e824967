package flow

import (
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/node"
)

const schemaLong = `Schema prints a JSON Schema (draft 2020-12) of documents, or of one kind of node, for
editors that complete and validate YAML. With -f it knows the templates in documents, too.
Uniflow check finds more errors than a schema can.`

const schemaExample = `  uniflow schema > uniflow.schema.json
  uniflow schema listener
  uniflow schema -f kinds.yaml`

func schemaCommand(a commands) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "schema [KIND]",
		Short:             "Print a JSON Schema of documents",
		Long:              schemaLong,
		Example:           schemaExample,
		Args:              app.AtMostOneArg("kind"),
		ValidArgsFunction: app.CompleteWords(a.kindNames),
	}
	files := templateFlag(cmd)
	// Other commands have the flag, too.
	cmd.Flags().Bool("json", true, "print JSON, which is the only format")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		defs, err := a.sortedKinds(cmd.CommandPath(), files)
		if err != nil {
			return err
		}
		if len(args) > 0 {
			def, err := kind(cmd.CommandPath(), defs, args[0])
			if err != nil {
				return err
			}
			defs = []*node.Def{def}
		}
		text, err := reference.Schema(defs)
		if err != nil {
			return err
		}
		return a.Print(string(text))
	}
	return cmd
}
