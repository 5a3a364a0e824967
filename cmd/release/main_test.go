//go:build linux && !race

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestReproducible makes a release for this platform twice, the second time of a copy in another
// folder, and compares each byte. Then it uses what is in the archive.
func TestReproducible(t *testing.T) {
	here := filepath.Join("..", "..")
	there := filepath.Join(t.TempDir(), "copy")
	if err := copyTree(there, here); err != nil {
		t.Fatal(err)
	}
	var outs []string
	for _, root := range []string{here, there} {
		r := release{root: root, out: filepath.Join(t.TempDir(), "release"), version: "v1.2.3", revision: "0123abc", platforms: []string{"linux/" + runtime.GOARCH}}
		if err := r.make(); err != nil {
			t.Fatal(err)
		}
		outs = append(outs, r.out)
	}
	name := "uniflow_1.2.3_linux_" + runtime.GOARCH
	files, err := os.ReadDir(outs[0])
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
		a, err1 := os.ReadFile(filepath.Join(outs[0], f.Name()))
		b, err2 := os.ReadFile(filepath.Join(outs[1], f.Name()))
		if err := errors.Join(err1, err2); err != nil || !bytes.Equal(a, b) {
			t.Errorf("%s: two builds differ: %v", f.Name(), err)
		}
	}
	if want := []string{"SHA256SUMS", name + ".cdx.json", name + ".tar.gz"}; !slices.Equal(names, want) {
		t.Fatalf("got the files %q, want %q", names, want)
	}
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	sums.Dir = outs[0]
	if out, err := sums.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}

	dir := unpack(t, filepath.Join(outs[0], name+".tar.gz"))
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, name, "uniflow"), "version", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	var version struct{ Version, Revision string }
	if err := json.Unmarshal(out, &version); err != nil || version.Version != "v1.2.3" || version.Revision != "0123abc" {
		t.Errorf("got %s, %v", out, err)
	}
	for path, text := range map[string]string{"completions/uniflow.bash": "complete ", "completions/_uniflow": "#compdef uniflow", "completions/uniflow.fish": "complete -c uniflow"} {
		data, err := os.ReadFile(filepath.Join(dir, name, path))
		if err != nil || !strings.Contains(string(data), text) {
			t.Errorf("%s has no %q: %v", path, text, err)
		}
	}
	bill(t, filepath.Join(outs[0], name+".cdx.json"), filepath.Join(dir, name, "uniflow"))
}

// bill compares a bill of materials with what Go says of the program.
func bill(t *testing.T, file, program string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var b struct {
		BOMFormat, SpecVersion string
		Components             []struct{ Name, Version, PURL string }
	}
	if err := json.Unmarshal(data, &b); err != nil || b.BOMFormat != "CycloneDX" || b.SpecVersion != "1.6" {
		t.Fatalf("got %s %s, %v", b.BOMFormat, b.SpecVersion, err)
	}
	listed := make(map[string]string)
	for _, c := range b.Components {
		if c.Version == "" || c.Version == "v0.0.0" || c.Version == "(devel)" || c.PURL != "pkg:golang/"+c.Name+"@"+strings.ReplaceAll(c.Version, "+", "%2B") {
			t.Errorf("got %+v", c)
		}
		listed[c.Name] = c.Version
	}
	out, err := exec.CommandContext(t.Context(), "go", "version", "-m", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := 1 // std
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "dep" {
			continue
		}
		linked++
		if got := listed[words[1]]; got != words[2] && !strings.HasPrefix(words[1], module) {
			t.Errorf("%s: got version %q, want %s", words[1], got, words[2])
		}
	}
	if linked < 10 || linked != len(listed) {
		t.Errorf("got %d components, want %d", len(listed), linked)
	}
}

func unpack(t *testing.T, file string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	zip, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(zip); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return dir
		}
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		data, err := io.ReadAll(archive)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, data, os.FileMode(h.Mode))); err != nil {
			t.Fatal(err)
		}
	}
}

// copyTree copies what the program is made of.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		switch {
		case e.IsDir() && (e.Name() == ".git" || e.Name() == "testdata" || rel == "dist" || rel == filepath.Join("bench", "out")):
			return filepath.SkipDir
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, rel), 0o755)
		case !e.Type().IsRegular() || e.Name() == ".git":
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, rel), data, 0o644)
	})
}
