//go:build !linux

package main

import (
	"os/exec"
	"runtime"
)

// startOn starts a command. Only on Linux is it confined to processors.
func startOn(cmd *exec.Cmd, _ []int) error { return cmd.Start() }

// processors returns those that this process may use.
func processors() ([]int, error) {
	cpus := make([]int, runtime.NumCPU())
	for i := range cpus {
		cpus[i] = i
	}
	return cpus, nil
}
