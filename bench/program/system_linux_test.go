package program

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestPinned(t *testing.T) {
	allowed, err := Processors()
	if err != nil || len(allowed) == 0 {
		t.Fatalf("got %v, %v, want processors", allowed, err)
	}
	for _, cpu := range allowed {
		var out strings.Builder
		cmd := exec.CommandContext(t.Context(), "cat", "/proc/self/status")
		cmd.Stdout = &out
		if err := Pinned([]int{cpu}, cmd.Run); err != nil || !strings.Contains(out.String(), fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu)) {
			t.Errorf("got %s, %v, want processor %d", out.String(), err, cpu)
		}
	}
	if now, err := Processors(); err != nil || !slices.Equal(now, allowed) {
		t.Errorf("afterwards: got %v, %v, want %v", now, err, allowed)
	}
}
