package corpus

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var counterpart = regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)

// TestBenthos holds docs/from-benthos.md to its word: each row of three columns leads to
// a workflow that is run, or says that there is none. A file of mistakes is said to be
// checked only.
func TestBenthos(t *testing.T) {
	docs := filepath.Join("..", "..", "docs")
	page, err := os.ReadFile(filepath.Join(docs, "from-benthos.md"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	linked := 0
	for row := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSpace(row), " | ")
		if !strings.HasPrefix(row, "| ") || len(cells) != 3 || strings.HasPrefix(row, "| ---") || strings.HasPrefix(row, "| Benthos") {
			continue
		}
		links := counterpart.FindAllStringSubmatch(cells[2], -1)
		if none := strings.HasPrefix(cells[1], "none"); len(links) == 0 && !none {
			t.Errorf("no link: %s", row)
		}
		mistakes := false
		for _, link := range links {
			path, err := filepath.Rel(filepath.Join("test", "corpus"), filepath.Join("docs", link[1]))
			if err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Errorf("%v: %s", err, row)
				continue
			}
			if filepath.Dir(path) != "." {
				continue // an example or a page, which has tests of its own
			}
			linked++
			if !slices.Contains(run, path) {
				t.Errorf("%s is not run: %s", path, row)
			}
			mistakes = mistakes || len(expected(t, string(data))) > 0
		}
		if checked := strings.Contains(cells[2], "checked"); checked != mistakes {
			t.Errorf("got checked %t, want %t: %s", checked, mistakes, row)
		}
	}
	if linked < 50 {
		t.Errorf("found only %d links to the corpus", linked)
	}
}
