package flow

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/rogpeppe/go-internal/diff"
	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/spec"
)

const formatLong = `Fmt rewrites documents in canonical form: the common fields first and in order, two-space
indentation, and current names instead of deprecated ones. Comments stay, and the
meaning does not change.

One file, or "-", is printed. Several files, or a folder, need one of the flags: with -l
or -d fmt exits with 1 if a file is not formatted, unless -w rewrites it.`

const formatExample = `  uniflow fmt flow.yaml
  uniflow fmt -w flows
  uniflow fmt -l flows || echo 'run uniflow fmt -w flows'`

type formatOptions struct{ list, diff, write bool }

func formatCommand(a commands) *cobra.Command {
	s := settings.New()
	var o formatOptions
	cmd := &cobra.Command{
		Use:     "fmt [FILE...]",
		Short:   "Format documents",
		Long:    formatLong,
		Example: formatExample,

		ValidArgsFunction: completeDocuments,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	s.AddFlags(cmd, settings.FromSpecs)
	flags.BoolVarP(&o.list, "list", "l", false, "print the names of files that are not formatted")
	flags.BoolVarP(&o.diff, "diff", "d", false, "print what would change")
	flags.BoolVarP(&o.write, "write", "w", false, "rewrite the files")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := s.Resolve(a.App, cmd, args...); err != nil {
			return err
		}
		if len(s.Specs) == 0 {
			return app.Usagef(cmd.CommandPath(), "write fmt FILE, or fmt - for standard input", "nothing to format: no files are named")
		}
		if o.write && slices.Contains(s.Specs, app.StdinPath) {
			return app.Usagef(cmd.CommandPath(), "leave -w out to print it", "standard input cannot be written")
		}
		docs, err := spec.Read(s.Specs, a.Stdin)
		var list diag.List
		if err != nil && !errors.As(err, &list) {
			return err
		}
		printing := !o.list && !o.diff && !o.write
		if printing && (len(s.Specs) > 1 || len(docs) > 1) {
			return app.Usagef(cmd.CommandPath(), "add -w to write them, -l to list or -d to see what would change", "several files cannot be printed")
		}
		return a.format(docs, list, o)
	}
	return cmd
}

// format formats all documents, even after one that has errors.
func (a commands) format(docs []document, list diag.List, o formatOptions) error {
	differ := false
	for _, doc := range docs {
		formatted, found := spec.Format(doc)
		list.Append(found)
		if found.HasErrors() {
			continue
		}
		changed := !bytes.Equal(formatted, doc.Data)
		if changed && !o.write {
			differ = true
		}
		if err := a.formatted(doc, formatted, changed, o); err != nil {
			return err
		}
	}
	list.Sort()
	if err := render(a.Stderr, list, &sources{specs: docs}, a.ColourErr); err != nil {
		return err
	}
	if list.HasErrors() || differ && (o.list || o.diff) {
		return app.ErrFindings()
	}
	return nil
}

// formatted prints or writes a formatted document, as the flags say.
func (a commands) formatted(doc document, formatted []byte, changed bool, o formatOptions) error {
	if !o.list && !o.diff && !o.write {
		return a.Print(string(formatted))
	}
	if !changed {
		return nil
	}
	if o.list {
		if err := a.Print(doc.File + "\n"); err != nil {
			return err
		}
	}
	if o.diff {
		if err := a.Print(string(diff.Diff(doc.File, doc.Data, doc.File+" (formatted)", formatted))); err != nil {
			return err
		}
	}
	if !o.write {
		return nil
	}
	return app.ReplaceFile(doc.File, func(w io.Writer) error {
		_, err := w.Write(formatted)
		return err
	})
}
