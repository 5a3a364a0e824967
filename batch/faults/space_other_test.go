//go:build !linux

package faults

// diskChild is started by a test that needs what Linux offers.
func diskChild() int { return 1 }
