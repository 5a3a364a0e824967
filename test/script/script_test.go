// Package script tests the program by transcripts: each .txtar file has commands, what
// they print, and the files that they need. The tests run the commands of testscript
// and these:
//
//	serve NAME [COMMAND] ARG...    starts uniflow COMMAND ARG... in the background; COMMAND is start by default
//	await NAME REGEXP [VAR]        waits until its log has a matching line; puts the group into $VAR
//	signal NAME TERM|INT|HUP|KILL  sends it a signal
//	ended NAME CODE                waits until it ends with an exit code; its log is then stderr
//	http METHOD URL [-H K:V]... [-d BODY]  sends a request; stdout is the status and the body
//	hold NAME URL [TYPE]           starts a request that stays in flight until release
//	release NAME                   ends this request; stdout is the status and the body
//	replace OLD NEW FILE           edits a file in place
//	save FILE NEW                  replaces a file by renaming, as editors do
//	schema FILE DOC                checks that a YAML document fits a JSON Schema
//
// The condition [race] is true under the race detector.
//
// Scripts do not sleep: each command waits for the event that it needs.
package script

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
)

// command is the name under which the test binary is the program, so that the race
// detector checks the program, too.
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
	testdata, err := filepath.Abs("testdata")
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
			env.Setenv("TESTDATA", testdata)
			env.Setenv("PORT", strconv.Itoa(freeport.Port(t))) // for what must know its port before it listens
			env.Setenv("GORACE", "atexit_sleep_ms=0")          // else each command takes a second more
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
			"guest": guest,
			"serve": serve, "await": await, "signal": send, "ended": ended,
			"http": ask, "hold": hold, "release": release,
			"replace": replace, "save": save, "schema": schema,
		},
	})
}

// guest FILE TEXT writes a module of WebAssembly that answers with a text.
func guest(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: guest FILE TEXT")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), wasmtest.Constant(strconv.Quote(args[1])).Bytes(), 0o600))
}
