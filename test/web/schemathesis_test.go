package web_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// schemathesis is the version of the judge. It is installed by name into a folder of the
// user's cache, once.
const schemathesis = "4.32.5"

func installSchemathesis(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "uniflow", "schemathesis-"+schemathesis)
	program := filepath.Join(dir, "bin", "schemathesis")
	if exec.CommandContext(t.Context(), program, "--version").Run() == nil {
		return program
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
		}
	}
	run("python3", "-m", "venv", "--clear", dir)
	run(filepath.Join(dir, "bin", "pip"), "install", "-q", "--disable-pip-version-check", "schemathesis=="+schemathesis)
	return program
}

// judge lets schemathesis ask an API with a key, and returns what it has found. Its requests
// are the same at each run.
func judge(t *testing.T, base, examples string) (found string, clean bool) {
	t.Helper()
	program, dir := installSchemathesis(t), t.TempDir()
	write(t, filepath.Join(dir, "schemathesis.toml"), "[auth.openapi.key-header-X-Api-Key]\napi_key = %q\n", ordersKey)
	cmd := exec.CommandContext(t.Context(), program, "run", base+"/openapi.json",
		"--checks", "all", "--generation-deterministic", "--max-examples", examples, "--no-color", "--no-shrink")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "SCHEMATHESIS_REPORT=false")
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out), err == nil
}

// unlimited are the fields of the example without which one client may not ask as often.
var unlimited = []string{"rate: 50/s", "rate: 100000/s", "burst: 100\n", "burst: 100000\n"}

// TestSchemathesis asks the orders API whatever its document allows, and what it does not,
// with and without a key: no answer may differ from the document.
func TestSchemathesis(t *testing.T) {
	found, clean := judge(t, startOrders(t, unlimited...), "50")
	if !clean {
		t.Error(found)
	}
	for _, want := range []string{"Tested: 7", "Coverage", "Fuzzing", "Stateful"} {
		if !strings.Contains(found, want) {
			t.Errorf("%q is not in what it says:\n%s", want, found)
		}
	}
}

// TestSchemathesisFinds shows that the judge of [TestSchemathesis] finds what is wrong: each
// mistake makes a document that says less, or an API that does something else.
func TestSchemathesisFinds(t *testing.T) {
	f := func(want string, replaced ...string) {
		t.Helper()
		found, clean := judge(t, startOrders(t, append(replaced, unlimited...)...), "5")
		if clean || !strings.Contains(found, want) {
			t.Errorf("%q was not found:\n%s", want, found)
		}
	}
	f("Missing required response headers", `"header": {"Location": "/orders/" + string(self[0].id)}, `, "")
	f("Response violates schema", "state: {enum: [open, sent]}\n", "state: {enum: [open, lost]}\n")
	f("Server error", "string(self[0].id)", "string(self[7].id)")
}
