// Package trail has the commands about stores of events: trail import, query, info
// and the others.
//
// Read [Command] first. Each command opens a store, does one thing, and closes it.
//
// The package must not know how a store keeps events.
package trail

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/trail"
)

const groupLong = `Trail keeps events - who did what, and when - in a folder, the store, and answers
questions about them: how many users get from one step to the next (funnels), how many
come back (retention), how often something happens (segmentation), which way users take
(paths), and who they are (cohorts).

One program at a time may write to a store. Any number may read it meanwhile.`

const groupExample = `  uniflow trail import shop.trail examples/shop.csv
  uniflow trail query shop.trail funnel.yaml
  uniflow trail info shop.trail`

// commands are the commands of one run.
type commands struct{ *app.App }

// Command is the group of the commands about stores of events.
func Command(shared *app.App) *cobra.Command {
	a := commands{shared}
	cmd := &cobra.Command{
		Use:     "trail",
		Short:   "Keep events, and ask for funnels, retention and more",
		Long:    groupLong,
		Example: groupExample,
		Args:    cobra.ArbitraryArgs,
		RunE:    app.RunGroup,
	}
	cmd.AddCommand(
		importCommand(a), queryCommand(a), infoCommand(a), exportCommand(a),
		compactCommand(a), verifyCommand(a), discardCommand(a), deleteCommand(a), dropCommand(a),
	)
	return cmd
}

// flagDB names the store, in all commands of trail.
const flagDB = "db"

func dbFlag(cmd *cobra.Command, flags *pflag.FlagSet, db *string, made string) {
	flags.StringVar(db, flagDB, "", "the `FOLDER` of the store, instead of the first argument"+made)
	if err := cmd.MarkFlagDirname(flagDB); err != nil {
		panic(err) // the flag was added above
	}
}

// takeStore takes the store from the first argument, unless it was named by --db, and
// returns the other arguments.
func takeStore(cmd *cobra.Command, db *string, args []string) (rest []string, err error) {
	if *db != "" {
		return args, nil
	}
	name, files, _ := strings.Cut(cmd.Use, " FOLDER")
	hint := "write " + name + " shop.trail" + files
	if len(args) == 0 {
		return nil, app.Usagef(cmd.CommandPath(), hint, "no store is named")
	}
	if info, err := os.Stat(args[0]); err == nil && info.Mode().IsRegular() {
		return nil, app.Usagef(cmd.CommandPath(), hint, "no store is named: %s is a file", args[0])
	}
	*db = args[0]
	return args[1:], nil
}

// extraHint says why a command has an argument too many.
func extraHint(cmd *cobra.Command) string {
	if cmd.Flags().Changed(flagDB) {
		return "--db names the store already: leave out one of the two"
	}
	if name, flag, ok := strings.Cut(cmd.Use, " --"); ok {
		return "write " + strings.Replace(name, "FOLDER", "shop.trail", 1) + " --" + flag
	}
	return ""
}

// completeStore completes the first argument with folders, and the others with files
// of the given extensions.
func completeStore(extensions ...string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(args) == 0 && !cmd.Flags().Changed(flagDB):
			return nil, cobra.ShellCompDirectiveFilterDirs
		case len(extensions) == 0:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// openTrail opens a store whose warnings go to standard error.
func (a commands) openTrail(dir string, o trail.Options) (*trail.Store, error) {
	t := newWarningHandler(a.Talk)
	o.Log = slog.New(t)
	s, err := trail.Open(dir, o)
	switch {
	case err == nil:
		t.open()
		return s, nil
	case errors.Is(err, trail.ErrNoStore):
		return nil, noStoreError(dir, err)
	}
	return nil, StoreError(err)
}

// withTrail opens a store, runs f until it returns or a signal comes, and closes the
// store.
func (a commands) withTrail(ctx context.Context, dir string, o trail.Options, f func(context.Context, *trail.Store) error) error {
	return a.Interruptible(ctx, func(ctx context.Context) error {
		s, err := a.openTrail(dir, o)
		if err != nil {
			return err
		}
		return StoreError(errors.Join(f(ctx, s), s.Close()))
	})
}

// StoreError adds what to do about an error of a store.
func StoreError(err error) error {
	var locked *trail.LockedError
	if errors.As(err, &locked) {
		return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "one program at a time may write to a store: end the other one, or wait for it; queries are possible meanwhile"}
	}
	return err
}

// noStoreError ends a command that found no store, or one without its list of
// segments.
func noStoreError(dir string, err error) error {
	hint := "trail import makes a store"
	if found, globErr := filepath.Glob(filepath.Join(dir, "segments", "*.seg")); globErr == nil && len(found) > 0 {
		hint = "there are segments, but the list of them is missing: trail compact --rebuild makes a new one"
	}
	return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: hint}
}
