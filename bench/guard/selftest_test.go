package main

import (
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// TestChanges checks that what the self-test does to the code can still be done,
// and compiles.
func TestChanges(t *testing.T) {
	root := filepath.Join("..", "..")
	for name, change := range map[string]func(tree string) error{
		"the shared lock": func(tree string) error {
			return Apply(t.Context(), tree, filepath.Join("testdata", "shared-lock.patch"))
		},
		"15 %": addFifteen,
	} {
		tree := filepath.Join(t.TempDir(), "tree")
		if err := (Repo{Dir: root}).Copy(t.Context(), tree); err != nil {
			t.Fatal(err)
		}
		if err := change(tree); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if _, err := (program.Toolchain{Dir: tree}).Do(t.Context(), "build", "-trimpath", "./internal/run"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
