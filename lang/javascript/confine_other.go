//go:build !linux

package javascript

// limitMemory does nothing: other systems cannot limit what Go allocates. The limit on the
// growth of the heap remains.
func limitMemory(uint64) error { return nil }

// closeInherited does nothing: there is no portable list of open files.
func closeInherited() error { return nil }
