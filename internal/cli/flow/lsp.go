package flow

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"regexp"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/lsp"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/language"
	"github.com/uniflow-labs/uniflow/spec"
)

const lspLong = `Lsp is a language server for editors. An editor starts it in the folder of a project and
speaks the Language Server Protocol with it, over the standard input and output.

It shows the findings of uniflow check while one types, puts them right, and knows kinds,
fields, nodes and variables: completion, hover, definition, references, rename, symbols,
uniflow fmt, and a lens that runs a test. It starts no workflow.

Documents are the files .yaml, .yml and .json with specs in the folders of the editor.
Those that link to one another are one workflow. Values come from --from-values,
--environment, the config file, and tests.`

const lspExample = `  uniflow lsp
  uniflow lsp --from-values values.yaml`

func lspCommand(a commands) *cobra.Command {
	s := settings.New()
	cmd := &cobra.Command{
		Use:     "lsp",
		Short:   "Help to write documents in an editor",
		Long:    lspLong,
		Example: lspExample,
		Args:    app.NoArgs,
	}
	cmd.Flags().SortFlags = false
	s.AddFlags(cmd, settings.FromValues, settings.Environment, settings.Namespace, "language")
	cmd.Flags().Bool("stdio", true, "speak over the standard input and output, which is the only way")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := s.Resolve(a.App, cmd); err != nil {
			return err
		}
		s.Specs = nil // the editor has the documents
		r, err := newReading(cmd.CommandPath(), s, a.App)
		if err != nil {
			return err
		}
		return a.Interruptible(cmd.Context(), func(ctx context.Context) error { return a.serveEditor(ctx, r, s) })
	}
	return cmd
}

func (a commands) serveEditor(ctx context.Context, r *reading, s *settings.Settings) (err error) {
	p, err := a.newPlanner("uniflow lsp", s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close(ctx)) }()
	w, err := language.New(language.Options{
		Kinds: a.kinds(s.Language), Namespace: s.Namespace,
		Check: func(docs []spec.Document) diag.List {
			src, list, err := r.read()
			if err != nil {
				return diag.List{diag.Errorf(diag.CodeRead, "%w", err)}
			}
			src.specs = docs
			list.Append(p.findings(0, src, false))
			return list
		},
		Variables: func() (all []*spec.Variable) {
			src, _, err := r.read()
			if err != nil {
				return nil // the check says so
			}
			for _, doc := range src.values {
				vars, _ := spec.ParseVariables(doc)
				all = append(all, vars...)
			}
			return all
		},
	})
	if err != nil {
		return err
	}
	test := func(ctx context.Context, files []string, name string) (string, error) {
		args := append([]string{"test", "--run", "^" + regexp.QuoteMeta(name) + "$"}, files...)
		for _, path := range s.Values {
			args = append(args, "--from-values", path)
		}
		for _, pair := range s.Environment {
			args = append(args, "--environment", pair)
		}
		var out bytes.Buffer
		cmd := exec.CommandContext(ctx, a.Program, args...)
		cmd.Stdout, cmd.Stderr = &out, &out
		err := cmd.Run()
		if _, failed := errors.AsType[*exec.ExitError](err); failed {
			return out.String(), errors.New("the test fails")
		}
		return out.String(), err
	}
	return lsp.Serve(ctx, a.Stdin, a.Stdout, lsp.Host{Workspace: w, Version: app.ReadBuild().Version, Test: test})
}
