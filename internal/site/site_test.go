package site

import (
	"html"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

var (
	href   = regexp.MustCompile(` (?:href|src)="([^"]*)"`)
	anchor = regexp.MustCompile(` id="([^"]*)"`)
)

// TestCheckout follows each link of the site of this checkout.
func TestCheckout(t *testing.T) {
	dir := t.TempDir()
	if err := Write(os.DirFS(filepath.Join("..", "..")), dir); err != nil {
		t.Fatal(err)
	}
	pages, followed := 0, 0
	err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".html" {
			return err
		}
		pages++
		for _, m := range href.FindAllStringSubmatch(read(t, file), -1) {
			link, fragment, _ := strings.Cut(html.UnescapeString(m[1]), "#")
			if strings.Contains(link, ":") {
				continue
			}
			followed++
			fragment, err := url.PathUnescape(fragment) // as browsers do
			if err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
			}
			target := file
			if link != "" {
				target = filepath.Join(filepath.Dir(file), filepath.FromSlash(link))
			}
			text := read(t, target)
			if fragment != "" && !hasAnchor(text, fragment) {
				t.Errorf("%s: link to %s: no such heading", file, m[1])
			}
		}
		return nil
	})
	if err != nil || pages < 20 || followed < 1000 {
		t.Errorf("got %d pages with %d links, error %v", pages, followed, err)
	}
}

func hasAnchor(text, fragment string) bool {
	for _, m := range anchor.FindAllStringSubmatch(text, -1) {
		if html.UnescapeString(m[1]) == fragment {
			return true
		}
	}
	return false
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Error(err)
	}
	return string(data)
}

func TestWrite(t *testing.T) {
	source := fstest.MapFS{
		"README.md":         {Data: []byte("# Uniflow\n\nSee [steps](docs/steps.md#two-steps) and [one](examples).\n")},
		"docs/README.md":    {Data: []byte("# Documentation\n\n## Learn\n\n- [Steps](steps.md): all of them\n- [단계](steps.ko.md)\n")},
		"docs/steps.md":     {Data: []byte("# Steps\n\nFirst.\n\n## Two steps\n\nA `b < c`\n\n## Two steps\n\n[Home](../README.md)\n")},
		"docs/steps.ko.md":  {Data: []byte("# 단계\n\n## 두 단계\n\n[위](#두-단계)\n")},
		"examples/one.yaml": {Data: []byte("kind: nop\n")},
	}
	dir := t.TempDir()
	if err := Write(source, dir); err != nil {
		t.Fatal(err)
	}
	for file, parts := range map[string][]string{
		"index.html":         {`<title>Uniflow</title>`, `href="docs/steps.html#two-steps"`, `href="examples/one.yaml"`, `<h2>Learn</h2>`},
		"docs/steps.html":    {`<title>Steps · Uniflow</title>`, `id="two-steps"`, `id="two-steps-1"`, `href="../index.html"`, `b &lt; c`, `aria-current="page">Steps<`},
		"docs/steps.ko.html": {`<html lang="ko">`, `id="두-단계"`},
		"examples/one.yaml":  {"kind: nop\n"},
		"index.js":           {`{"page":"Steps","title":"Two steps","href":"docs/steps.html#two-steps","text":"Two steps A b \u003c c"}`},
	} {
		text := read(t, filepath.Join(dir, filepath.FromSlash(file)))
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("%s: got %s, want %s", file, text, part)
			}
		}
	}
	delete(source, "docs/steps.md")
	if err := Write(source, dir); err == nil || !strings.Contains(err.Error(), "docs/steps.md") {
		t.Errorf("got %v, want an error that names the missing page", err)
	}
}
