package main

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
)

func TestStartOn(t *testing.T) {
	allowed, err := processors()
	if err != nil || len(allowed) == 0 {
		t.Fatalf("got %v, %v, want processors", allowed, err)
	}
	for _, cpu := range allowed {
		out, used, err := output(exec.CommandContext(t.Context(), "cat", "/proc/self/status"), []int{cpu})
		if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); err != nil || !strings.Contains(string(out), want) || used < 0 {
			t.Errorf("got %s, %v, %v, want %q", out, used, err, want)
		}
	}
	if now, err := processors(); err != nil || len(now) != len(allowed) {
		t.Errorf("afterwards: got %v, %v, want %v", now, err, allowed)
	}
	if out, _, err := output(exec.CommandContext(t.Context(), "cat", "/no/such/file"), nil); err == nil || !strings.Contains(string(out), "No such file") {
		t.Errorf("got %s, %v, want what it said", out, err)
	}
}
