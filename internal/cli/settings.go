package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// settings are the flags that several commands share.
type settings struct {
	specs, values, environment []string
	namespace, language        string
	config                     string
}

const (
	flagSpecs       = "from-specs"
	flagValues      = "from-values"
	flagEnvironment = "environment"
	flagConfig      = "config"
)

// addFlags adds the shared flags to a command.
func (s *settings) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&s.specs, flagSpecs, nil, "read specs from `FILE`, a folder, or \"-\" for standard input; may be repeated")
	flags.StringArrayVar(&s.values, flagValues, nil, "read variables from `FILE`, a folder, or \"-\"; may be repeated")
	flags.StringArrayVarP(&s.environment, flagEnvironment, "e", nil, "bind `KEY=VALUE` for env entries that name no variable; may be repeated")
	flags.StringVarP(&s.namespace, "namespace", "n", "default", "`NAMESPACE` of specs that name none, and the one that is served")
	flags.StringVar(&s.language, "language", "cel", "`LANGUAGE` of expressions that name none")
	flags.StringVar(&s.config, flagConfig, "", "read settings from `FILE`; "+configFile+" in the working folder if there is one")
}

// variable is the environment variable that stands for a flag.
func variable(flag string) string {
	return "UNIFLOW_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// layered reports whether a flag may also be set by the environment and by the
// config file. Profiles and what only shapes the output are asked for one run at
// a time.
func layered(flag string) bool {
	_, ok := configFields().find(flag)
	return ok
}

// resolve fills the flags that were not given from the environment, and then
// from the config file. A list that was given replaces the other lists.
func (a *app) resolve(cmd *cobra.Command, s *settings) error {
	if s.config == "" {
		s.config = a.Getenv(variable(flagConfig))
	}
	file, err := a.readConfig(s.config)
	if err != nil {
		return err
	}
	var errs []error
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Changed || !layered(f.Name) {
			return
		}
		if text := a.Getenv(variable(f.Name)); text != "" {
			if err := setFlag(f, splitVariable(f.Name, text)); err != nil {
				errs = append(errs, usagef(cmd.CommandPath(), "", "environment variable %s: %w", variable(f.Name), err))
			}
			return
		}
		if values, ok := file.values[f.Name]; ok {
			if err := setFlag(f, values); err != nil {
				errs = append(errs, usagef(cmd.CommandPath(), "", "%s: %s: %w", file.path, f.Name, err))
			}
		}
	})
	return errors.Join(errs...)
}

// splitVariable makes a list of a variable: of paths as in PATH, of pairs by
// lines, because their values may hold anything else.
func splitVariable(flag, text string) []string {
	switch flag {
	case flagSpecs, flagValues:
		return filepath.SplitList(text)
	case flagEnvironment:
		return strings.Split(strings.TrimSpace(text), "\n")
	}
	return []string{text}
}

func setFlag(f *pflag.Flag, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	if err := f.Value.Set(values[0]); err != nil {
		return wrongValue(f, values[0], err)
	}
	return nil
}
