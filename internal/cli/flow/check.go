package flow

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/lang/builtin"
)

const checkLong = `Check lists all errors and warnings in documents. It starts nothing. The arguments are
files and folders; "-" is standard input. Symbolic links are followed only within their
folder, and only to regular files.

Files that link to one another are checked as one workflow, other files separately.
With --from-specs all files are one workflow, as for start. A variable that is not bound
has the value that a test in the workflow gives it.

All namespaces are checked unless --namespace is given. A check stops after --timeout,
so that files from untrusted sources cannot block it.`

const checkExample = `  uniflow check examples
  uniflow check --strict --from-values values.yaml flows
  uniflow check --json - < flow.yaml`

// checkResult is what check --json prints.
type checkResult struct {
	Nodes     int       `json:"nodes"`
	Workflows int       `json:"workflows"`
	Errors    int       `json:"errors"`
	Warnings  int       `json:"warnings"`
	Findings  diag.List `json:"findings"` // the first 100, by place
}

func checkCommand(a commands) *cobra.Command {
	s := settings.New()
	var strict, asJSON bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:     "check [FILE...]",
		Short:   "Find errors in documents",
		Long:    checkLong,
		Example: checkExample,

		ValidArgsFunction: completeDocuments,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddDocumentFlags(cmd)
	flags.BoolVar(&strict, "strict", false, "exit with 1 for warnings, too")
	flags.BoolVar(&asJSON, "json", false, "print JSON")
	flags.DurationVar(&timeout, "timeout", 10*time.Second, "stop after `DURATION`; 0 for no limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		if len(s.Specs)+len(s.Plugins) == 0 {
			return app.Usagef(cmd.CommandPath(), "write check FILE", "nothing to check: no files are named")
		}
		r, err := newReading(cmd.CommandPath(), s, a.App)
		if err != nil {
			return err
		}
		if err := app.NotNegative(cmd.CommandPath(), "timeout", timeout); err != nil {
			return err
		}
		one := flags.Changed("namespace") || s.Namespace != "default"
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(min(checkMemory, debug.SetMemoryLimit(-1))))
		return withTimeout(timeout, func() error {
			return a.check(cmd.Context(), r, s, one, len(args) == 0, strict, asJSON)
		})
	}
	return cmd
}

// withTimeout returns the error of f, or an error after the timeout; 0 means no limit.
// f may then still run, because compilers cannot be interrupted. The command ends,
// and the program with it.
func withTimeout(timeout time.Duration, f func() error) error {
	if timeout <= 0 {
		return f()
	}
	done := make(chan error, 1) // room for the result after the timeout
	var abandoned sync.WaitGroup
	abandoned.Go(func() { done <- f() })
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case err := <-done:
		return err
	case <-late.C:
		return &app.ExitError{
			Code: app.ExitFindings, Err: fmt.Errorf("stopped: it took longer than %v", timeout),
			Hint: "check fewer files together, or write --timeout 0 for no limit",
		}
	}
}

// checkMemory is the soft memory limit of a check. With it, the largest document that
// the parser accepts was measured at 490 MiB; without it, at twice that.
const checkMemory = 350 << 20

func (a commands) check(ctx context.Context, r *reading, s *settings.Settings, one, joined, strict, asJSON bool) (err error) {
	src, list, err := r.read()
	if err != nil {
		return err
	}
	result := checkResult{Findings: list}
	p, err := a.newPlanner("", s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	for i, w := range src.workflows(s.Namespace, one, joined, a.templates()) {
		found := p.findings(i, w.sources, one)
		result.Findings.Append(found)
		result.Nodes += w.nodes
		result.Workflows++
	}
	result.Findings.Sort()
	result.Errors, result.Warnings = result.Findings.Counts()
	if asJSON {
		result.Findings = append(diag.List{}, result.Findings.Kept()...) // [] and not null
		err = a.PrintJSON(result)
	} else {
		err = a.printFindings(result, src)
	}
	if err != nil {
		return err
	}
	if result.Errors > 0 || strict && result.Warnings > 0 {
		return app.ErrFindings()
	}
	return nil
}

// printFindings prints findings as text, then a summary.
func (a commands) printFindings(result checkResult, src *sources) error {
	if err := render(a.Stdout, result.Findings, src, a.ColourOut); err != nil {
		return fmt.Errorf("write to standard output: %w", err)
	}
	nodes := show.Count(int64(result.Nodes), "node")
	if result.Workflows > 1 {
		nodes += " of " + show.Count(int64(result.Workflows), "workflow")
	}
	switch {
	case len(result.Findings) == 0:
		a.Talk("ok: %s\n", nodes)
	case !result.Findings.HasErrors():
		a.Talk("ok: %s, %s\n", nodes, app.CountFindings(result.Findings))
	default:
		a.Talk("%s in %s\n", app.CountFindings(result.Findings), nodes)
	}
	return nil
}

// findings checks a workflow, and what its tests are run with: the nodes of one namespace, or of
// all. A variable that nothing else binds has the value that a test brings.
func (p *planner) findings(number int, src *sources, one bool) diag.List {
	check := p.engine.CheckAll
	if one {
		check = p.engine.Check
	}
	source := src.source()
	brought, _ := p.engine.TestValues(source) // the check reports what is wrong
	source.Values = src.fallback(brought)
	list := check(source)
	if len(brought) > 0 && !one && !list.HasErrors() {
		_, found := p.cases(number, src)
		list.Append(found)
	}
	return distinct(list)
}

// findings checks the nodes of one namespace, or of all.
func (a commands) findings(ctx context.Context, src *sources, s *settings.Settings, one bool) (diag.List, error) {
	engine, err := uniflow.New(uniflow.Options{Kinds: a.kinds(s.Language), Namespace: s.Namespace, Memory: checkMemory})
	if err != nil {
		return nil, err
	}
	check := engine.CheckAll
	if one {
		check = engine.Check
	}
	found := check(src.source())
	return found, engine.Shutdown(ctx)
}

func checkLanguage(command, language string) error {
	err := builtin.Languages().Check(language)
	if err == nil {
		return nil
	}
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		return app.Usagef(command, d.Hint, "--language: %s", d.Msg)
	}
	return app.Usagef(command, "", "--language: %w", err)
}
