package brokers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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

// command is the command cmd/broker, and program the program uniflow from the root of the
// repository. The race detector is in neither.
var (
	command = sync.OnceValues(func() (string, error) { return build("broker", ".", "GOWORK=off", "./cmd/broker") })
	program = sync.OnceValues(func() (string, error) {
		return build("uniflow", filepath.Join("..", ".."), "GOWORK=", "-pgo=off", "./cmd/uniflow")
	})
)

// Program returns the file of the program as it is released, without the race detector, under
// which it takes several times as long and as much memory.
func Program(tb testing.TB) string {
	tb.Helper()
	path, err := program()
	if err != nil {
		tb.Fatal(err)
	}
	return path
}

// build builds a command in a folder that [Clean] removes. With the flags of the release or of
// tests, most packages are compiled already.
func build(name, dir, workspace string, args ...string) (string, error) {
	folder, err := os.MkdirTemp("", "brokers")
	if err != nil {
		return "", err
	}
	built.Store(folder, true)
	path := filepath.Join(folder, name)
	cmd := exec.Command("go", append([]string{"build", "-trimpath", "-o", path}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), workspace, "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	return path, nil
}

var built sync.Map // folders

// Clean ends the brokers that tests share, and removes what the functions of this package have
// built. Call it at the end of TestMain.
func Clean() {
	for _, end := range slices.Backward(shared.end) {
		end()
	}
	built.Range(func(folder, _ any) bool {
		os.RemoveAll(folder.(string))
		return true
	})
}

// Start starts the command broker with its arguments, such as kafka -dir DIR, and waits
// until it has logged where it listens. It is killed at the end of the test.
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
