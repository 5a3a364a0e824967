//go:build !race

package arch

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ceiling is the length of a file in lines that calls for splitting it.
const ceiling = 800

var source = sync.OnceValues(func() ([]file, error) { return read(filepath.Join("..", "..")) })

func load(t *testing.T) []file {
	t.Helper()
	files, err := source()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no Go files")
	}
	return files
}

// TestRulesNamePackages checks that no rule is about something that does not exist.
func TestRulesNamePackages(t *testing.T) {
	folders := map[string]bool{"": true}
	for _, f := range load(t) {
		for folder := f.pkg; folder != ""; folder = parent(folder) {
			folders[folder] = true
		}
	}
	exists := func(rule, folder string) {
		if !folders[strings.TrimSuffix(folder, "/*")] {
			t.Errorf("%s: there are no packages in %q", rule, folder)
		}
	}
	for _, l := range layers {
		for _, pkg := range l.packages {
			exists("layers", pkg)
		}
	}
	for _, p := range parts {
		for _, pkg := range p.packages {
			exists("parts", pkg)
		}
	}
	for _, pairs := range []map[string]string{uses, never} {
		for pair := range pairs {
			from, to, _ := strings.Cut(pair, " -> ")
			exists(pair, from)
			exists(pair, to)
		}
	}
	for _, b := range banned {
		for _, folder := range b.allowed {
			exists(b.name, folder)
		}
	}
}

// TestParagraphsOnce looks for paragraphs that stand twice in a document.
func TestParagraphsOnce(t *testing.T) {
	err := filepath.WalkDir(filepath.Join("..", ".."), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" || filepath.Base(filepath.Dir(path)) == "reference" {
			return err // the pages of docs/reference are made of the same texts
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		seen := make(map[string]bool)
		code := false
		for line := range strings.Lines(string(text)) {
			code = code != strings.HasPrefix(strings.TrimSpace(line), "```")
			line = strings.TrimLeft(line, "-* ")
			if len(line) > 80 && !code && !strings.HasPrefix(line, "|") && seen[line] {
				t.Errorf("%s: stands twice: %s", path, line)
			}
			seen[line] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLayers checks every import of one package of ours by another.
func TestLayers(t *testing.T) {
	for _, f := range load(t) {
		if f.test {
			continue // tests may look around
		}
		level, from, ok := place(f.pkg)
		if !ok {
			t.Errorf("%s: package %q has no layer: give it one in layers.go", f.path, f.pkg)
			continue
		}
		for _, imp := range f.ast.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			below, to, ok := place(target)
			switch {
			case !ok:
				t.Errorf("%s: imports %q, which has no layer", f.path, target)
			case to == from:
			case below > level, below == level && uses[from+" -> "+to] == "":
				t.Errorf("%s: %s must not import %s, which is not below it", f.path, f.pkg, target)
			}
			for pair, why := range never {
				a, b, _ := strings.Cut(pair, " -> ")
				if under(f.pkg, a) && under(target, b) && !under(target, "internal/ground") {
					t.Errorf("%s: %s must not import %s: %s", f.path, f.pkg, target, why)
				}
			}
		}
	}
}

func under(pkg, folder string) bool { return pkg == folder || strings.HasPrefix(pkg, folder+"/") }

// TestPackageComments checks that every package says what it is for.
func TestPackageComments(t *testing.T) {
	said := make(map[string]bool)
	for _, f := range load(t) {
		if f.test && f.pkg != "internal/arch" {
			continue
		}
		said[f.pkg] = said[f.pkg] || f.ast.Doc != nil
	}
	for pkg, ok := range said {
		if !ok {
			t.Errorf("package %q has no comment", pkg)
		}
	}
}

// TestDocComments checks that the comment on an exported name begins with it, as Go's
// documentation has it, and that no other begins with the name of something else, which
// a renaming left behind.
func TestDocComments(t *testing.T) {
	for _, f := range load(t) {
		if f.test {
			continue // a test's comment says what it shows
		}
		for _, decl := range f.ast.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				firstWord(t, f, d.Doc, d.Name.Name)
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if ts, ok := s.(*ast.TypeSpec); ok && len(d.Specs) == 1 {
						firstWord(t, f, d.Doc, ts.Name.Name)
					}
				}
			}
		}
	}
}

