//go:build linux && !race

package footprint

import (
	"debug/buildinfo"
	"debug/elf"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
)

var listPackages = flag.Bool("packages", false, "print what the program's file consists of")

// A part is what the symbols of one group of packages take in the file.
type part struct {
	name       string
	text, data int64
}

// listParts prints what a program consists of: its own packages, the modules that they
// need, and the standard library. The program has symbols; apart from them, a stripped
// one is the same. The tables that the runtime needs for each function are shared out by
// the size of the code.
func listParts(t *testing.T, program string, stripped int64) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	modules := []string{info.Main.Path}
	for _, dep := range info.Deps {
		modules = append(modules, dep.Path)
	}
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // it was only read
	symbols, err := file.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	parts := make(map[string]*part)
	var text, all int64
	for _, s := range symbols {
		kind := elf.ST_TYPE(s.Info)
		if int(s.Section) >= len(file.Sections) || file.Sections[s.Section].Type == elf.SHT_NOBITS || kind != elf.STT_FUNC && kind != elf.STT_OBJECT {
			continue
		}
		name := group(s.Name, modules)
		p := parts[name]
		if p == nil {
			p = &part{name: name}
			parts[name] = p
		}
		all += int64(s.Size)
		if kind == elf.STT_FUNC {
			p.text += int64(s.Size)
			text += int64(s.Size)
		} else {
			p.data += int64(s.Size)
		}
	}
	var sorted []*part
	for _, p := range parts {
		sorted = append(sorted, p)
	}
	shared := float64(max(0, stripped-all)) / float64(text) // tables of functions, types and strings, which have no symbols
	slices.SortFunc(sorted, func(a, b *part) int { return int(b.whole(shared) - a.whole(shared)) })
	fmt.Printf("%8s %8s %8s  %s\n", "MB", "code", "data", "packages")
	var rest part
	for i, p := range sorted {
		if i >= 60 {
			rest.text, rest.data = rest.text+p.text, rest.data+p.data
			continue
		}
		p.print(shared)
	}
	rest.name = fmt.Sprintf("%d others", max(0, len(sorted)-60))
	rest.print(shared)
	fmt.Printf("%8.2f %8.2f %8.2f  in all, stripped\n", mb(stripped), mb(text), mb(all-text))
}

// whole is what a part takes, with its share of the tables: shared bytes for each of code.
func (p *part) whole(shared float64) int64 {
	return p.text + p.data + int64(shared*float64(p.text))
}

func (p *part) print(shared float64) {
	fmt.Printf("%8.2f %8.2f %8.2f  %s\n", mb(p.whole(shared)), mb(p.text), mb(p.data), p.name)
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// group returns what the symbol of a package is counted as: a folder of this module, a
// module, or a part of the standard library.
func group(symbol string, modules []string) string {
	symbol, isType := strings.CutPrefix(symbol, "type:")
	symbol = strings.TrimPrefix(strings.TrimPrefix(symbol, ".eq."), ".hash.")
	symbol = strings.TrimLeft(symbol, "*.[]0123456789")
	symbol, _, _ = strings.Cut(symbol, "[") // of type arguments
	symbol, _, _ = strings.Cut(symbol, "(") // of a method's receiver
	switch {
	case strings.HasPrefix(symbol, "go:") || strings.HasPrefix(symbol, "$"):
		return "(tables)"
	case isType && strings.ContainsAny(symbol, " {,"), symbol == "":
		return "(types)"
	}
	slash := strings.LastIndex(symbol, "/") + 1
	name, _, found := strings.Cut(symbol[slash:], ".")
	if !found {
		return "(no package)"
	}
	pkg := strings.ReplaceAll(symbol[:slash]+name, "%2e", ".")
	best := ""
	for _, m := range modules {
		if (pkg == m || strings.HasPrefix(pkg, m+"/")) && len(m) > len(best) {
			best = m
		}
	}
	if best == modules[0] {
		words := strings.Split(strings.TrimPrefix(strings.TrimPrefix(pkg, best), "/"), "/")
		return "./" + strings.Join(words[:min(2, len(words))], "/")
	}
	if best != "" {
		return best
	}
	first, _, nested := strings.Cut(pkg, "/")
	if nested && strings.Contains(first, ".") {
		return pkg // of no module that the program knows
	}
	return "std " + first
}

// TestGroup counts symbols for the right group.
func TestGroup(t *testing.T) {
	modules := []string{"example.com/x", "example.com/x/lib", "gopkg.in/yaml.v3"}
	f := func(symbol, want string) {
		t.Helper()
		if got := group(symbol, modules); got != want {
			t.Errorf("%s: got %s, want %s", symbol, got, want)
		}
	}
	f("example.com/x.Run", "./")
	f("example.com/x/nodes/web.(*listener).Serve", "./nodes/web")
	f("example.com/x/a/b/c.F", "./a/b")
	f("example.com/x/lib/y.F", "example.com/x/lib")
	f("gopkg.in/yaml%2ev3.Unmarshal", "gopkg.in/yaml.v3")
	f("type:.eq.example.com/x/a.T", "./a")
	f("type:*[]struct { F example.com/x/a.T }", "(types)")
	f("go:itab.*example.com/x/a.T,io.Reader", "(tables)")
	f("$f64.3ff0000000000000", "(tables)")
	f("x_cgo_munmap", "(no package)")
	f("net/http.(*Server).Serve", "std net")
	f("runtime.main", "std runtime")
	f("slices.SortFunc[go.shape.int]", "std slices")
	f("go:string.*", "(tables)")
}
