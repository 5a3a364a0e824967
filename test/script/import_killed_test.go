package script

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestImportKilled kills the first import of a store. Then query and verify say that it
// did not end, with the exit code that they have for an empty store, until it has run
// again.
func TestImportKilled(t *testing.T) {
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, command)
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	const events = `{"user":"u","time":"2026-01-05T00:00:00Z","event":"view"}` + "\n"
	for name, text := range map[string]string{"none.ndjson": "", "some.ndjson": events} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(args ...string) (code int, out, talk string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, append([]string{"trail"}, args...)...)
		cmd.Dir = dir
		var output bytes.Buffer
		cmd.Stderr = &output
		text, err := cmd.Output()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		return cmd.ProcessState.ExitCode(), string(text), output.String()
	}

	cmd := exec.CommandContext(t.Context(), program, "trail", "import", "killed", "-")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := in.Write([]byte(strings.Repeat(events, 10_000))); err != nil { // and there would be more
		t.Fatal(err)
	}
	begun := time.After(limit)
	for tick := time.Tick(time.Millisecond); ; {
		if _, err := os.Stat(filepath.Join(dir, "killed", "tmp", "importing")); err == nil {
			break
		}
		select {
		case <-tick:
		case <-begun:
			t.Fatal("the import does not begin")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed

	if code, _, talk := run("import", "empty", "none.ndjson"); code != 0 {
		t.Fatalf("import of nothing: exit %d\n%s", code, talk)
	}
	const unfinished = "there are no events: an import has begun and did not end; run it again"
	asks := [][]string{
		{"query", "", "-e", "{segment: {}}"},
		{"query", "", "-e", "{segment: {}}", "--json"},
		{"verify", ""},
		{"verify", "", "--json"},
	}
	for _, ask := range asks {
		ask[1] = "empty"
		empty, out, talk := run(ask...)
		if strings.Contains(out+talk, unfinished) {
			t.Errorf("%v: got %s%s, want nothing of an import", ask, out, talk)
		}
		ask[1] = "killed"
		code, out, talk := run(ask...)
		if code != empty || !strings.Contains(out+talk, unfinished) {
			t.Errorf("%v: got exit %d and\n%s%swant exit %d, and that the import did not end", ask, code, out, talk, empty)
		}
	}
	if code, out, talk := run("import", "killed", "some.ndjson"); code != 0 {
		t.Fatalf("the import again: exit %d\n%s%s", code, out, talk)
	}
	for _, ask := range asks {
		if code, out, talk := run(ask...); code != 0 || strings.Contains(out+talk, unfinished) {
			t.Errorf("%v: got exit %d and\n%s%swant nothing of an import that did not end", ask, code, out, talk)
		}
	}
}
