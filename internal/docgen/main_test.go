package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/cli/flow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestGenerate(t *testing.T) {
	root := t.TempDir()
	architecture := filepath.Join(root, "ARCHITECTURE.md")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var talk bytes.Buffer
	write(architecture, "The map is lost.\n")
	if err := generate(&talk, root, true); err == nil || !strings.Contains(err.Error(), "must be there") {
		t.Fatalf("no place for the map: got %v, want an error", err)
	}
	write(architecture, "Above.\n"+mapBegins+"old\n"+mapEnds+"Below.\n")
	write(filepath.Join(root, "uniflow.go"), "// Package uniflow is a test.\npackage uniflow\n")
	if err := generate(&talk, root, true); !errors.Is(err, errStale) || strings.Count(talk.String(), "out of date") != 8+len(flow.Starters()) {
		t.Fatalf("empty folder: got %v, %s, want eight pages and the pictures of the gallery out of date", err, talk.String())
	}
	if err := generate(&talk, root, false); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(architecture)
	if got := string(text); err != nil || !strings.HasPrefix(got, "Above.\n") || !strings.Contains(got, "| `uniflow` | is a test |") || !strings.HasSuffix(got, mapEnds+"Below.\n") {
		t.Errorf("got %v, %s, want the map in its place", err, got)
	}
	talk.Reset()
	if err := generate(&talk, root, true); err != nil || talk.Len() > 0 {
		t.Fatalf("fresh folder: got %v, %s, want nothing", err, talk.String())
	}
	page := filepath.Join(root, "docs", "reference", "cli.md")
	write(page, "changed")
	if err := generate(&talk, root, true); !errors.Is(err, errStale) || !strings.Contains(talk.String(), "cli.md is out of date") {
		t.Fatalf("changed page: got %v, %s, want it out of date", err, talk.String())
	}
	if data, err := os.ReadFile(page); err != nil || string(data) != "changed" {
		t.Errorf("got %q, %v, want a check to change nothing", data, err)
	}
}

// TestDeterministic makes the pages twice: maps must not show.
func TestDeterministic(t *testing.T) {
	first, err := pages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := pages(filepath.Join("..", ".."))
		if err != nil {
			t.Fatal(err)
		}
		for i := range first {
			if !bytes.Equal(first[i].text, again[i].text) {
				t.Errorf("%s: got two versions", first[i].name)
			}
		}
	}
}
