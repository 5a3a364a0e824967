// Package guests builds the modules of kinds/wasm with the compilers of their languages, as
// docs/wasm.md says. Its test runs the same cases through each.
package guests

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Build builds the module of a language in a copy of its folder, with the commands that docs/wasm.md
// prints, and returns that. The module is price.wasm. root is the folder of the repository. A missing
// compiler fails the test.
func Build(tb testing.TB, root, language string) (dir string) {
	tb.Helper()
	return build(tb, root, language, nil)
}

// Go is Build for other source in the place of price.go.
func Go(tb testing.TB, root string, source []byte) (dir string) {
	tb.Helper()
	return build(tb, root, "Go", source)
}

func build(tb testing.TB, root, language string, source []byte) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	if err := os.CopyFS(dir, sources{os.DirFS(filepath.Join(root, "kinds", "wasm", strings.ToLower(language)))}); err != nil {
		tb.Fatal(err)
	}
	if source != nil {
		if err := os.WriteFile(filepath.Join(dir, "price.go"), source, 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	run(tb, dir, []string{"GOFLAGS=", "GOWORK=off", "PATH=" + filepath.Dir(rustc(tb)) + ":" + os.Getenv("PATH")}, "sh", "-ec", Block(tb, root, language, "sh"))
	return dir
}

// Block returns the first block of a kind in a section of docs/wasm.md; the empty section is what
// comes first.
func Block(tb testing.TB, root, section, kind string) string {
	tb.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "wasm.md"))
	if err != nil {
		tb.Fatal(err)
	}
	text := string(page)
	if section != "" {
		_, text, _ = strings.Cut(text, "\n## "+section+"\n")
	}
	text, _, _ = strings.Cut(text, "\n## ")
	_, text, ok := strings.Cut(text, "\n```"+kind+"\n")
	text, _, _ = strings.Cut(text, "```\n")
	if !ok {
		tb.Fatalf("docs/wasm.md: the section %q has no block of %s", section, kind)
	}
	return text
}

// Rust copies sources of Rust to a folder, and compiles a file of them to a module there.
func Rust(tb testing.TB, dir, file string, from ...fs.FS) {
	tb.Helper()
	for _, f := range from {
		if err := os.CopyFS(dir, f); err != nil {
			tb.Fatal(err)
		}
	}
	run(tb, dir, nil, rustc(tb), "--target", "wasm32-unknown-unknown", "--crate-type", "cdylib", "-O", "-C", "strip=debuginfo", file)
}

const needs = "test/needs all installs the compilers"

// run runs a command in a folder, or ends the test.
func run(tb testing.TB, dir string, env []string, name string, args ...string) {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("%s: %v (%s)\n%s", cmd, err, needs, out)
	}
}

// rustc returns a compiler of Rust that has the target: that of rustup may lack it.
func rustc(tb testing.TB) string {
	tb.Helper()
	for _, name := range []string{"rustc", "/usr/bin/rustc"} {
		name, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		dir, err := exec.CommandContext(tb.Context(), name, "--print", "target-libdir", "--target", "wasm32-unknown-unknown").Output()
		if err != nil {
			continue
		}
		if _, err := os.Stat(strings.TrimSpace(string(dir))); err == nil {
			return name
		}
	}
	tb.Fatalf("there is no rustc with the target wasm32-unknown-unknown (%s)", needs)
	return ""
}

// sources are the files of an example without what was installed or built in its folder.
type sources struct{ fs.FS }

func (s sources) ReadDir(name string) (list []fs.DirEntry, err error) {
	all, err := fs.ReadDir(s.FS, name)
	for _, e := range all {
		if e.Name() != "node_modules" && filepath.Ext(e.Name()) != ".wasm" {
			list = append(list, e)
		}
	}
	return list, err
}
