package flow

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/settings"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/external"
	"github.com/uniflow-labs/uniflow/spec"
)

const confineName = "program-worker"

// programs decides whether nodes may start programs.
func (a commands) programs(s *settings.Settings) *node.Programs {
	if !s.AllowExec {
		return nil
	}
	if a.Program == "" {
		return node.AllowPrograms()
	}
	return node.AllowPrograms(a.Program, confineName)
}

// ofDrafts decides for documents that a client of the admin server has sent, and that are tested or tried: none of
// them starts a program, whatever the settings say.
func ofDrafts() *node.Programs {
	return node.RefusePrograms(errors.New("drafts never start programs: give the node a pin or a mock"))
}

// checkPlugins refuses to run kinds of folders without the permission to start programs.
func checkPlugins(command string, s *settings.Settings) error {
	if len(s.Plugins) > 0 && !s.AllowExec {
		return app.Usagef(command, "add --allow-exec if you trust what is in the folders", "--plugins runs programs, which --allow-exec has to permit")
	}
	return nil
}

// readPlugins reads the documents of the kinds in folders: a folder each, or the folder itself.
func readPlugins(folders []string) (docs []document, err error) {
	var list diag.List
	var files []string
	for _, folder := range folders {
		entries, err := os.ReadDir(folder)
		if err != nil {
			list.Add(diag.Errorf(diag.CodeRead, "--plugins: %w", err).WithHint("name a folder, in which each kind has one with a %s", spec.KindFile).At(diag.Pos{File: folder}, ""))
			continue
		}
		before := len(files)
		for _, path := range append([]string{folder}, entriesOf(folder, entries)...) {
			file := filepath.Join(path, spec.KindFile)
			if _, err := os.Stat(file); err == nil {
				files = append(files, file)
			}
		}
		if len(files) == before {
			list.Add(diag.Errorf(diag.CodeRead, "no folder in it has a %s", spec.KindFile).WithHint("a kind is a folder with a %s; uniflow describe plugin shows one", spec.KindFile).At(diag.Pos{File: folder}, ""))
		}
	}
	docs, err = spec.Read(files, nil)
	var found diag.List
	if err != nil && !errors.As(err, &found) {
		return nil, err
	}
	list.Append(found)
	return docs, list.Err()
}

// entriesOf returns the paths of what is in a folder.
func entriesOf(folder string, entries []os.DirEntry) (paths []string) {
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), ".") {
			paths = append(paths, filepath.Join(folder, entry.Name()))
		}
	}
	return paths
}

// confineCommand is the command that the program starts itself with, to become another program with fewer rights.
func confineCommand(a commands) *cobra.Command {
	return &cobra.Command{
		Use:    confineName + " LIMITS",
		Short:  "Limit this process, and run a program in it",
		Hidden: true,
		Args:   app.OneArg("limits", ""),
		RunE:   func(_ *cobra.Command, args []string) error { return external.Confine(args[0]) },
	}
}
