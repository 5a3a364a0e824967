package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestGenerate(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "docs", "reference")
	var talk bytes.Buffer
	if err := generate(&talk, folder, true); !errors.Is(err, errStale) || strings.Count(talk.String(), "out of date") != 4 {
		t.Fatalf("empty folder: got %v, %s, want four pages out of date", err, talk.String())
	}
	if err := generate(&talk, folder, false); err != nil {
		t.Fatal(err)
	}
	talk.Reset()
	if err := generate(&talk, folder, true); err != nil || talk.Len() > 0 {
		t.Fatalf("fresh folder: got %v, %s, want nothing", err, talk.String())
	}
	page := filepath.Join(folder, "cli.md")
	if err := os.WriteFile(page, []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := generate(&talk, folder, true); !errors.Is(err, errStale) || !strings.Contains(talk.String(), "cli.md is out of date") {
		t.Fatalf("changed page: got %v, %s, want it out of date", err, talk.String())
	}
	if data, err := os.ReadFile(page); err != nil || string(data) != "changed" {
		t.Errorf("got %q, %v, want a check to change nothing", data, err)
	}
}

// TestDeterministic makes the pages twice: maps must not show.
func TestDeterministic(t *testing.T) {
	first, err := pages()
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		again, err := pages()
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
