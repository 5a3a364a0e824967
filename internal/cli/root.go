package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/lang/builtin"
)

const rootLong = `Uniflow serves workflows: nodes that are declared in YAML and joined by links.

Exit codes: 0 all is well; 1 the documents have findings; 2 the command line or
the config file cannot be used; 3 it could not be done, such as an address that
is in use. Data goes to standard output, everything else to standard error.`

const rootExample = `  uniflow init ping
  uniflow start --from-specs examples/ping.yaml
  uniflow check examples
  uniflow describe listener`

// root returns the tree of commands.
func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:           "uniflow",
		Short:         "Serve workflows declared in YAML",
		Long:          rootLong,
		Example:       rootExample,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.ArbitraryArgs,
		RunE:          runGroup,
	}
	root.Version = readVersion().text()
	root.SetVersionTemplate("{{.Version}}")
	root.SetArgs(a.args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(a.flagError)
	root.AddCommand(
		initCommand(a), startCommand(a), checkCommand(a), callCommand(a), evalCommand(a), formatCommand(a),
		listCommand(a), describeCommand(a), explainCommand(a), schemaCommand(a),
		profileCommand(a), loaderCommand(a), trailCommand(a),
		versionCommand(a), workerCommand(a),
	)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completeFlags(root)
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = cobra.ArbitraryArgs, runGroup
		for _, shell := range c.Commands() {
			shell.Args = noArgs
		}
	}
	return root
}

// runGroup is what a command does that has commands of its own and was given
// none of them.
func runGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return cmd.Help()
}

// helpCommand is the usual one, but for its exit code if there is no such
// command.
func helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), args[0])
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

func unknownCommand(group *cobra.Command, name string) error {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	hint := elsewhere[name]
	if hint == "" || group.HasParent() {
		hint = didYouMean(name, names, "")
	}
	return usagef(group.CommandPath(), hint, "unknown command %q", name)
}

// elsewhere is what commands of other programs are called here.
var elsewhere = map[string]string{
	"lint": "uniflow check finds what is wrong with documents", "validate": "uniflow check finds what is wrong with documents",
	"verify": "uniflow check finds what is wrong with documents", "vet": "uniflow check finds what is wrong with documents",
	"run": "uniflow start serves a workflow; uniflow call sends one payload to it", "serve": "uniflow start serves a workflow",
	"up": "uniflow start serves a workflow", "exec": "uniflow call sends a payload to a node; uniflow eval evaluates code",
	"test": "uniflow call sends a payload to a node; uniflow eval evaluates code", "try": "uniflow call sends a payload to a node; uniflow eval evaluates code",
	"new": "uniflow init writes a workflow to begin with", "create": "uniflow init writes a workflow to begin with",
	"format": "uniflow fmt writes documents in their form", "kinds": "uniflow list lists the kinds of nodes",
	"graph": "uniflow start --admin serves the nodes as JSON at /api/v1/nodes",
}

// completeFlags has shells complete the flags that take one of a few words.
func completeFlags(cmd *cobra.Command) {
	values := map[string]func() []string{
		"log-format": logFormats,
		"language":   func() []string { return builtin.Languages().Names() },
		"by":         func() []string { return []string{"node", "kind", "function"} },
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		list, ok := values[f.Name]
		if !ok || f.Name == "by" && cmd.Name() != "profile" {
			return
		}
		complete := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return list(), cobra.ShellCompDirectiveNoFileComp
		}
		_ = cmd.RegisterFlagCompletionFunc(f.Name, complete) // only fails if it was registered before
	})
	for _, below := range cmd.Commands() {
		completeFlags(below)
	}
}

// wrongValue says what a flag takes, in place of what Go's parser says. Flags of
// types of our own say so themselves.
func wrongValue(f *pflag.Flag, text string, err error) error {
	what := map[string]string{
		"duration": "a duration such as 5s, 300ms or 1m30s", "bool": "true or false", "int": "a whole number", "float64": "a number",
	}[f.Value.Type()]
	if what == "" {
		return err
	}
	return fmt.Errorf("want %s, got %q", what, text)
}

// flagError makes a usage error of what the flag parser complains about.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() && len(a.args) > 0 && !strings.HasPrefix(a.args[0], "-") {
		return unknownCommand(cmd, a.args[0]) // its flags are unknown for that reason
	}
	hint := ""
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f, text := invalid.GetFlag(), invalid.GetValue()
		if _, nan := strconv.ParseFloat(text, 64); nan == nil && f.Value.Type() == "duration" {
			hint = "write the unit: --" + f.Name + " " + text + "s"
		}
		if plain := wrongValue(f, text, nil); plain != nil {
			err = fmt.Errorf("--%s: %w", f.Name, plain)
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint = didYouMean(unknown.GetSpecifiedName(), names, "--")
	}
	return usagef(cmd.CommandPath(), hint, "%w", err)
}

// noArgs refuses arguments.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usagef(cmd.CommandPath(), "", "%s takes no arguments, got %q", cmd.Name(), args[0])
	}
	return nil
}

// oneArg demands one argument, called what.
func oneArg(what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch len(args) {
		case 0:
			return usagef(cmd.CommandPath(), hint, "%s needs a %s", cmd.Name(), what)
		case 1:
			return nil
		}
		return usagef(cmd.CommandPath(), "", "%s takes one %s, got %q too", cmd.Name(), what, args[1])
	}
}

// atMostOneArg is oneArg for an argument that may be left out.
func atMostOneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return usagef(cmd.CommandPath(), "", "%s takes one %s, got %q too", cmd.Name(), what, args[1])
		}
		return nil
	}
}

// words completes the first argument with words of a list.
func words(list func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list(), cobra.ShellCompDirectiveNoFileComp
	}
}