var mixedCaps = regexp.MustCompile(`^[a-z]+[A-Z]\w*[,.:]?$`)

func firstWord(t *testing.T, f file, doc *ast.CommentGroup, name string) {
	t.Helper()
	if doc == nil {
		return
	}
	words := strings.Fields(doc.Text())
	for len(words) > 0 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	if len(words) == 0 {
		return
	}
	word := strings.TrimRight(words[0], ",.:")
	if !ast.IsExported(name) && word != name && strings.EqualFold(word, name) {
		t.Errorf("%s: the comment on %s spells it %q", f.set.Position(doc.Pos()), name, word)
	}
	if !ast.IsExported(name) && !mixedCaps.MatchString(words[0]) {
		return
	}
	if strings.TrimRight(words[0], ",.:'s") != strings.TrimRight(name, "s") && strings.TrimRight(words[0], ",.:") != name {
		t.Errorf("%s: the comment on %s begins with %q", f.set.Position(doc.Pos()), name, words[0])
	}
}

// TestBans looks for what is not done here.
func TestBans(t *testing.T) {
	for _, f := range load(t) {
		if lines := f.lines(); lines > ceiling {
			t.Errorf("%s: %d lines, more than %d: is it one concept?", f.path, lines, ceiling)
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && n.Name.Name == "init" {
					t.Errorf("%s: nothing happens in init", f.set.Position(n.Pos()))
				}
			case *ast.GoStmt:
				if !f.test {
					t.Errorf("%s: a goroutine needs an owner who waits: use a sync.WaitGroup's Go", f.set.Position(n.Pos()))
				}
			case *ast.SelectorExpr:
				selector(t, f, n)
			}
			return true
		})
	}
}

// bannedInTests are functions that tests may not call either.
var bannedInTests = []string{"time.Sleep", "testing.Short", "t.Skip", "t.Skipf", "t.SkipNow"}

// banned are functions that few may call.
var banned = []struct {
	name    string
	allowed []string // folders
	why     string
}{
	{"time.Sleep", nil, "wait for the event, and obey the context"},
	{"testing.Short", nil, "CI runs every test at its full length"},
	{"t.Skip", nil, "CI runs every test"},
	{"t.Skipf", nil, "CI runs every test"},
	{"t.SkipNow", nil, "CI runs every test"},
	{"os.Exit", []string{"cmd", "internal/cli", "internal/ground/leak", "internal/docgen", "node/stream/streamtest", "bench", "test"}, "only commands exit, and tests that are run as one"},
	{"os.Getenv", []string{"cmd", "internal/cli", "bench", "test", "observe/otlp", "node/stream/streamtest", "internal/ground/kill"}, "only commands and kits of tests read the environment, and what OpenTelemetry specifies so"},
	{"fmt.Println", []string{"cmd", "internal/docgen", "bench", "examples"}, "standard output belongs to commands"},
	{"fmt.Printf", []string{"cmd", "internal/docgen", "bench", "examples"}, "standard output belongs to commands"},
}

func selector(t *testing.T, f file, n *ast.SelectorExpr) {
	t.Helper()
	pkg, ok := n.X.(*ast.Ident)
	if !ok {
		return
	}
	for _, b := range banned {
		if pkg.Name+"."+n.Sel.Name != b.name || f.test && !slices.Contains(bannedInTests, b.name) {
			continue
		}
		if !slices.ContainsFunc(b.allowed, func(folder string) bool { return under(f.pkg, folder) }) {
			t.Errorf("%s: %s: %s", f.set.Position(n.Pos()), b.name, b.why)
		}
	}
}
