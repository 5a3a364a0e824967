//go:build !race

package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/uniflow-labs/uniflow"

// layers lists the packages from the bottom up; a package may import those of
// the rows below its own, and what uses says of its own row. Packages that are
// not listed take the row of the nearest folder above them.
var layers = [][]string{
	{"internal/ground/spell", "internal/ground/invariant", "internal/ground/leak", "internal/ground/faultproxy", "internal/ground/show", "internal/ground/syncbuffer", "internal/ground/freeport", "internal/servertest", "internal/ground/vfs", "internal/ground/jsonscan", "internal/ground/doctree"},
	{"value", "diag", "schema", "internal/ground/spool", "trail/event"},
	{"internal/redact", "internal/memory", "internal/effect", "internal/clock", "internal/lifecycle", "internal/yamltree", "lock", "batch", "trail/query", "trail/internal/segment", "trail/internal/tabular", "format"},
	{"trail/internal/exec", "trail/dialect"},
	{"trail"},
	{"batch/internal/oracle", "internal/loader", "internal/trailtest", "trail/trailtest"},
	{"node", "spec", "lang", "observe", "observe/prom", "observe/flight", "observe/otlp", "bench/baseline", "internal/loader/trailstore"},
	{"node/envelope"},
	{"node/accept", "node/stream", "node/handover", "node/jsonschema", "node/openapi", "node/session", "internal/waits"},
	{"internal/registry"},
	{"internal/expand"},
	{"internal/compile", "internal/check"},
	{"internal/run", "nodes/ai", "nodes/api", "nodes/auth", "nodes/chat", "nodes/core", "nodes/data", "nodes/dialogue", "nodes/events", "nodes/files", "nodes/kafka", "nodes/mcp", "nodes/nats", "nodes/schedule", "nodes/serve", "nodes/sockets", "nodes/streams", "nodes/web"},
	{"", "nodes/std", "internal/flame"},
	{"internal/suite"},
	{"flowtest"},
	{"node/stream/streamtest"},
	{"internal/admin", "internal/cli/app", "internal/cli/reference"},
	{"internal/cli/app/apptest", "internal/cli/settings"},
	{"internal/cli/flow", "internal/cli/profile", "internal/cli/trail"},
	{"internal/cli/loader"},
	{"internal/cli", "internal/docgen"},
	{"cli"},
	{"cmd", "bench", "examples", "test", "batch/faults", "internal/arch"},
}

// uses are the imports allowed within a row, with the reason.
var uses = map[string]string{
	"internal/servertest -> internal/ground/freeport": "servers of tests need ports",
	"nodes/ai -> nodes/mcp":                           "a model may call the tools of servers",
	"nodes/dialogue -> nodes/data":                    "sessions are kept in its databases",
	"schema -> value":                                 "a config holds values",
	"schema -> diag":                                  "a config reports what is wrong with it",
	"observe -> node":                                 "an observer is told what nodes do",
	"observe/prom -> observe":                         "it shows metrics",
	"observe/prom -> node":                            "it shows what nodes report of themselves",
	"observe/flight -> observe":                       "it keeps timelines",
	"observe/otlp -> observe":                         "it sends timelines",
	"internal/docgen -> internal/cli":                 "it writes the pages that the command line shows",
}

// never are imports that the rows would allow.
var never = map[string]string{
	" -> nodes":                  "the host hands the kinds to an engine",
	"nodes/ai -> internal":       "kinds are written against the public contract",
	"nodes/api -> internal":      "kinds are written against the public contract",
	"nodes/auth -> internal":     "kinds are written against the public contract",
	"nodes/chat -> internal":     "kinds are written against the public contract",
	"nodes/dialogue -> internal": "kinds are written against the public contract",
	"nodes/mcp -> internal":      "kinds are written against the public contract",
	"nodes/serve -> internal":    "kinds are written against the public contract",
	"nodes/core -> internal":     "kinds are written against the public contract",
	"nodes/web -> internal":      "kinds are written against the public contract",
	"nodes/data -> internal":     "kinds are written against the public contract",
	"nodes/events -> internal":   "kinds are written against the public contract",
	"nodes/files -> internal":    "kinds are written against the public contract",
	"nodes/kafka -> internal":    "kinds are written against the public contract",
	"nodes/nats -> internal":     "kinds are written against the public contract",
	"nodes/schedule -> internal": "kinds are written against the public contract",
	"nodes/sockets -> internal":  "kinds are written against the public contract",
	"nodes/streams -> internal":  "kinds are written against the public contract",
	"spec -> node":               "documents know no kinds",
	"node -> spec":               "node authors see no documents",
	"batch -> value":             "another service links batch alone",
	"batch -> schema":            "another service links batch alone",
	"batch -> diag":              "another service links batch alone",
	"trail -> value":             "another service links trail alone",
	"trail -> schema":            "another service links trail alone",
	"trail -> diag":              "another service links trail alone",
}

// ceiling is the length of a file in lines that calls for splitting it.
const ceiling = 800

// A file is a parsed Go file of the module.
type file struct {
	path string // with slashes, from the root
	pkg  string // its folder, "" for the root
	ast  *ast.File
	set  *token.FileSet
	test bool
}

func load(t *testing.T) []file {
	t.Helper()
	var files []file
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "testdata" || d.Name() == "dist" || strings.HasPrefix(d.Name(), ".") && path != root) {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		pkg := filepath.ToSlash(filepath.Dir(rel))
		if pkg == "." {
			pkg = ""
		}
		files = append(files, file{rel, pkg, parsed, set, strings.HasSuffix(rel, "_test.go")})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("found no Go files")
	}
	return files
}

// row returns the layer of a package and its listed name.
func row(pkg string) (level int, listed string, ok bool) {
	for {
		for i, l := range layers {
			if slices.Contains(l, pkg) {
				return i, pkg, true
			}
		}
		if pkg == "" || !strings.Contains(pkg, "/") {
			return 0, "", false
		}
		pkg = pkg[:strings.LastIndex(pkg, "/")]
	}
}

// TestLayers checks every import of one package of ours by another.
func TestLayers(t *testing.T) {
	for _, f := range load(t) {
		if f.test {
			continue // tests may look around
		}
		level, from, ok := row(f.pkg)
		if !ok {
			t.Errorf("%s: package %q has no layer: give it one in layers", f.path, f.pkg)
			continue
		}
		for _, imp := range f.ast.Imports {
			path := strings.Trim(imp.Path.Value, `"`)
			if path != module && !strings.HasPrefix(path, module+"/") {
				continue
			}
			target := strings.TrimPrefix(strings.TrimPrefix(path, module), "/")
			below, to, ok := row(target)
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
	if len(words) == 0 || !ast.IsExported(name) && !mixedCaps.MatchString(words[0]) {
		return
	}
	if strings.TrimRight(words[0], ",.:'s") != strings.TrimRight(name, "s") && strings.TrimRight(words[0], ",.:") != name {
		t.Errorf("%s: the comment on %s begins with %q", f.set.Position(doc.Pos()), name, words[0])
	}
}

// TestBans looks for what is not done here.
func TestBans(t *testing.T) {
	for _, f := range load(t) {
		lines := f.set.Position(f.ast.End()).Line
		if lines > ceiling {
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
	{"os.Getenv", []string{"cmd", "internal/cli", "bench", "test", "observe/otlp", "node/stream/streamtest"}, "only commands and kits of tests read the environment, and what OpenTelemetry specifies so"},
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
