package app

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Root makes the root of a tree of commands. Hints are what to say about the commands
// of other programs, by their names.
func (a *App) Root(root *cobra.Command, hints map[string]string, commands ...*cobra.Command) *cobra.Command {
	root.SilenceUsage, root.SilenceErrors = true, true
	root.Args = cobra.ArbitraryArgs
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return unknownCommand(cmd, args[0], hints[args[0]])
		}
		return cmd.Help()
	}
	root.Version = ReadBuild().Text()
	root.SetVersionTemplate("{{.Version}}")
	root.SetArgs(a.Args)
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		if !cmd.HasParent() && len(a.Args) > 0 && !strings.HasPrefix(a.Args[0], "-") {
			return unknownCommand(cmd, a.Args[0], hints[a.Args[0]]) // that is why its flags are unknown
		}
		return flagError(cmd, err)
	})
	root.AddCommand(commands...)
	root.SetHelpCommand(helpCommand(hints))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.Name() != "completion" {
			continue
		}
		c.Args, c.RunE = cobra.ArbitraryArgs, RunGroup
		for _, shell := range c.Commands() {
			shell.Args = NoArgs
		}
	}
	return root
}

// RunGroup is the action of a command that only has commands of its own.
func RunGroup(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0], "")
	}
	return cmd.Help()
}

// helpCommand differs from cobra's in its exit code if the command is unknown.
func helpCommand(hints map[string]string) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Print the help of a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			target, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return unknownCommand(cmd.Root(), args[0], hints[args[0]])
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

func unknownCommand(group *cobra.Command, name, hint string) error {
	var names []string
	for _, c := range group.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if hint == "" {
		hint = DidYouMean(name, names, "")
	}
	return Usagef(group.CommandPath(), hint, "unknown command %q", name)
}

// flagError makes a usage error of an error of the flag parser.
func flagError(cmd *cobra.Command, err error) error {
	hint := ""
	var invalid *pflag.InvalidValueError
	if errors.As(err, &invalid) {
		f, text := invalid.GetFlag(), invalid.GetValue()
		if _, nan := strconv.ParseFloat(text, 64); nan == nil && f.Value.Type() == "duration" {
			hint = "write the unit: --" + f.Name + " " + text + "s"
		}
		if plain := WrongValue(f, text, nil); plain != nil {
			err = fmt.Errorf("--%s: %w", f.Name, plain)
		}
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) && unknown.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		hint = DidYouMean(unknown.GetSpecifiedName(), names, "--")
	}
	return Usagef(cmd.CommandPath(), hint, "%w", err)
}
