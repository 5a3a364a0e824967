//go:build !linux

package javascript

// limitMemory does nothing: other systems do not limit what Go allocates. The limit
// of the growth of the heap holds there, too.
func limitMemory(uint64) error { return nil }

// closeInherited does nothing: there is no portable list of what is open.
func closeInherited() error { return nil }
