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
		if !strings.Contains(starterList(), "\n  "+e.Name()+" ") {
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

// The starters of one purpose are listed together, each in a line that a terminal has room for.
func TestStarterList(t *testing.T) {
	list := starterList()
	seen := map[string]bool{}
	last := ""
	for _, s := range starters() {
		if s.purpose != last && seen[s.purpose] {
			t.Errorf("%s is apart from the others of %q", s.name, s.purpose)
		}
		seen[s.purpose], last = true, s.purpose
	}
	for line := range strings.Lines(list) {
		if len(line) > 88 {
			t.Errorf("too long: %q", line)
		}
	}
}
