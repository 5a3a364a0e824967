package flow

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/admin"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
)

const startLong = `Start serves the workflow in the given files and folders until SIGTERM or SIGINT.
Then it accepts no new work, waits for running processes for up to --grace, and exits
with 0, or with 3 if they took longer. It always ends within the grace period and one
second. A second signal ends it immediately, with 130 (SIGINT) or 143 (SIGTERM).

SIGHUP reloads the documents, and --watch does so whenever they change. A new
generation of nodes starts, takes over, and the old one finishes its processes. If the
documents have errors, nothing changes and the log lists them. If a sound document
cannot be started, for example because a port is in use, start tries again at intervals
of 1 s to 1 min.

Every setting comes from its flag, else from an environment variable (UNIFLOW_ and the
flag in capitals, such as UNIFLOW_FROM_SPECS or UNIFLOW_ADMIN_TOKEN; separate paths as in
PATH, put each KEY=VALUE on a line), else from the config file, which is YAML with the
names of the flags as keys. Profiles and --debug-nodes have flags only.

The admin server has the console at /, /healthz, /readyz, /metrics for Prometheus,
/debug/pprof/, and /api/v1/, which lists the rest. Without a token it only listens on loopback
addresses. "uniflow profile ADDRESS" gets a CPU profile from it. --console prints an address
of it that a browser opens; that browser may do all, others on this machine may look only.`

const startExample = `  uniflow start examples/ping.yaml
  uniflow start flows --watch --console
  uniflow start flows --from-values secrets.yaml --watch --admin 127.0.0.1:9000
  generate | uniflow start - -e REGION=eu`

// startOptions are the settings and flags of start.
type startOptions struct {
	*settings.Settings
	debugNodes []string
	profiles   profiles
}

func startCommand(a commands) *cobra.Command {
	o := &startOptions{Settings: settings.New()}
	cmd := &cobra.Command{
		Use:               "start FILE...",
		Short:             "Serve a workflow",
		Long:              startLong,
		Example:           startExample,
		ValidArgsFunction: completeDocuments,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.AddFlags(cmd)
	a.OldShorthand(flags, settings.Watch, "write --watch: -w is --write")
	flags.StringSliceVar(&o.debugNodes, flagDebugNodes, nil, "log the packets of these `NODES`, names separated by commas; \"*\" for all. Secrets from env and in headers are hidden")
	o.profiles.addFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := o.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		return a.start(cmd.Context(), cmd.CommandPath(), o)
	}
	return cmd
}

// check refuses options that cannot be used, before anything is started.
func (o *startOptions) check(command string) error {
	if len(o.Specs) == 0 {
		return app.Usagef(command, "write start FILE, or set "+settings.Variable(settings.FromSpecs)+", or from-specs in "+settings.ConfigFile,
			"nothing to serve: no specs are named")
	}
	if err := app.OneOf(command, "log-format", o.LogFormat, app.LogFormats()); err != nil {
		return err
	}
	if err := app.OneOf(command, "recover", o.Recover, settings.Recoveries()); err != nil {
		return err
	}
	if o.Recover != settings.Recoveries()[0] && o.Journal == "" {
		return app.Usagef(command, "write --journal sqlite:FILE, too", "--recover is for what a journal has, and there is none")
	}
	if err := checkPlugins(command, o.Settings); err != nil {
		return err
	}
	if err := app.NotNegative(command, "grace", o.Grace); err != nil {
		return err
	}
	if err := checkTelemetry(command, o.Settings); err != nil {
		return err
	}
	if o.Console && o.Admin == "" {
		o.Admin = consoleAddress
	}
	if o.Keep > 0 && o.Admin == "" {
		return app.Usagef(command, "write --console --keep SIZE, or --admin ADDRESS --keep SIZE", "--keep is for clients of the admin server, which does not run")
	}
	if o.Edit && o.Admin == "" {
		return app.Usagef(command, "write --console --edit, or --admin ADDRESS --edit", "--edit is for clients of the admin server, which does not run")
	}
	if err := app.OneOf(command, "admin-scope", o.AdminScope, api.ScopeNames()); err != nil {
		return err
	}
	if o.Admin != "" {
		if err := admin.CheckAddress(o.Admin, o.AdminToken+o.AdminViewToken); err != nil {
			return app.Usagef(command, adminHint(err), "--admin: %w", err)
		}
	}
	return nil
}

// consoleAddress is where the console is without --admin.
const consoleAddress = "127.0.0.1:9000"

func adminHint(err error) string {
	if errors.Is(err, admin.ErrNoToken) {
		return "listen on 127.0.0.1, or set UNIFLOW_ADMIN_TOKEN or --admin-token"
	}
	return "write an address such as 127.0.0.1:9000"
}

// start serves until a signal ends it, and writes the profiles in any case.
func (a commands) start(ctx context.Context, command string, o *startOptions) error {
	if err := o.check(command); err != nil {
		return err
	}
	r, err := newReading(command, o.Settings, a.App)
	if err != nil {
		return err
	}
	defer a.bound(o.Settings)()
	return o.profiles.during(func() error { return a.serve(ctx, o, r) })
}
