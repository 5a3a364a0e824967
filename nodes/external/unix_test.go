//go:build unix

package external_test

import (
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
)

func ignoreSignals() { signal.Ignore(syscall.SIGTERM, syscall.SIGINT) }

// escape starts a program that leaves the group, and would outlive it.
func escape() (any, error) {
	cmd := exec.Command("/usr/bin/sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd.Process.Pid, nil
}

func killOther(pid string) (any, error) {
	n, err := strconv.Atoi(pid)
	if err != nil {
		return nil, err
	}
	return "sent", syscall.Kill(n, syscall.SIGURG)
}
