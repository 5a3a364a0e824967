package external_test

import (
	"os"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/nodes/wasm/wasmtest"
)

// TestModulePlugin has a kind that runs a module, in its folder, and one whose module is missing.
func TestModulePlugin(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("echo.wasm", wasmtest.Echo().Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	f := newFlow(t)
	f.Options.Programs = nil // a module is not a program of the system
	f.Load("- {kind: plugin, name: same, summary: Answers what comes., run: wasm, module: echo.wasm}\n- {kind: same, name: n}")
	if got := f.SendJSON("n", `{"a":1}`); got != `{"a":1}` {
		t.Errorf("got %s", got)
	}
	list := f.Check("- {kind: plugin, name: same, summary: Answers what comes., run: wasm, module: none.wasm}\n- {kind: same, name: n}")
	if !strings.Contains(list.Error(), "test.yaml:1:") || !strings.Contains(list.Error(), "none.wasm") {
		t.Errorf("got %v", list)
	}
}
