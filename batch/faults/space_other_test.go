//go:build !linux

package faults

// spaceChild is started by a test that needs what Linux offers.
func spaceChild() int { return 1 }
