//go:build !linux

package javascript

import "testing"

// limitMemory does nothing: only Linux counts what is written to.
func limitMemory(*testing.T, uint64) {}

// makePipe makes nothing: not every system has named pipes.
func makePipe(*testing.T, string) {}
