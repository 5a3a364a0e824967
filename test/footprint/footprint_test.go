//go:build linux && !race

// Package footprint bounds the size of the program, its memory while it is idle, and the
// time that it takes to start. "make size" prints what the program consists of.
package footprint

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// maxBusy is the most memory of its own, in bytes, that the program may have after it has
// answered 64,000 requests of 32 connections: what there is of the program file depends on the
// system.
const maxBusy = 32e6

// maxResident is the most memory, in bytes, that a workflow may take that does nothing: the least
// of some starts counts, as the kernel maps more or fewer pages of the file around those that are read.
const maxResident = 32e6

// maxSize is the largest that the file may be, in bytes, without symbols.
const maxSize = 110e6

// maxStart is the longest that the program may take until its first answer of a small
// workflow: the shortest of some starts counts, as other programs run as well. bench measures
// it on a machine that does nothing else.
const maxStart = 25 * time.Millisecond

// starts is how often a program is started to see what it does before main.
const starts = 10

// maxStarts is how often it is started, at most, until an answer comes within the limits.
const maxStarts = 60

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
	t.Run("before main", func(t *testing.T) { beforeMain(t, program) })
	t.Run("no collection", func(t *testing.T) { noCollection(t, program) })
	t.Run("idle", func(t *testing.T) {
		took, resident := idle(t, program)
		for range maxStarts - 1 {
			if took <= maxStart && resident <= maxResident {
				break
			}
			again, size := idle(t, program)
			took, resident = min(took, again), min(resident, size)
		}
		if took > maxStart {
			t.Errorf("it took %s to start, want at most %s", took, maxStart)
		}
		if resident > maxResident {
			t.Errorf("got %d bytes resident, want at most %.0f", resident, maxResident)
		}
		t.Logf("%s to the first answer, %d bytes resident", took, resident)
	})
	t.Run("busy", func(t *testing.T) { busy(t, program) })
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

// A running program serves ping.
type running struct {
	cmd   *exec.Cmd
	log   *bufio.Scanner
	url   string
	began time.Time
}

// start starts the program, and returns when it listens.
func start(t *testing.T, program string) *running {
	t.Helper()
	flow := filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.WriteFile(flow, []byte(ping), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &running{cmd: exec.CommandContext(t.Context(), program, "start", flow)}
	log, err := r.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.log, r.began = bufio.NewScanner(log), time.Now()
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := r.await(t, "msg=listening")
	_, address, _ := strings.Cut(line, " address=")
	address, _, _ = strings.Cut(address, " ")
	r.url = "http://" + address + "/ping"
	return r
}

// await returns the next line of the log that has a text.
func (r *running) await(t *testing.T, text string) string {
	t.Helper()
	for r.log.Scan() {
		if strings.Contains(r.log.Text(), text) {
			return r.log.Text()
		}
	}
	t.Fatalf("the log has no %s", text)
	return ""
}

// stop ends the program.
func (r *running) stop(t *testing.T) {
	t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	for r.log.Scan() { // until it ends
	}
	if err := r.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// memory returns what the program has resident, and how much of that is its own.
func (r *running) memory(t *testing.T) (resident, own uint64) {
	t.Helper()
	p, err := procfs.NewProc(r.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	status, err := p.NewStatus()
	if err != nil || status.VmRSS == 0 {
		t.Fatalf("got %+v, %v", status, err)
	}
	return status.VmRSS, status.RssAnon
}

// ask sends a request.
func ask(client *http.Client, url string) error {
	resp, err := client.Get(url)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if string(body) != "pong" {
		err = errors.Join(err, fmt.Errorf("got %q", body))
	}
	return errors.Join(err, resp.Body.Close())
}

// idle starts the program, and returns how long its first answer took, and its memory when it is ready.
func idle(t *testing.T, program string) (took time.Duration, resident uint64) {
	r := start(t, program)
	defer r.stop(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if err := ask(client, r.url); err != nil {
		t.Error(err)
	}
	took = time.Since(r.began)
	r.await(t, "msg=ready")
	var own uint64
	resident, own = r.memory(t)
	t.Logf("%s, %d bytes resident, %d of them anonymous", took, resident, own)
	return took, resident
}

// busy measures the memory of a program that has answered many requests.
func busy(t *testing.T, program string) {
	const connections, requests = 32, 2000
	r := start(t, program)
	defer r.stop(t)
	transport := &http.Transport{MaxIdleConnsPerHost: connections}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var clients sync.WaitGroup
	for range connections {
		clients.Go(func() {
			for range requests {
				if err := ask(client, r.url); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	resident, own := r.memory(t)
	if own > maxBusy {
		t.Errorf("got %d bytes resident, %d of them anonymous, want at most %.0f of these", resident, own, maxBusy)
	}
	t.Logf("%d bytes resident, %d of them anonymous", resident, own)
}
