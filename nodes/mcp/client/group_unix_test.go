//go:build unix

package client

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// TestStubborn expects that nothing is left of a program that does not end by itself.
func TestStubborn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	s, err := settings(t, "{"+program(t, "stubborn", `"PID_FILE": `+strconv.Quote(file))+"}", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, release, err := s.Open(new(node.Pool))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Call(t.Context(), "count", text("x"), nil); err != nil {
		t.Error(err)
	}
	if err := release(); err != nil {
		t.Error(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(data))
	if err != nil {
		t.Fatal(err)
	}
	look, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer look.Stop()
	for running(pid) {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("process %d still runs", pid)
		}
	}
	if _, err := c.Call(t.Context(), "count", text("x"), nil); !errors.Is(err, errClosed) {
		t.Errorf("got %v after the end", err)
	}
}

// running reports whether a process has not ended, even if its end is not collected yet.
func running(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return syscall.Kill(pid, 0) == nil && (err != nil || !strings.Contains(string(stat), ") Z "))
}
