//go:build !unix

package external

import (
	"os/exec"
	"sync"
)

// A group is a program. What it has started is left.
type group struct {
	mu  sync.Mutex
	cmd *exec.Cmd
}

func (g *group) own(*exec.Cmd) {}

func (g *group) started(cmd *exec.Cmd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.cmd = cmd
}

func (g *group) terminate() { g.kill() }

func (g *group) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cmd != nil {
		_ = g.cmd.Process.Kill() // it may have ended
	}
}

func (g *group) wait(cmd *exec.Cmd) error { return cmd.Wait() }
