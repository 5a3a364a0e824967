package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/builtin"
)

const checkLong = `Check finds what is wrong with documents, all of it at once, and starts nothing.
It takes files and folders as arguments or by --from-specs; "-" is standard input.

Nodes of every namespace are checked, or those of --namespace only if that is set.`

const checkExample = `  uniflow check examples
  uniflow check --strict --from-values values.yaml flows
  uniflow check --json - < flow.yaml`

// checkResult is what check --json prints.
type checkResult struct {
	Nodes    int       `json:"nodes"`
	Findings diag.List `json:"findings"`
}

func checkCommand(a *app) *cobra.Command {
	var s settings
	var strict, asJSON bool
	cmd := &cobra.Command{
		Use:     "check [FILE...]",
		Short:   "Find what is wrong with documents",
		Long:    checkLong,
		Example: checkExample,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.addFlags(flags)
	flags.BoolVar(&strict, "strict", false, "exit with 1 upon warnings, too")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, path := range args {
			if err := flags.Set(flagSpecs, path); err != nil {
				return err
			}
		}
		if err := a.resolve(cmd, &s); err != nil {
			return err
		}
		if len(s.specs) == 0 {
			return usagef(cmd.CommandPath(), "write check FILE", "nothing to check: no specs are named")
		}
		if err := checkLanguage(cmd.CommandPath(), s.language); err != nil {
			return err
		}
		r, err := newReading(cmd.CommandPath(), &s, a.Stdin)
		if err != nil {
			return err
		}
		one := flags.Changed("namespace") || s.namespace != "default"
		return a.check(cmd.Context(), r, &s, one, strict, asJSON)
	}
	return cmd
}

func (a *app) check(ctx context.Context, r *reading, s *settings, one, strict, asJSON bool) error {
	src, list, err := r.read()
	if err != nil {
		return err
	}
	names, nodes := src.namespaces(s.namespace)
	if one || len(names) == 0 {
		names = []string{s.namespace}
	}
	result := checkResult{Findings: list}
	for _, name := range names {
		found, err := a.findings(ctx, src, s.language, name)
		if err != nil {
			return err
		}
		result.Findings.Append(found)
		result.Nodes += nodes[name]
	}
	result.Findings.Sort()
	if asJSON {
		if result.Findings == nil {
			result.Findings = diag.List{} // [] and not null
		}
		err = a.printJSON(result)
	} else {
		err = a.printFindings(result, src)
	}
	if err != nil {
		return err
	}
	if result.Findings.HasErrors() || strict && len(result.Findings) > 0 {
		return errFindings()
	}
	return nil
}

// printFindings shows findings to people, and says how it went.
func (a *app) printFindings(result checkResult, src *sources) error {
	if err := render(a.Stdout, result.Findings, src, a.colourOut); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	nodes := count(result.Nodes, "node")
	switch {
	case len(result.Findings) == 0:
		a.talk("ok: %s\n", nodes)
	case !result.Findings.HasErrors():
		a.talk("ok: %s, %s\n", nodes, tally(result.Findings))
	default:
		a.talk("%s in %s\n", tally(result.Findings), nodes)
	}
	return nil
}

// findings checks the nodes of one namespace.
func (a *app) findings(ctx context.Context, src *sources, language, namespace string) (diag.List, error) {
	engine, err := uniflow.New(uniflow.Options{Kinds: a.kinds(language), Namespace: namespace})
	if err != nil {
		return nil, err
	}
	found := engine.Check(src.source())
	return found, engine.Shutdown(ctx)
}

// checkLanguage refuses a default language that does not exist.
func checkLanguage(command, language string) error {
	err := builtin.Languages().Check(language)
	if err == nil {
		return nil
	}
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		return usagef(command, d.Hint, "--language: %s", d.Msg)
	}
	return usagef(command, "", "--language: %w", err)
}
