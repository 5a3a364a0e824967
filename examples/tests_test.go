package examples

import (
	"bytes"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// TestSound checks, formats and tests all examples as they stand: there is nothing to report.
func TestSound(t *testing.T) {
	t.Chdir("..")
	f := func(want string, args ...string) {
		t.Helper()
		var out, errs bytes.Buffer
		machine := app.System()
		machine.Stdout, machine.Stderr = &out, &errs
		code := cli.Main(t.Context(), args, machine)
		if code != 0 || want != "" && !bytes.Contains(errs.Bytes(), []byte(want)) || want == "" && out.Len() > 0 {
			t.Errorf("%v: got exit code %d: %s%s", args, code, &out, &errs)
		}
	}
	f("ok: ", "check", "--strict", "examples")
	f("", "fmt", "-l", "examples")
	f(" 0 failed", "test", "examples")
}
