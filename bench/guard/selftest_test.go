package main

import (
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/gotest"
	"github.com/uniflow-labs/uniflow/bench/guard/source"
)

// TestChanges checks that what the self-test does to the code can still be done,
// and compiles.
func TestChanges(t *testing.T) {
	root := filepath.Join("..", "..")
	for name, change := range map[string]func(tree string) error{
		"the shared lock": func(tree string) error {
			patch := filepath.Join("testdata", "shared-lock.patch")
			if err := source.Apply(t.Context(), tree, patch, true); err != nil {
				return err
			}
			return source.Apply(t.Context(), tree, patch, false)
		},
		"15 %": addFifteen,
	} {
		tree := filepath.Join(t.TempDir(), "tree")
		if err := (source.Repo{Dir: root}).Copy(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		if err := change(tree); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := (gotest.Toolchain{Dir: tree}).Do(t.Context(), "build", "-trimpath", "./internal/run"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
