//go:build unix

package external

import (
	"os/exec"
	"sync"
	"syscall"
)

// A group is the group of processes that a program leads. After its end is collected, its number may belong to
// others, so no signal goes there any more.
type group struct {
	mu        sync.Mutex
	pid       int // 0 before the start
	collected bool
}

// own makes the program lead a group of its own.
func (g *group) own(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
}

func (g *group) started(cmd *exec.Cmd) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pid = cmd.Process.Pid
}

func (g *group) terminate() { g.signal(syscall.SIGTERM) }

func (g *group) kill() { g.signal(syscall.SIGKILL) }

func (g *group) signal(s syscall.Signal) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.pid != 0 && !g.collected {
		_ = syscall.Kill(-g.pid, s) // there may be none left
	}
}

// wait waits for the end of the program, and kills what it has left behind. Where the system can tell of the end
// without collecting it, the number of the group cannot belong to others then.
func (g *group) wait(cmd *exec.Cmd) error {
	var err error
	early := waitable(g.pid)
	if !early {
		err = cmd.Wait()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	_ = syscall.Kill(-g.pid, syscall.SIGKILL) // there may be none left
	g.collected = true
	if early {
		err = cmd.Wait()
	}
	return err
}
