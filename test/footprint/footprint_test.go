//go:build linux && !race

// Package footprint bounds the size of the program, its memory while it is idle, and the
// time that it takes to start. "make size" prints what the program consists of.
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

// maxSize is the largest that the file may be, in bytes, without symbols.
const maxSize = 110e6

// maxStart is the longest that the program may take until it serves a small workflow: the
// shortest of some starts counts, as other programs run as well.
const maxStart = 150 * time.Millisecond

const starts = 5

const ping = `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: router}]}}
- {kind: router, name: router, routes: [{method: GET, path: /ping, port: "out[0]"}], ports: {"out[0]": [{name: pong}]}}
- {kind: snippet, name: pong, language: text, code: pong}
`

// TestProgram measures the program as it is released, and as it starts.
func TestProgram(t *testing.T) {
	program := filepath.Join(t.TempDir(), "uniflow")
	build(t, program, "-s -w")
	t.Run("size", func(t *testing.T) { size(t, program) })
	t.Run("idle", func(t *testing.T) {
		took := idle(t, program)
		for range starts - 1 {
			took = min(took, idle(t, program))
		}
		if took > maxStart {
			t.Errorf("it took %s to start, want at most %s", took, maxStart)
		}
		t.Logf("%s to start", took)
	})
}

func build(t *testing.T, program, ldflags string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", ldflags, "-o", program, "../../cmd/uniflow").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
}

func size(t *testing.T, program string) {
	file, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if file.Size() > maxSize {
		t.Errorf("got a file of %d bytes, want at most %.0f; make size shows what is in it", file.Size(), maxSize)
	}
	t.Logf("%d bytes", file.Size())
	if *listPackages {
		withSymbols := program + "-symbols"
		build(t, withSymbols, "")
		listParts(t, withSymbols, file.Size())
	}
}

// idle starts the program, measures its memory when it serves, and returns how long that
// took.
func idle(t *testing.T, program string) (took time.Duration) {
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
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	ready := false
	for !ready && lines.Scan() {
		ready = strings.Contains(lines.Text(), "msg=ready")
	}
	took = time.Since(began)
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
	return took
}
