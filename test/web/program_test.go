package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A program is one that a test has started. It is killed at the end of the test.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{} // closed when all that it printed has been read
	mu    struct {
		sync.Mutex
		lines   []string
		changed chan struct{} // closed at the next line
	}
}

// startProgram starts a program in a folder, with more variables of the environment.
func startProgram(t *testing.T, dir string, env []string, file string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(file, args...), ended: make(chan struct{})}
	p.mu.changed = make(chan struct{})
	p.cmd.Dir, p.cmd.Env = dir, append(os.Environ(), env...)
	r, w := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr = w, w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	work.Go(func() {
		p.cmd.Wait() // it may have been killed
		w.Close()
	})
	work.Go(func() { p.read(r) })
	t.Cleanup(func() {
		p.cmd.Process.Kill() // it may have ended
		work.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(file), strings.Join(p.all(), "\n"))
		}
	})
	return p
}

func (p *program) read(r io.Reader) {
	defer close(p.ended)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		p.mu.Lock()
		p.mu.lines = append(p.mu.lines, lines.Text())
		close(p.mu.changed)
		p.mu.changed = make(chan struct{})
		p.mu.Unlock()
	}
}

func (p *program) all() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.mu.lines
}

// wait waits until the program has printed a text n times.
func (p *program) wait(text string, n int) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	for {
		p.mu.Lock()
		lines, changed := p.mu.lines, p.mu.changed
		p.mu.Unlock()
		if strings.Count(strings.Join(lines, "\n"), text) >= n {
			return
		}
		select {
		case <-changed:
		case <-p.ended:
			p.t.Fatalf("the program ended before it printed %q", text)
		case <-ctx.Done():
			p.t.Fatalf("the program did not print %q", text)
		}
	}
}

// stop ends the program as an operator does.
func (p *program) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Error(err)
	}
	<-p.ended
}

// write writes a file of a test, of which the arguments are for its verbs.
func write(t *testing.T, path, text string, args ...any) {
	t.Helper()
	if err := os.WriteFile(path, fmt.Appendf(nil, text, args...), 0o600); err != nil {
		t.Fatal(err)
	}
}
