package memory_test

import (
	"runtime/debug"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/memory"
)

// TestLimit finds what this machine has, and the least that is set.
func TestLimit(t *testing.T) {
	if n := memory.Limit(); n < 64<<20 {
		t.Errorf("got %d bytes", n)
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(100 << 20))
	if n := memory.Limit(); n != 100<<20 {
		t.Errorf("got %d bytes, want GOMEMLIMIT", n)
	}
}
