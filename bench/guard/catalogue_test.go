package main

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestCatalogue checks that every item names benchmarks of a package that is
// there, and keeps to the rules of -test.bench.
func TestCatalogue(t *testing.T) {
	for _, it := range catalogue() {
		if it.cpus < 1 || it.cpus > 2 || it.group == "" {
			t.Errorf("%+v: want a group, and one processor or two", it)
		}
		if _, err := it.kept("x"); err != nil {
			t.Errorf("%s: %v", it.group, err)
		}
		top, err := regexp.Compile(strings.Split(it.bench, "/")[0])
		if err != nil {
			t.Errorf("%s: %v", it.group, err)
			continue
		}
		names, there := benchmarksOf(t, filepath.Join("..", "..", filepath.FromSlash(it.pkg)))
		found := false
		for _, name := range names {
			found = found || top.MatchString(name)
		}
		if there && !found {
			t.Errorf("%s: package %s has benchmarks %v, none like %s", it.group, it.pkg, names, it.bench)
		}
	}
}

// benchmarksOf returns the names of the benchmarks in a folder, if it is there.
func benchmarksOf(t *testing.T, dir string) (names []string, there bool) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil, false
	}
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range parsed.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Benchmark") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names, len(files) > 0
}

func TestPattern(t *testing.T) {
	f := func(name, want string) {
		t.Helper()
		if got := (goBench{name: name}).pattern(); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	f("Hop", "^BenchmarkHop$")
	f("Eval/cel/map", "^BenchmarkEval$/^cel$/^map$")
	f("X/n=1.5+", `^BenchmarkX$/^n=1\.5\+$`)
}

func TestKept(t *testing.T) {
	lock := item{keep: "(^|/)lock(/|$)"}
	for name, want := range map[string]bool{"Contended/lock": true, "Contended/lock/4": true, "Contended/4/lock": true, "Contended/sync": false, "Unlocked": false} {
		if got, err := lock.kept(name); err != nil || got != want {
			t.Errorf("%s: got %t, %v, want %t", name, got, err, want)
		}
	}
}
