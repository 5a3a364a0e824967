//go:build unix

package main

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestRun(t *testing.T) {
	f := func(want int, args ...string) {
		t.Helper()
		code, err := run(args, "1")
		if err != nil || code != want {
			t.Errorf("%q: got %d, %v, want %d", args, code, err, want)
		}
	}
	f(0, "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done")
	f(3, "sh", "-c", "exit 3")
	f(1, "sh", "-c", "kill -9 $$")
	if _, err := run(nil, ""); err == nil {
		t.Error("no program was taken")
	}
	if _, err := run([]string{"true"}, "x"); err == nil {
		t.Error("a seed that is not a number was taken")
	}
}
