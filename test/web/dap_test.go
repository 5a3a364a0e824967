package web_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestDAP debugs a program as an editor does, over the Debug Adapter Protocol with Microsoft's client.
func TestDAP(t *testing.T) {
	if err := install(); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "flow.yaml"), `# A comment
- {kind: schedule, name: start, interval: 100ms, ports: {out: one}}
- {kind: snippet, name: one, language: cel, code: '{"n": 3, "list": ["a"]}', ports: {out: price}}

- kind: snippet
  name: price
  language: cel
  code: self.n + 1
- {kind: log, name: log, message: priced}
- {kind: schedule, name: fated, interval: 300ms, ports: {out: doom}}
- {kind: snippet, name: doom, language: cel, code: self.none}
`)
	admin, listen := freeport.Addr(t), freeport.Addr(t)
	p := startProgram(t, dir, []string{asProgram + "=1", "UNIFLOW_ADMIN_TOKEN=token"}, self, "start", "flow.yaml", "--admin", admin)
	p.wait("msg=ready", 1)
	adapter := startProgram(t, dir, []string{asProgram + "=1"}, self, "dap", "--listen", listen)
	adapter.wait("listening at", 1)
	_, port, err := net.SplitHostPort(listen)
	if err != nil {
		t.Fatal(err)
	}
	modules, err := filepath.Abs(filepath.Join(packages, "node_modules"))
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"attach", port, admin, "token", dir}, {"launch", self, "", asProgram, dir}} {
		cmd := exec.CommandContext(t.Context(), "node", append([]string{"dap.cjs"}, args...)...)
		cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", args[0], err, out)
		}
	}
}
