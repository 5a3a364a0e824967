//go:build !linux

package lock_test

// futexLocks returns nothing: futexes are of Linux.
func futexLocks() []subject { return nil }
