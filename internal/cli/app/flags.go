package app

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// A Size is a flag of a number of bytes, above 0.
type Size int64

func (s *Size) String() string { return show.Size(float64(*s)) }

// Set reads a size.
func (s *Size) Set(text string) error {
	n, ok := show.ParseSize(text)
	if !ok || n < 1 || n != math.Trunc(n) || n > 1<<53 {
		return errors.New("must be a number of bytes above 0, such as 65536, 64KiB or 8MiB")
	}
	*s = Size(n)
	return nil
}

// Type is the placeholder in the help.
func (*Size) Type() string { return "SIZE" }

// WrongValue says which values a flag takes, instead of what Go's parser says. Flags
// of types of our own say so themselves.
func WrongValue(f *pflag.Flag, text string, err error) error {
	what := map[string]string{
		"duration": "a duration such as 5s, 300ms or 1m30s", "bool": "true or false", "int": "a whole number", "float64": "a number",
	}[f.Value.Type()]
	if what == "" {
		return err
	}
	return fmt.Errorf("must be %s, got %q", what, text)
}

// OneOf refuses a value of a flag that is not one of its words.
func OneOf(command, flag, value string, words []string) error {
	if slices.Contains(words, value) {
		return nil
	}
	last := len(words) - 1
	list := strings.Join(words[:last], ", ") + " or " + words[last]
	return Usagef(command, DidYouMean(value, words, ""), "--%s must be %s, got %q", flag, list, value)
}

// NotNegative refuses a negative duration of a flag.
func NotNegative(command, flag string, d time.Duration) error {
	if d < 0 {
		return Usagef(command, "", "--%s must not be negative, got %s", flag, d)
	}
	return nil
}

// CompleteFlag completes a flag with words of a list.
func CompleteFlag(cmd *cobra.Command, flag string, words []string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag is missing, or has one already
	}
}

// OldShorthand keeps the shorthand of a flag for one version: help leaves it out, and its use
// is remarked on standard error. instead says what to write.
func (a *App) OldShorthand(flags *pflag.FlagSet, name, instead string) {
	flags.Lookup(name).ShorthandDeprecated = instead + "; a later version refuses the shorthand"
	flags.SetOutput(a.Stderr)
}

// NoArgs refuses arguments.
func NoArgs(cmd *cobra.Command, args []string) error { return RefuseArgs("")(cmd, args) }

// RefuseArgs is [NoArgs] with a hint at the command that takes them.
func RefuseArgs(hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return Usagef(cmd.CommandPath(), hint, "%s takes no arguments, got %q", cmd.Name(), args[0])
		}
		return nil
	}
}

// OneArg requires one argument, called what.
func OneArg(what, hint string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return Usagef(cmd.CommandPath(), hint, "%s needs a %s", cmd.Name(), what)
		}
		return AtMostOneArg(what)(cmd, args)
	}
}

// AtMostOneArg is [OneArg] for an optional argument.
func AtMostOneArg(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return Usagef(cmd.CommandPath(), "", "%s takes one %s, got %q too", cmd.Name(), what, args[1])
		}
		return nil
	}
}

// CompleteWords completes the first argument with words of a list.
func CompleteWords(list func() []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return list(), cobra.ShellCompDirectiveNoFileComp
	}
}
