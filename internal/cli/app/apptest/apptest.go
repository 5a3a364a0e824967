// Package apptest runs commands in the process of a test.
//
// The package must not know what any command does.
package apptest

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// Machine is a process without terminals and signals, with the given environment.
func Machine(out, errs io.Writer, env map[string]string) app.Machine {
	return app.Machine{
		Stdin: strings.NewReader(""), Stdout: out, Stderr: errs,
		Getenv: func(name string) string { return env[name] },
		Environ: func() (pairs []string) {
			for name, text := range env {
				pairs = append(pairs, name+"="+text)
			}
			return pairs
		},
		Signals:  func(...os.Signal) (<-chan os.Signal, func()) { return nil, func() {} },
		Terminal: func(io.Writer) bool { return false },
	}
}

// Root makes a root of commands.
func Root(commands func(*app.App) []*cobra.Command) func(*app.App) *cobra.Command {
	return func(a *app.App) *cobra.Command {
		return a.Root(&cobra.Command{Use: "uniflow"}, nil, commands(a)...)
	}
}

// Execute runs a command that ends by itself.
func Execute(t *testing.T, root func(*app.App) *cobra.Command, env map[string]string, args ...string) (code int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	code = app.Main(t.Context(), args, Machine(&o, &e, env), root)
	return code, o.String(), e.String()
}

// Write makes a file, and its folder if it is missing.
func Write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Broken is a stream that cannot be written to.
type Broken struct{}

func (Broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }
