// Package script runs transcripts of the command line: each .txtar file here is
// a list of commands with what they print, and the files that they need.
//
// Beside the usual commands of such scripts there are:
//
//	serve NAME [COMMAND] ARG...  runs uniflow COMMAND ARG..., or start, in the background
//	await NAME REGEXP [VAR]      waits for a line that it logs; keeps the group as $VAR
//	signal NAME TERM|INT|HUP|KILL  sends a signal
//	ended NAME CODE              waits for its end, and wants the exit code; its log is then stderr
//	http METHOD URL [-H K:V]... [-d BODY]  asks; stdout is the status and the body
//	hold NAME URL [TYPE]         begins a request that is in flight until release
//	release NAME                 ends it; stdout is the status and the body
//	replace OLD NEW FILE         edits a file in place
//	save FILE NEW                replaces a file by renaming, as editors do
//	schema FILE DOC              wants a JSON file to be a schema that takes a YAML document
//
// The condition [race] is true under the race detector.
//
// Nothing waits for a time: each command waits for the event that it is about.
package script

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// command is what the test binary is called when it is to be the program. So
// the race detector watches the program, too.
const command = "uniflow"

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == command {
		os.Exit(cli.Main(context.Background(), os.Args[1:], app.System()))
	}
	leak.Main(m)
}

func TestScripts(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	if err := os.Symlink(self, filepath.Join(bin, command)); err != nil {
		t.Fatal(err)
	}
	examples, err := filepath.Abs(filepath.Join("..", "..", "examples"))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                ".",
		RequireUniqueNames: true,
		UpdateScripts:      os.Getenv("UPDATE") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Setenv("EXAMPLES", examples)
			env.Setenv("GORACE", "atexit_sleep_ms=0") // else each command takes a second longer
			w := newWorld()
			env.Values[worldKey{}] = w
			env.Defer(w.end)
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond != "race" {
				return false, fmt.Errorf("unknown condition %q", cond)
			}
			return invariant.Race, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"serve": serve, "await": await, "signal": send, "ended": ended,
			"http": ask, "hold": hold, "release": release,
			"replace": replace, "save": save, "schema": schema,
		},
	})
}
