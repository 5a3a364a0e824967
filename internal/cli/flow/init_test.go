package flow

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Each starter is a folder with a workflow and its tests, and is described by init --help and
// in the documentation.
func TestStarters(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "workflows.md"))
	if err != nil {
		t.Fatal(err)
	}
	entries, err := starterFiles.ReadDir("starters")
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, e := range entries {
		folders = append(folders, e.Name())
		for _, file := range []string{"flow.yaml", "tests.yaml", "uniflow.yaml"} {
			if _, err := starterFiles.ReadFile("starters/" + e.Name() + "/" + file); err != nil {
				t.Error(err)
			}
		}
		if !strings.Contains(initLong, "\n  "+e.Name()+" ") {
			t.Errorf("init --help does not describe %s", e.Name())
		}
		if !strings.Contains(string(page), "\n| `"+e.Name()+"` |") {
			t.Errorf("docs/workflows.md does not describe %s", e.Name())
		}
	}
	if names := slices.Sorted(slices.Values(starterNames())); !slices.Equal(names, folders) {
		t.Errorf("init knows %v, and there are folders %v", names, folders)
	}
}
