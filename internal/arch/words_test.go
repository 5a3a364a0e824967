//go:build !race

package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plain lists what CONTRIBUTING.md's glossary replaces. A pattern with a group
// called ok is fine where the group takes part in the match.
var plain = []struct{ pattern, instead string }{
	{`(?i)(?:(?P<ok>\bthere )|\b)(?:is|are|was) no (?:(?P<ok>longer|more|less|fewer|different|better|worse|slower|faster)\b|[a-z]+)`, `"is not a"`},
	{`(?i)\bwants\b|\bwants? to be\b`, `"must be", "needs" or "expects"`},
	{`(?i)\bat once\b`, `"immediately", "concurrently" or "together"`},
	{`(?i)\bbut for\b`, `"except for"`},
	{`(?i)\b(?:answers?|does|takes?|knows?|needs?|holds?) (?:it|them) not\b`, `"does not ..."`},
	{`(?i)\bbeside\b`, `"next to", "in addition to" or "as well as"`},
	{`(?i)\b(?:he|his|him|she|hers)\b`, `"you", "they" or what it is`},
	{`(?i)\b(?:seldom|anew|whoever|for good)\b`, `"rarely", "again", the one who is meant, "permanently"`},
	{`(?i)\b(?:nobody|somebody)\b`, `"no one", "someone", or better what it is: a goroutine, a caller, a client`},
	{`(?i)\bhas (?:it|them|the \w+) (?:do|be|go|keep|read|write|run|take|stop|wait|end|start|collect|ignore|send|return|make|give)\b`, `"makes it ..."`},
	{`(?i)\b(?:mouth|complaints|census|hurryNow|nursery|scribe|headway|talker|vouch(?:es)?|hush)\b`, `the field's term, see the glossary`},
}

// TestPlainWords looks for phrases that a reader of technical English would stop at:
// in comments, in the texts of the product, and in documents.
func TestPlainWords(t *testing.T) {
	rules := make([]*regexp.Regexp, len(plain))
	for i, p := range plain {
		rules[i] = regexp.MustCompile(p.pattern)
	}
	check := func(place, text string) {
		for i, rule := range rules {
			for _, m := range rule.FindAllStringSubmatchIndex(text, -1) {
				fine := false
				for g, name := range rule.SubexpNames() {
					fine = fine || name == "ok" && m[2*g] >= 0
				}
				if !fine {
					t.Errorf("%s: %q: write %s", place, text[m[0]:m[1]], plain[i].instead)
				}
			}
		}
	}
	for _, f := range load(t) {
		if f.pkg == "internal/arch" {
			continue // the list itself
		}
		for _, group := range f.ast.Comments {
			check(f.set.Position(group.Pos()).String(), group.Text())
		}
		if f.test {
			continue // its texts may quote anything
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				check(f.set.Position(lit.Pos()).String(), lit.Value)
			}
			return true
		})
	}
	for _, path := range documents(t) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		check(path, string(text))
	}
}

// documents are the files that people read.
func documents(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil:
			return err
		case d.IsDir() && (name == "testdata" || name == "dist" || name == "out" || strings.HasPrefix(name, ".") && name != ".."):
			return fs.SkipDir
		case d.IsDir() || name == "CONTRIBUTING.md": // it has the glossary
		case slices.Contains([]string{".md", ".yaml", ".txtar"}, filepath.Ext(name)) || name == "Makefile":
			paths = append(paths, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		t.Fatal("found no documents")
	}
	return paths
}

// paraphrase matches comments that say what the name says, such as those on methods
// that only implement an interface of the standard library.
var paraphrase = regexp.MustCompile(`^(\w+) (?:implements \S+|returns the \w+(?: of the \w+)?)\.\n$`)

// obvious are methods whose contract the interface that they implement has.
var obvious = []string{"As", "Close", "Enabled", "Error", "Format", "Handle", "Is", "Len", "Less", "MarshalJSON", "Read", "ServeHTTP", "String", "Swap", "UnmarshalJSON", "Unwrap", "WithAttrs", "WithGroup", "Write"}

// TestParaphrases fails on comments that add nothing to the name.
func TestParaphrases(t *testing.T) {
	for _, f := range load(t) {
		for _, decl := range f.ast.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if ok && d.Recv != nil && slices.Contains(obvious, d.Name.Name) && paraphrase.MatchString(d.Doc.Text()) {
				t.Errorf("%s: the comment on %s adds nothing to its name", f.set.Position(d.Pos()), d.Name.Name)
			}
		}
	}
}
