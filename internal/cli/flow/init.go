package flow

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

const initLong = `Init writes an example workflow to the working folder or to FOLDER: documents with
comments and commands to try it, and a config file, so that check and start need no
arguments. It never overwrites a file.

  ping    one route with a constant response
  api     routes, a condition, TypeScript, a template with values, errors
  events  events over HTTP, shipped in batches to uniflow loader`

const initExample = `  uniflow init ping
  uniflow init api my-api`

//go:embed starters
var starterFiles embed.FS

// starters are the names of the example workflows.
func starters() []string { return []string{"ping", "api", "events"} }

func initCommand(a commands) *cobra.Command {
	return &cobra.Command{
		Use:     "init ping|api|events [FOLDER]",
		Short:   "Write an example workflow",
		Long:    initLong,
		Example: initExample,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return app.Usagef(cmd.CommandPath(), "write init ping", "init takes a name and a folder, got %s", show.Count(int64(len(args)), "argument"))
			}
			return nil
		},
		ValidArgsFunction: app.CompleteWords(starters),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.Contains(starters(), args[0]) {
				hint := app.DidYouMean(args[0], starters(), "")
				if hint == "" {
					hint = "the starters are " + strings.Join(starters(), ", ")
				}
				return app.Usagef(cmd.CommandPath(), hint, "there is no starter %q", args[0])
			}
			folder := "."
			if len(args) > 1 {
				folder = args[1]
			}
			return a.init(args[0], folder)
		},
	}
}

// init writes the files of a starter, unless one exists already.
func (a commands) init(name, folder string) error {
	from := path.Join("starters", name)
	entries, err := starterFiles.ReadDir(from)
	if err != nil {
		return err
	}
	targets := make([]string, len(entries))
	for i, entry := range entries {
		targets[i] = filepath.Join(folder, entry.Name())
		if entry.Name() == strings.TrimPrefix(settings.ConfigFile, ".") {
			targets[i] = filepath.Join(folder, settings.ConfigFile) // hidden files are not embedded
		}
		if _, err := os.Lstat(targets[i]); !errors.Is(err, fs.ErrNotExist) {
			if err == nil {
				err = fmt.Errorf("%s is already there", targets[i])
			}
			return &app.ExitError{Code: app.ExitFailure, Err: err, Hint: "nothing was written; name another folder: uniflow init " + name + " FOLDER"}
		}
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for i, entry := range entries {
		data, err := starterFiles.ReadFile(path.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		f, err := os.OpenFile(targets[i], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if err != nil {
			return err
		}
		if _, err := f.Write(data); err != nil {
			return errors.Join(err, f.Close())
		}
		if err := f.Close(); err != nil {
			return err
		}
		if err := a.Print(filepath.ToSlash(targets[i]) + "\n"); err != nil {
			return err
		}
	}
	a.Talk("next: uniflow check, and uniflow start%s; flow.yaml says how to try it\n", in(folder))
	return nil
}

func in(folder string) string {
	if folder == "." {
		return ""
	}
	return " in " + folder
}
