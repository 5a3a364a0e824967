//go:build unix && !linux

package external

// waitable returns false: the caller waits in another way.
func waitable(int) bool { return false }
