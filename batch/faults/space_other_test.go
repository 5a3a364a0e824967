//go:build !linux

package faults

// spaceChild is used on Linux only.
func spaceChild() int { return 1 }
