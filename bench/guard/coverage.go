package main

import (
	"cmp"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/tools/cover"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// serving are the packages that serve a workflow.
var serving = []string{"value", "node", "nodes", "lang", "observe", "internal/run"}

// hotShare is the share of a server's CPU above which a guarded benchmark must
// reach a function.
const hotShare = 0.01

// A hotFunction is a function of the module that takes much of a server's CPU, with
// what it calls outside of the module.
type hotFunction struct {
	name     string
	workload string
	share    float64
	lines    []place // that were sampled
}

// coverage lists the hot functions of servers under load that no guarded
// benchmark reaches, and reports whether there are any.
func coverage(ctx context.Context, c config, dir string, stdout, stderr io.Writer) (ok bool, err error) {
	tree, err := filepath.Abs(c.dir)
	if err != nil {
		return false, err
	}
	s := &side{Name: "head", dir: tree, out: filepath.Join(dir, "head.out")}
	fmt.Fprintln(stderr, "building the packages that serve, with coverage")
	var items []item
	var packages []string
	for _, it := range catalogue() {
		if slices.ContainsFunc(serving, func(pkg string) bool { return it.pkg == pkg || strings.HasPrefix(it.pkg, pkg+"/") }) {
			items, packages = append(items, it), append(packages, it.pkg)
		}
	}
	slices.Sort(packages)
	instrumented := "-coverpkg=" + module + "/" + strings.Join(serving, "/...,"+module+"/") + "/..."
	if err := s.build(ctx, slices.Compact(packages), true, "-cover", "-covermode=set", instrumented); err != nil {
		return false, err
	}
	fmt.Fprintln(stderr, "running their guarded benchmarks once")
	reached, err := s.reach(ctx, items, dir)
	if err != nil {
		return false, err
	}
	var hot []hotFunction
	workloads, err := server.Workloads(filepath.Join(tree, "examples"))
	if err != nil {
		return false, err
	}
	for _, w := range workloads {
		fmt.Fprintln(stderr, "profiling", w.Name, "under load")
		found, err := s.hot(ctx, w, dir, c.load)
		if err != nil {
			return false, err
		}
		hot = append(hot, found...)
	}
	unguarded := slices.DeleteFunc(slices.Clone(hot), func(f hotFunction) bool {
		return slices.ContainsFunc(f.lines, func(p place) bool { return reached.has(tree, p) })
	})
	slices.SortFunc(unguarded, func(a, b hotFunction) int { return cmp.Compare(b.share, a.share) })
	for _, f := range unguarded {
		fmt.Fprintf(stdout, "NOT GUARDED %s: %.1f %% of the CPU of %s, and no benchmark of the catalogue reaches it\n", f.name, 100*f.share, f.workload)
	}
	fmt.Fprintf(stdout, "%d functions take %g %% of the CPU of a server or more; %d of them are reached by no guarded benchmark\n", len(hot), 100*hotShare, len(unguarded))
	return len(unguarded) == 0, nil
}

// lines are the covered blocks of files, which are named by import path.
type lines map[string][]cover.ProfileBlock

// has reports whether the function that has a line was run, in a tree of the module. Lines are too fine: the
// condition of a case is run on the line on which its block begins, which is not.
func (l lines) has(tree string, p place) bool {
	first, last := extent(filepath.Join(tree, filepath.FromSlash(strings.TrimPrefix(p.File, module+"/"))), p.Line)
	return slices.ContainsFunc(l[p.File], func(b cover.ProfileBlock) bool { return b.StartLine <= last && first <= b.EndLine })
}

// extent returns the first and the last line of the function of a file that has a line, or the line itself.
func extent(path string, line int) (first, last int) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
	if err != nil { // it is not in the tree
		return line, line
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			first, last = set.Position(f.Pos()).Line, set.Position(f.End()).Line
			if first <= line && line <= last {
				return first, last
			}
		}
	}
	return line, line
}

// reach runs the benchmarks of the items once and returns the lines that were run.
func (s *side) reach(ctx context.Context, items []item, dir string) (lines, error) {
	found, err := s.discover(ctx, items)
	if err != nil {
		return nil, err
	}
	all := make(lines)
	file := filepath.Join(dir, "cover.out")
	for _, b := range found {
		r := benchSubject{goBench: b}.run(s, 0, "-test.coverprofile="+file)
		if _, err := r.Output(ctx); err != nil {
			return nil, err
		}
		covered, err := cover.ParseProfiles(file)
		if err != nil {
			return nil, err
		}
		for _, p := range covered {
			for _, block := range p.Blocks {
				if block.Count > 0 && !slices.Contains(all[p.FileName], block) {
					all[p.FileName] = append(all[p.FileName], block)
				}
			}
		}
	}
	return all, nil
}

// hot serves a workflow with metrics on, as in production, loads it and returns the
// functions whose share of the CPU is large enough.
func (s *side) hot(ctx context.Context, w server.Workload, dir string, span time.Duration) (hot []hotFunction, err error) {
	admin, err := server.FreeAddr()
	if err != nil {
		return nil, err
	}
	cpu := filepath.Join(dir, w.Name+".pprof")
	if _, err := w.Run(ctx, s.server, dir, environ(), 5*span, "--admin", admin, "--cpuprofile", cpu); err != nil {
		return nil, err
	}
	p, err := program.ReadProfile(cpu)
	if err != nil {
		return nil, err
	}
	for name, f := range Flat(p, module) {
		if f.Share >= hotShare {
			hot = append(hot, hotFunction{name, w.Name, f.Share, f.Places})
		}
	}
	return hot, nil
}
