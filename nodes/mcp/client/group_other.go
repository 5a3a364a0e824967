//go:build !unix

package client

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup ends the program. What it has started is left.
func killGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = cmd.Process.Kill() // it has ended, mostly
	}
}
