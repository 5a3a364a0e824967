// Command assets makes the files of the console, internal/console/dist, from the sources in web. Run it in
// the root of the repository, after npm ci in web/.npm.
//
// The files have a hash of what is in them in their names, so that browsers keep them, and are compressed,
// except for fonts, which are already. The same sources give the same files. With -check it writes nothing,
// and exits with 1 if a file is out of date.
package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit with 1 if a file is out of date")
	flag.Parse()
	if err := run(*check); err != nil {
		fmt.Fprintln(os.Stderr, "assets:", err)
		os.Exit(1)
	}
}

const (
	sources = "web"
	folder  = "internal/console/dist"
)

var errStale = errors.New(folder + " is out of date: run make assets")

func run(check bool) error {
	files, err := bundle()
	if err != nil {
		return err
	}
	kept, err := read()
	switch {
	case err != nil:
		return err
	case maps.EqualFunc(files, kept, bytes.Equal):
		return nil
	case check:
		return errStale
	}
	return write(files)
}

// bundle returns the files by their names.
func bundle() (map[string][]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{sources + "/src/main.tsx", sources + "/src/style.css", sources + "/src/icon.svg"},
		Bundle:      true, Format: api.FormatESModule, Target: api.ES2023, Outdir: "out", Outbase: sources + "/src",
		MinifyWhitespace: true, MinifyIdentifiers: true, MinifySyntax: true,
		Splitting: true, EntryNames: "[name]-[hash]", ChunkNames: "[name]-[hash]", AssetNames: "[name]-[hash]", LegalComments: api.LegalCommentsEndOfFile,
		Loader:    map[string]api.Loader{".woff2": api.LoaderFile, ".svg": api.LoaderCopy},
		NodePaths: []string{sources + "/.npm/node_modules"}, JSX: api.JSXAutomatic, JSXImportSource: "preact",
		PublicPath: "/assets",
	})
	if len(result.Errors) > 0 {
		return nil, errors.New(strings.Join(api.FormatMessages(result.Errors, api.FormatMessagesOptions{}), "\n"))
	}
	files := make(map[string][]byte)
	page, err := os.ReadFile(sources + "/src/index.html")
	if err != nil {
		return nil, err
	}
	for _, f := range result.OutputFiles {
		name := filepath.Base(f.Path)
		files[name] = f.Contents
		for prefix, place := range map[string]string{"main-": "{{script}}", "style-": "{{style}}", "icon-": "{{icon}}", "inter-": "{{font}}"} {
			if strings.HasPrefix(name, prefix) {
				page = bytes.ReplaceAll(page, []byte(place), []byte(name))
			}
		}
	}
	files["index.html"] = page
	return files, nil
}

// read returns the files that are there, unpacked: what packs them may change.
func read() (map[string][]byte, error) {
	files := make(map[string][]byte)
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			return nil, err
		}
		name, packed := strings.CutSuffix(e.Name(), ".gz")
		if packed {
			if data, err = unpack(data); err != nil {
				return nil, fmt.Errorf("%s: %w", e.Name(), err)
			}
		}
		files[name] = data
	}
	return files, nil
}

// write replaces what is there.
func write(files map[string][]byte) error {
	if err := os.RemoveAll(folder); err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		data := files[name]
		if !strings.HasSuffix(name, ".woff2") {
			name += ".gz"
			var err error
			if data, err = pack(data); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(folder, name), data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(data)
	err = errors.Join(err, w.Close())
	return b.Bytes(), err
}

func unpack(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
