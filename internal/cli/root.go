package cli

import (
	"errors"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

const rootLong = `Uniflow serves workflows: nodes that are declared in YAML and joined by links.

Exit codes: 0 all is well; 1 the documents have findings; 2 the command line or
the config file cannot be used; 3 it could not be done, such as an address that
is in use. Data goes to standard output, everything else to standard error.`

const rootExample = `  uniflow start --from-specs examples/ping.yaml
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
	root.SetArgs(a.args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(a.flagError)
	root.AddCommand(
		startCommand(a), checkCommand(a), formatCommand(a),
		listCommand(a), describeCommand(a), explainCommand(a), schemaCommand(a),
		profileCommand(a), loaderCommand(a), trailCommand(a),
		versionCommand(a),
	)
	root.SetHelpCommand(helpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
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
	return usagef(group.CommandPath(), didYouMean(name, names, ""), "unknown command %q", name)
}

// flagError makes a usage error of what the flag parser complains about.
func (a *app) flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() && len(a.args) > 0 && !strings.HasPrefix(a.args[0], "-") {
		return unknownCommand(cmd, a.args[0]) // its flags are unknown for that reason
	}
	hint := ""
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
