//go:build linux && !race

// Package footprint bounds the memory of a program that is idle.
package footprint

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// maxResident is the most memory, in bytes, that a workflow may take that does nothing.
const maxResident = 32e6

const ping = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: router}]}}
- {kind: router, name: router, routes: [{method: GET, path: /ping, port: "out[0]"}], ports: {"out[0]": [{name: pong}]}}
- {kind: snippet, name: pong, language: text, code: pong}
`

// TestIdle starts a program as go build makes it.
func TestIdle(t *testing.T) {
	dir := t.TempDir()
	program, flow := filepath.Join(dir, "uniflow"), filepath.Join(dir, "flow.yaml")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/uniflow").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	if err := os.WriteFile(flow, []byte(ping), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "start", flow)
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	ready := false
	for !ready && lines.Scan() {
		ready = strings.Contains(lines.Text(), "msg=ready")
	}
	p, err := procfs.NewProc(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.NewStatus()
	if err != nil || !ready || status.VmRSS == 0 || status.VmRSS > maxResident {
		t.Errorf("got %d bytes resident, %d of them anonymous, ready %v, error %v, want at most %.0f", status.VmRSS, status.RssAnon, ready, err, maxResident)
	}
	t.Logf("%d bytes resident, %d of them anonymous", status.VmRSS, status.RssAnon)
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for lines.Scan() { // until it ends
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}
