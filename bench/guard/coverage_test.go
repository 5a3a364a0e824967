package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/cover"
)

// TestReached finds a function that was run by any of its lines, and no other by its neighbours.
func TestReached(t *testing.T) {
	tree, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	const file = module + "/bench/guard/coverage.go"
	first, last := extent(filepath.Join(tree, "bench", "guard", "coverage.go"), lineOf(t, "coverage.go", "func extent("))
	if last-first < 10 {
		t.Fatalf("a function has the lines %d to %d", first, last)
	}
	l := lines{file: []cover.ProfileBlock{{StartLine: first + 1, EndLine: first + 2, Count: 1}}}
	for line, want := range map[int]bool{first - 2: false, first: true, first + 1: true, last: true, last + 2: false} {
		if got := l.has(tree, place{file, line}); got != want {
			t.Errorf("line %d of %d to %d: got %v", line, first, last, got)
		}
	}
	if l.has(tree, place{module + "/none.go", 1}) {
		t.Error("a file that is not there was run")
	}
}

// lineOf returns the line of a file that begins with a text.
func lineOf(t *testing.T, file, text string) int {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(data), "\n") {
		if strings.HasPrefix(line, text) {
			return i + 1
		}
	}
	t.Fatalf("no line of %s begins with %s", file, text)
	return 0
}
