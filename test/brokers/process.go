package brokers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Process is a broker in a process of its own: the command cmd/broker. Its processor
// time is its own, and it can be killed.
type Process struct {
	Addr string // host and port

	cmd   *exec.Cmd
	stdin io.Closer // whose end stops the process, so that none outlives its test
}

// command builds cmd/broker once for a test binary, in a folder that [Clean] removes. With
// the flags of the release, most packages are compiled already.
var command = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "brokers")
	if err != nil {
		return "", err
	}
	built.Store("dir", dir)
	path := filepath.Join(dir, "broker")
	build := exec.Command("go", "build", "-trimpath", "-o", path, "github.com/uniflow-labs/uniflow/test/brokers/cmd/broker")
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the command broker: %w\n%s", err, out)
	}
	return path, nil
})

var built sync.Map

// Clean removes what the functions of this package have built. Call it at the end of
// TestMain.
func Clean() {
	if dir, ok := built.Load("dir"); ok {
		os.RemoveAll(dir.(string))
	}
}

// Start starts the command broker with its arguments, such as kafka -dir DIR, and waits
// until it has said where it listens. It is killed at the end of the test.
func Start(tb testing.TB, args ...string) *Process {
	tb.Helper()
	path, err := command()
	if err != nil {
		tb.Fatal(err)
	}
	p := &Process{cmd: exec.Command(path, args...)}
	p.cmd.Stderr = os.Stderr
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Kill)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		tb.Fatalf("broker %s: %v", strings.Join(args, " "), err)
	}
	p.Addr = strings.TrimSpace(line)
	return p
}

// Kill ends the process as kill -9 does, and waits for it. A second call does nothing.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// Stop ends the process in its own way, and waits for it.
func (p *Process) Stop() {
	p.stdin.Close()
	p.cmd.Wait()
}

// CPU returns the processor time that the process has used, once it has ended.
func (p *Process) CPU() time.Duration {
	state := p.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}
