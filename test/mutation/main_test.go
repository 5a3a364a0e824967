package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTableApplies finds each safeguard in the code as it is.
func TestTableApplies(t *testing.T) {
	b := bench{root: filepath.Join("..", ".."), work: t.TempDir()}
	names := make(map[string]bool)
	for _, m := range slices.Concat(ofBatch(), ofStreams(), ofTrail()) {
		if _, err := b.overlay(m); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] {
			t.Errorf("%s: two have this name", m.name)
		}
		names[m.name] = true
	}
}

func TestDrift(t *testing.T) {
	b := bench{root: filepath.Join("..", ".."), work: t.TempDir()}
	m := mutation{name: "gone", file: "batch/transmission.go", in: "batch/faults", test: "TestX", cuts: []cut{{"no such text", ""}}}
	if _, err := b.overlay(m); err == nil || !strings.Contains(err.Error(), "no such text") || !strings.Contains(err.Error(), m.file) {
		t.Errorf("got %v, want an error with the file and the text", err)
	}
}
