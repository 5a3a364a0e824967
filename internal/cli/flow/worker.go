package flow

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/lang/javascript"
)

const workerName = "script-worker"

// worker is the command line of a process that isolated scripts run in: nil if there
// is none. Workers inherit no environment, but dates are to be those of this process.
func (a commands) worker() []string {
	if a.Program == "" {
		return nil
	}
	return []string{a.Program, workerName, a.Getenv("TZ")}
}

// workerCommand is what the program runs of itself.
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
