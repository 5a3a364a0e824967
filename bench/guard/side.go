package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// A side is one of the two trees that are compared, and what was built of it.
type side struct {
	Name     string `json:"name"` // base or head
	Revision string `json:"revision"`
	Modified bool   `json:"modified"` // the tree differs from the revision

	dir    string            // of the tree
	out    string            // of what is built
	tests  map[string]string // test binaries by package; of those that are there
	server string            // the program; empty if it is not measured
	names  map[string]bool   // ids of the benchmarks that are there
}

// buildFlags keep the path of the tree and the revision out of what is built, so
// that both sides share the build cache, and the same code is the same binary.
func buildFlags() []string { return []string{"-trimpath", "-ldflags=-s -w"} }

func (s *side) toolchain() program.Toolchain {
	// Each tree is built as its own go.work says: the base may have other modules.
	return program.Toolchain{Dir: s.dir, Env: []string{"CGO_ENABLED=0", "GOWORK="}}
}

// build makes the test binaries of the packages that are there, and the program
// if that is wanted. The flags are for the test binaries.
func (s *side) build(ctx context.Context, packages []string, program bool, flags ...string) error {
	if err := os.MkdirAll(s.out, 0o755); err != nil {
		return err
	}
	s.tests = make(map[string]string)
	for _, pkg := range packages {
		tests, err := filepath.Glob(filepath.Join(s.dir, filepath.FromSlash(pkg), "*_test.go"))
		if err != nil {
			return err
		}
		if len(tests) == 0 {
			continue
		}
		file := filepath.Join(s.out, strings.ReplaceAll(pkg, "/", "-")+".test")
		if err := s.toolchain().Compile(ctx, "./"+pkg, file, append(buildFlags(), flags...)...); err != nil {
			return err
		}
		s.tests[pkg] = file
	}
	if !program {
		return nil
	}
	s.server = filepath.Join(s.out, "uniflow")
	args := slices.Concat([]string{"build", "-buildvcs=false", "-o", s.server}, buildFlags(), []string{"./cmd/uniflow"})
	_, err := s.toolchain().Do(ctx, args...)
	return err
}

// buildBoth builds the sides at the same time, since linking takes one processor.
func buildBoth(ctx context.Context, sides [2]*side, packages []string, program bool) error {
	var errs [2]error
	var both sync.WaitGroup
	for i, s := range sides {
		both.Go(func() {
			if err := s.build(ctx, packages, program); err != nil {
				errs[i] = fmt.Errorf("build %s: %w", s.Name, err)
			}
		})
	}
	both.Wait()
	return errors.Join(errs[:]...)
}

// unchanged returns the packages that have the same benchmarks on both sides to the byte:
// test binaries, which hold all code that they run, and files in the folder of the package,
// which they may read. What is measured of one of them holds for both.
func unchanged(sides [2]*side) ([]string, error) {
	var equal []string
	for pkg := range sides[0].tests {
		if sides[1].tests[pkg] == "" {
			continue
		}
		var sums [2][sha256.Size]byte
		for i, s := range sides {
			var err error
			if sums[i], err = s.sum(pkg); err != nil {
				return nil, err
			}
		}
		if sums[0] == sums[1] {
			equal = append(equal, pkg)
		}
	}
	slices.Sort(equal)
	return equal, nil
}

// sum returns a hash of a package's test binary, and of the names and contents of the files
// in its folder and below.
func (s *side) sum(pkg string) (sum [sha256.Size]byte, err error) {
	all := sha256.New()
	add := func(name, file string) error {
		data, err := os.ReadFile(file)
		fmt.Fprintf(all, "%q %d %x\n", name, len(data), sha256.Sum256(data))
		return err
	}
	if err := add("", s.tests[pkg]); err != nil {
		return sum, err
	}
	folder := s.folder(pkg)
	err = filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		return errors.Join(err, add(name, file))
	})
	return [sha256.Size]byte(all.Sum(nil)), err
}

// discover returns the benchmarks of the items that the side has, by running each
// once.
func (s *side) discover(ctx context.Context, items []item) ([]goBench, error) {
	s.names = make(map[string]bool)
	var found []goBench
	for _, it := range items {
		file := s.tests[it.pkg]
		if file == "" {
			continue
		}
		got, err := program.BenchRun{Binary: file, Bench: it.bench, CPU: it.cpus, Dir: s.folder(it.pkg), Env: benchEnviron(), Args: []string{patience}}.Output(ctx)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, name := range slices.Sorted(maps.Keys(got)) {
			keep, err := it.kept(name)
			if err != nil {
				return nil, err
			}
			b := goBench{it, name}
			if keep && !s.names[b.id()] {
				s.names[b.id()] = true
				found = append(found, b)
			}
		}
	}
	return found, nil
}

// folder returns where tests of a package are run: in the package's folder, as
// they may read testdata.
func (s *side) folder(pkg string) string { return filepath.Join(s.dir, filepath.FromSlash(pkg)) }

// environ returns the environment of what is measured: without what tunes the
// runtime, so that both sides run as they do by default.
func environ() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains([]string{"GOGC", "GOMEMLIMIT", "GOMAXPROCS", "GODEBUG", "GOTRACEBACK"}, name)
	})
}

// benchEnviron is environ for test binaries. They have a heap of some 3 MB, which by
// Go's own rule is collected each time 4 MB were allocated, so that a benchmark is slower
// if a package that it does not use keeps memory. The program gives such a heap room for
// ten times as much; so does this. What benchmarks allocate is compared on its own.
func benchEnviron() []string { return append(environ(), "GOGC=1000") }
