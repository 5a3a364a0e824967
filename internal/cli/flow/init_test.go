package flow

import (
	"slices"
	"strings"
	"testing"
)

// Each starter is a folder with a workflow and its tests, and is described by init --help.
func TestStarters(t *testing.T) {
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
	for _, s := range Starters() {
		if s.Purpose != last && seen[s.Purpose] {
			t.Errorf("%s is apart from the others of %q", s.Name, s.Purpose)
		}
		seen[s.Purpose], last = true, s.Purpose
	}
	for line := range strings.Lines(list) {
		if len(line) > 88 {
			t.Errorf("too long: %q", line)
		}
	}
}
