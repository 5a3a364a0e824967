package query

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var block = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```")

// TestDocs parses the examples of the reference page, which must mention every
// word of the language.
func TestDocs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "docs", "trail-queries.md"))
	if err != nil {
		t.Fatal(err)
	}
	page, found := string(data), 0
	for _, m := range block.FindAllStringSubmatch(page, -1) {
		if m[1] == "json" && strings.Contains(m[2], `"stats"`) {
			continue // an answer
		}
		found++
		if _, err := Parse("trail-queries.md", []byte(m[2])); err != nil {
			t.Errorf("%v\n%s", err, m[2])
		}
	}
	if found < 15 {
		t.Errorf("got %d examples, want more", found)
	}
	words := slices.Concat(opNames[Exists:InCohort], unitNames[:], modeNames(), measureNames[:], kindNames())
	for _, word := range words {
		if !regexp.MustCompile("[`{( ]" + word + "[`:(]").MatchString(page) {
			t.Errorf("got no word of %s, want one", word)
		}
	}
}

// TestDocComment parses the examples of the package's reference.
func TestDocComment(t *testing.T) {
	data, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	found := 0
	for _, line := range append(strings.Split(string(data), "\n"), "") {
		code, indented := strings.CutPrefix(line, "//\t")
		if indented {
			example.WriteString(code + "\n")
			continue
		}
		doc := example.String()
		example.Reset()
		if !slices.ContainsFunc(kindNames(), func(kind string) bool { return strings.HasPrefix(doc, kind+":\n") }) {
			continue
		}
		found++
		// Their comments say that they go without others.
		doc = regexp.MustCompile(`(?m)^  (order: any|bucket: week|timezone: Asia).*\n`).ReplaceAllString(doc, "")
		if _, err := Parse("doc.go", []byte(doc)); err != nil {
			t.Errorf("%v\n%s", err, doc)
		}
	}
	if found != 5 {
		t.Errorf("got %d examples, want one of each kind", found)
	}
}
