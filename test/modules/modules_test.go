// Package modules checks that a program that links one library gets the requirements
// of that library, and none of the engine's.
package modules

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/uniflow-labs/uniflow"

// A program is a separate module that imports one library.
type program struct {
	library string
	source  string
	modules []string // all that the program's build list must have, apart from the program itself
}

var programs = []program{
	{"lock", `package main

import "` + module + `/lock"

func main() {
	var mu lock.Mutex
	mu.Lock()
	mu.Unlock()
}
`, []string{"internal/ground", "lock", "golang.org/x/sys"}},
	{"batch", `package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"` + module + `/batch"
)

func main() {
	send, err := batch.NewHTTP("http://127.0.0.1:9/batch", batch.HTTPOptions{})
	p, failed := batch.New(batch.Options[string]{
		Encode: func(dst []byte, s *string) ([]byte, error) { return append(dst, *s...), nil },
		Send:   send,
	})
	if err := errors.Join(err, failed); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if _, err := p.Close(context.Background()); err != nil {
		os.Exit(1)
	}
}
`, []string{"batch", "internal/ground", "github.com/klauspost/compress", "go.yaml.in/yaml/v4", "golang.org/x/sys"}},
	{"trail", `package main

import (
	"os"

	"` + module + `/trail"
)

func main() {
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		os.Exit(1)
	}
	defer os.RemoveAll(dir)
	s, err := trail.Open(dir, trail.Options{})
	if err != nil || s.Close() != nil {
		os.Exit(1)
	}
}
`, []string{
		"internal/ground", "internal/records", "internal/trailtest", "trail", "github.com/DATA-DOG/go-sqlmock", "github.com/alecthomas/assert/v2", "github.com/alecthomas/repr",
		"github.com/andybalholm/brotli", "github.com/cespare/xxhash/v2", "github.com/golang/protobuf", "github.com/google/go-cmp",
		"github.com/google/uuid", "github.com/hexops/gotextdiff", "github.com/klauspost/compress", "github.com/lib/pq",
		"github.com/parquet-go/bitpack", "github.com/parquet-go/jsonlite", "github.com/parquet-go/parquet-go",
		"github.com/pierrec/lz4/v4", "github.com/twpayne/go-geom", "github.com/twpayne/go-kml/v3", "github.com/xyproto/randomstring",
		"go.yaml.in/yaml/v4", "golang.org/x/sync", "golang.org/x/sys", "golang.org/x/xerrors", "google.golang.org/protobuf",
	}},
}

// TestForeignPrograms builds and runs a program for each library, and lists the
// modules whose versions the library determines.
func TestForeignPrograms(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range programs {
		t.Run(p.library, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "main.go"), p.source)
			write(t, filepath.Join(dir, "go.mod"), p.goMod(root))
			sums, err := os.ReadFile(filepath.Join(root, p.library, "go.sum"))
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "go.sum"), string(sums))
			run(t, dir, "go", "build", "-mod=mod", "-o", "program", ".")
			run(t, dir, filepath.Join(dir, "program"))

			var want []string
			for _, m := range p.modules {
				if !strings.Contains(m, ".") {
					m = module + "/" + m
				}
				want = append(want, m)
			}
			got := strings.Fields(run(t, dir, "go", "list", "-mod=mod", "-m", "all"))
			got = slices.DeleteFunc(got, func(w string) bool { // versions, the program itself, where modules are replaced
				return !strings.Contains(w, "/") || strings.HasPrefix(w, root) || w == "example.com/program"
			})
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("a program with %s got the modules\n%s\nwant\n%s", p.library, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// goMod returns the program's go.mod, as it is after "go get" of the library. No
// version is released yet, so this checkout replaces the library.
func (p program) goMod(root string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "module example.com/program\n\ngo 1.26.0\n\nrequire %s/%s v0.0.0\n", module, p.library)
	for _, m := range []string{p.library, "internal/ground", "internal/records", "internal/trailtest"} {
		fmt.Fprintf(&b, "\nreplace %s/%s v0.0.0 => %s\n", module, m, filepath.Join(root, m))
	}
	return b.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a command outside of the workspace and returns its standard output.
func run(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false", "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}
