package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/cli"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
)

// picturesIn has the pictures of examples. A page for people that shows NAME.svg of it makes docgen draw
// examples/NAME.yaml, as uniflow graph does.
const picturesIn = "docs/pictures"

var shown = regexp.MustCompile(`\]\(([^)\s]*pictures/[\w-]+\.svg)\)`)

// pictures returns the pictures that README and docs show. One that none of them shows is an error.
func pictures(root string) ([]page, error) {
	texts, err := fs.Glob(os.DirFS(root), "README*.md")
	if err != nil {
		return nil, err
	}
	docs, err := fs.Glob(os.DirFS(root), "docs/*.md")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range append(texts, docs...) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, err
		}
		for _, m := range shown.FindAllSubmatch(text, -1) {
			names = append(names, path.Join(path.Dir(name), string(m[1])))
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	files, err := fs.Glob(os.DirFS(root), picturesIn+"/*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !slices.Contains(names, file) {
			return nil, fmt.Errorf("%s: neither README nor a page of docs shows it: remove it", file)
		}
	}
	var all []page
	for _, name := range names {
		if path.Dir(name) != picturesIn {
			return nil, fmt.Errorf("%s: pictures are in %s", name, picturesIn)
		}
		example := path.Join(root, "examples", strings.TrimSuffix(path.Base(name), ".svg")+".yaml")
		picture, err := command("graph", example)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, page{name, picture})
	}
	return all, nil
}

// command is what a command of uniflow prints.
func command(args ...string) ([]byte, error) {
	var out, problems bytes.Buffer
	sys := app.System()
	sys.Stdin, sys.Stdout, sys.Stderr = strings.NewReader(""), &out, &problems
	if code := cli.Main(context.Background(), args, sys); code != 0 {
		return nil, fmt.Errorf("uniflow %s: exit code %d\n%s", strings.Join(args, " "), code, problems.Bytes())
	}
	return out.Bytes(), nil
}
