package flow

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/external"
)

const confineName = "program-worker"

// programs decides whether nodes may start programs.
func (a commands) programs(s *settings.Settings) *node.Programs {
	if !s.AllowExec {
		return nil
	}
	if a.Program == "" {
		return node.AllowPrograms()
	}
	return node.AllowPrograms(a.Program, confineName)
}

// ofDrafts decides for documents that a client of the admin server has sent, and that are tested or tried: their
// author may be anyone who has the token, and what he may do here is not what a shell can.
func ofDrafts() *node.Programs {
	return node.RefusePrograms(errors.New("drafts never start programs: give the node a pin or a mock"))
}

// checkPlugins refuses to run kinds of folders without the permission to start programs.
func checkPlugins(command string, s *settings.Settings) error {
	if len(s.Plugins) > 0 && !s.AllowExec {
		return app.Usagef(command, "add --allow-exec if you trust what is in the folders", "--plugins runs programs, which --allow-exec has to permit")
	}
	return nil
}

// confineCommand is the command that the program starts itself with, to become another program with fewer rights.
func confineCommand(a commands) *cobra.Command {
	return &cobra.Command{
		Use:    confineName + " LIMITS",
		Short:  "Limit this process, and run a program in it",
		Hidden: true,
		Args:   app.OneArg("limits", ""),
		RunE:   func(_ *cobra.Command, args []string) error { return external.Confine(args[0]) },
	}
}
