package flow

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/lang/javascript"
)

const workerName = "script-worker"

// worker is the command line of a process for isolated scripts; nil if there is none.
// Workers do not inherit the environment, so they are passed the time zone.
func (a commands) worker() []string {
	if a.Program == "" {
		return nil
	}
	return []string{a.Program, workerName, a.Getenv("TZ")}
}

// workerCommand is the command that the program starts itself with.
func workerCommand(a commands) *cobra.Command {
	return &cobra.Command{
		Use:    workerName + " TZ",
		Short:  "Evaluate an isolated script for another process of this program",
		Hidden: true,
		Args:   app.OneArg("time zone", ""),
		RunE: func(_ *cobra.Command, args []string) error {
			if args[0] != "" {
				if err := os.Setenv("TZ", args[0]); err != nil { // the zone is looked up when it is first used
					return err
				}
			}
			return javascript.Serve(a.Stdin, a.Stdout)
		},
	}
}
