// Command docgen generates the pages of docs/reference from the kinds, the codes of
// findings and the commands. Run it in the root of the repository.
//
// With -check it writes nothing, and exits with 1 if a page is out of date.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit with 1 if a page is out of date")
	flag.Parse()
	if err := generate(os.Stderr, filepath.Join("docs", "reference"), *check); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

// errStale ends a check that found pages that are out of date.
var errStale = errors.New("run make generate")

// generate writes the pages to a folder, or compares them with what is there.
func generate(talk io.Writer, folder string, check bool) error {
	pages, err := pages()
	if err != nil {
		return err
	}
	stale := false
	for _, p := range pages {
		path := filepath.Join(folder, p.name)
		old, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		switch {
		case err == nil && bytes.Equal(old, p.text):
		case check:
			stale = true
			fmt.Fprintf(talk, "%s is out of date\n", path)
		default:
			if err := os.MkdirAll(folder, 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(path, p.text, 0o644); err != nil {
				return err
			}
			fmt.Fprintf(talk, "wrote %s\n", path)
		}
	}
	if stale {
		return errStale
	}
	return nil
}

// A page is one generated file.
type page struct {
	name string
	text []byte
}

func pages() ([]page, error) {
	defs := std.Defs("")
	slices.SortFunc(defs, func(a, b *node.Def) int { return strings.Compare(a.Kind, b.Kind) })
	schema, err := reference.Schema(defs)
	if err != nil {
		return nil, err
	}
	return []page{
		{"kinds.md", []byte(reference.Kinds(defs))},
		{"codes.md", []byte(reference.Codes(diag.Catalogue()))},
		{"cli.md", []byte(cli.CommandsPage())},
		{"schema.json", schema},
	}, nil
}
