// Command docgen generates the pages of docs/reference from the kinds, the codes of
// findings and the commands, docs/gallery.md, the pictures of examples that pages show, the API of the admin server for clients and for the
// console, and the map of packages
// in ARCHITECTURE.md from their comments and the rules of internal/arch. Run it in the root of
// the repository.
//
// With -site it makes a site of the pages for people, in a folder.
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
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/arch"
	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/reference"
	"github.com/uniflow-labs/uniflow/internal/site"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

func main() {
	check := flag.Bool("check", false, "write nothing; exit with 1 if a page is out of date")
	folder := flag.String("site", "", "make a site of the Markdown pages in a `folder`, and nothing else")
	flag.Parse()
	if err := run(*folder, *check); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run(folder string, check bool) error {
	if folder != "" {
		return site.Write(os.DirFS("."), folder)
	}
	return generate(os.Stderr, ".", check)
}

// errStale ends a check that found pages that are out of date.
var errStale = errors.New("run make generate")

// generate writes the pages to a folder, the root of the repository, or compares them with
// what is there.
func generate(talk io.Writer, root string, check bool) error {
	pages, err := pages(root)
	if err != nil {
		return err
	}
	stale := false
	for _, p := range pages {
		path := filepath.Join(root, p.name)
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
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
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
	name string // from the root, with slashes
	text []byte
}

func pages(root string) ([]page, error) {
	defs := std.Defs("")
	slices.SortFunc(defs, func(a, b *node.Def) int { return strings.Compare(a.Kind, b.Kind) })
	schema, err := reference.Schema(defs)
	if err != nil {
		return nil, err
	}
	kinds, err := reference.Kinds(defs)
	if err != nil {
		return nil, err
	}
	architecture, err := architecture(root)
	if err != nil {
		return nil, err
	}
	pictures, err := pictures(root)
	if err != nil {
		return nil, err
	}
	gallery, err := gallery(root)
	if err != nil {
		return nil, err
	}
	openapi, err := api.OpenAPI()
	if err != nil {
		return nil, err
	}
	return append([]page{
		{"docs/reference/kinds.md", []byte(kinds)},
		{"docs/reference/codes.md", []byte(reference.Codes(diag.Catalogue()))},
		{"docs/reference/cli.md", []byte(cli.CommandsPage())},
		{"docs/reference/schema.json", schema},
		{"docs/reference/admin-api.json", append(openapi, '\n')},
		{"web/src/api.gen.ts", api.TypeScript()},
		architecture,
	}, slices.Concat(pictures, gallery)...), nil
}

// The map of packages is between these lines of ARCHITECTURE.md.
const mapBegins, mapEnds = "<!-- make generate writes the map -->\n", "<!-- end of the map -->\n"

// architecture returns the page with the map as the packages are now.
func architecture(root string) (page, error) {
	const name = "ARCHITECTURE.md"
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		return page{}, err
	}
	before, rest, begins := bytes.Cut(text, []byte(mapBegins))
	_, after, ends := bytes.Cut(rest, []byte(mapEnds))
	if !begins || !ends {
		return page{}, fmt.Errorf("%s: the lines %q and %q must be there", name, mapBegins, mapEnds)
	}
	packages, err := arch.Map(root)
	if err != nil {
		return page{}, err
	}
	return page{name, slices.Concat(before, []byte(mapBegins), []byte(packages), []byte(mapEnds), after)}, nil
}
