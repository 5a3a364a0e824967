// Command release makes what is published of a version: for each platform an archive with the
// program, the scripts that complete its commands, the files to deploy it with and the license, a
// bill of materials in CycloneDX, and the checksums of all. Run it in the root of the repository:
//
//	go run ./cmd/release -version v1.2.3 -revision $(git rev-parse HEAD)
//
// The same source, version, revision and Go make the same bytes, in any folder and on any machine.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

const module = "github.com/uniflow-labs/uniflow"

// A release says what to make.
type release struct {
	root              string // the folder of the repository
	out               string // the folder for the files, which is emptied
	version, revision string
	platforms         []string // GOOS/GOARCH
}

func main() {
	r := release{root: "."}
	platforms := flag.String("platforms", "linux/amd64,linux/arm64,darwin/amd64,darwin/arm64", "GOOS/GOARCH, separated by commas")
	flag.StringVar(&r.version, "version", "dev", "the version")
	flag.StringVar(&r.revision, "revision", "", "the commit")
	flag.StringVar(&r.out, "out", filepath.Join("dist", "release"), "the folder for the files, which is emptied")
	flag.Parse()
	r.platforms = strings.Split(*platforms, ",")
	if err := r.make(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) make() error {
	if strings.ContainsAny(r.version, "/ \t\n'\"") {
		return fmt.Errorf("the version %q cannot be a part of a file name", r.version)
	}
	if err := errors.Join(os.RemoveAll(r.out), os.MkdirAll(r.out, 0o755)); err != nil {
		return err
	}
	scripts, err := r.scripts()
	if err != nil {
		return err
	}
	var sums bytes.Buffer
	for _, platform := range r.platforms {
		fmt.Fprintln(os.Stderr, "compiling for", platform)
		name := "uniflow_" + strings.TrimPrefix(r.version, "v") + "_" + strings.ReplaceAll(platform, "/", "_")
		program, bill, err := r.program(platform)
		if err != nil {
			return err
		}
		files := append([]file{{"uniflow", 0o755, program}}, scripts...)
		for _, path := range []string{"LICENSE", "deploy/uniflow.service", "deploy/alerts.yaml", "deploy/grafana.json"} {
			data, err := os.ReadFile(filepath.Join(r.root, path))
			if err != nil {
				return err
			}
			files = append(files, file{path, 0o644, data})
		}
		archive, err := pack(name, files)
		if err != nil {
			return err
		}
		for _, f := range []file{{name + ".tar.gz", 0o644, archive}, {name + ".cdx.json", 0o644, bill}} {
			if err := os.WriteFile(filepath.Join(r.out, f.name), f.data, f.mode); err != nil {
				return err
			}
			fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
		}
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// build compiles the program, and returns its path in a folder, which the caller removes.
func (r *release) build(dir, platform string) (path string, err error) {
	system, machine, ok := strings.Cut(platform, "/")
	if !ok {
		return "", fmt.Errorf("%q is not GOOS/GOARCH", platform)
	}
	const app = module + "/internal/cli/app"
	path = filepath.Join(dir, "uniflow")
	// What is known of the commit comes by flags, so that a copy without .git makes the same.
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", path,
		"-ldflags", "-s -w -buildid= -X "+app+".version="+r.version+" -X "+app+".revision="+r.revision, "./cmd/uniflow")
	cmd.Dir, cmd.Stderr = r.root, os.Stderr
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+machine, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=", "GOEXPERIMENT=", "GOFIPS140=off")
	return path, cmd.Run()
}

// program returns the program for a platform, and its bill of materials.
func (r *release) program(platform string) (program, bill []byte, err error) {
	dir, err := os.MkdirTemp("", "uniflow-release")
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path, err := r.build(dir, platform)
	if err != nil {
		return nil, nil, err
	}
	if program, err = os.ReadFile(path); err != nil {
		return nil, nil, err
	}
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, nil, err
	}
	bill, err = billOf(info, r.version, sha256.Sum256(program))
	return program, bill, err
}

// scripts returns what completes commands, as this machine's program prints it.
func (r *release) scripts() (files []file, err error) {
	dir, err := os.MkdirTemp("", "uniflow-release")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Fprintln(os.Stderr, "compiling for this machine")
	path, err := r.build(dir, runtime.GOOS+"/"+runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	for _, s := range []struct{ shell, name string }{{"bash", "uniflow.bash"}, {"zsh", "_uniflow"}, {"fish", "uniflow.fish"}} {
		cmd := exec.Command(path, "completion", s.shell)
		cmd.Stderr = os.Stderr
		script, err := cmd.Output()
		if err != nil {
			return nil, err
		}
		files = append(files, file{"completions/" + s.name, 0o644, script})
	}
	return files, nil
}

// A file is one of an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// pack makes an archive with the files in a folder. All are of the same time and of user 0.
func pack(folder string, files []file) ([]byte, error) {
	var out bytes.Buffer
	zip, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	archive := tar.NewWriter(zip)
	for _, f := range files {
		header := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A component is one of CycloneDX 1.6.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

func newComponent(kind, name, version string, sum []byte) component {
	url := "pkg:golang/" + name + "@" + strings.ReplaceAll(version, "+", "%2B")
	c := component{Type: kind, Ref: url, Name: name, Version: version, URL: url}
	if len(sum) > 0 {
		c.Hashes = []hash{{"SHA-256", hex.EncodeToString(sum)}}
	}
	return c
}

// billOf lists the modules that a program was linked from, as CycloneDX.
func billOf(info *debug.BuildInfo, version string, sum [sha256.Size]byte) ([]byte, error) {
	program := newComponent("application", module, version, sum[:])
	parts := []component{newComponent("library", "std", strings.TrimPrefix(info.GoVersion, "go"), nil)}
	needs := []string{parts[0].Ref}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		of := m.Version
		if strings.HasPrefix(m.Path, module+"/") || strings.HasPrefix(m.Path, "./") {
			of = version // a library of this repository, at the same commit
		}
		digest, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
		if err != nil {
			return nil, fmt.Errorf("%s: sum %q: %w", m.Path, m.Sum, err)
		}
		c := newComponent("library", m.Path, of, digest)
		parts, needs = append(parts, c), append(needs, c.Ref)
	}
	bill := map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":     map[string]any{"component": program},
		"components":   parts,
		"dependencies": []map[string]any{{"ref": program.Ref, "dependsOn": needs}},
	}
	text, err := json.MarshalIndent(bill, "", "  ")
	return append(text, '\n'), err
}
