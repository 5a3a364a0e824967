//go:build linux && !race

// Package footprint bounds the size of the program, and its memory while it is idle.
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

// maxSize is the largest that the file may be, in bytes.
const maxSize = 76e6

const ping = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: router}]}}
- {kind: router, name: router, routes: [{method: GET, path: /ping, port: "out[0]"}], ports: {"out[0]": [{name: pong}]}}
- {kind: snippet, name: pong, language: text, code: pong}
`

// TestProgram measures the program as go build makes it, and as it starts.
func TestProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "uniflow")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../cmd/uniflow").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	t.Run("size", func(t *testing.T) { size(t, program) })
	t.Run("idle", func(t *testing.T) { idle(t, program) })
}

func size(t *testing.T, program string) {
	file, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if file.Size() > maxSize {
		t.Errorf("got a file of %d bytes, want at most %.0f; go tool nm -size -sort size shows what is in it", file.Size(), maxSize)
	}
	t.Logf("%d bytes", file.Size())
}

func idle(t *testing.T, program string) {
	flow := filepath.Join(t.TempDir(), "flow.yaml")
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
