//go:build unix

package client

import (
	"os/exec"
	"syscall"
)

// ownGroup makes the program the first of a group of processes, so that a signal to this
// one does not reach it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends what the program has started and left behind.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // there may be none
	}
}
