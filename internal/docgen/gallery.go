package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/cli/flow"
)

// The gallery shows what uniflow init writes. Its words are those of the list of init and of the
// comment with which each flow.yaml begins, so they cannot differ.
const galleryPage, galleryPictures = "docs/gallery.md", "docs/gallery"

const galleryHead = `# Gallery

<!-- make generate writes this page of the workflows of uniflow init -->

%d small workflows to begin with. ` + "`uniflow init NAME FOLDER`" + ` writes one: ` + "`flow.yaml`" + `, its tests, a values file where something differs from place to
place, and a config file. In the folder, three commands need no arguments:

` + "```sh" + `
uniflow init api my-api
cd my-api
uniflow check      # finds what is wrong
uniflow test       # runs tests.yaml, without any server
uniflow start      # or what init prints
` + "```" + `

The commands below are from the first lines of each ` + "`flow.yaml`" + `. Where a workflow needs a server, they start one with Docker. The pictures are what ` + "`uniflow graph`" + ` draws.
[Examples](examples.md) has larger workflows.
`

// gallery returns the page and its pictures. A picture that is none of these is an error.
func gallery(root string) (pages []page, err error) {
	dir, err := os.MkdirTemp("", "uniflow-gallery-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	starters := flow.Starters()
	var text bytes.Buffer
	fmt.Fprintf(&text, galleryHead, len(starters))
	purpose := ""
	for _, s := range starters {
		if s.Purpose != purpose {
			purpose = s.Purpose
			fmt.Fprintf(&text, "\n## %s\n", purpose)
		}
		folder := filepath.Join(dir, s.Name)
		if _, err := command("init", s.Name, folder); err != nil {
			return nil, err
		}
		source, err := os.ReadFile(filepath.Join(folder, "flow.yaml"))
		if err != nil {
			return nil, err
		}
		picture, err := command("graph", folder)
		if err != nil {
			return nil, err
		}
		picture = bytes.ReplaceAll(picture, []byte(filepath.ToSlash(folder)), []byte(s.Name)) // in the titles of nodes
		pages = append(pages, page{path.Join(galleryPictures, s.Name+".svg"), picture})
		fmt.Fprintf(&text, "\n### %[1]s\n\n%[2]s: `uniflow init %[1]s`, [the files](../internal/cli/flow/starters/%[1]s).\n\n%[3]s\n![The nodes and links of %[1]s](gallery/%[1]s.svg)\n",
			s.Name, strings.ToUpper(s.Summary[:1])+s.Summary[1:], introduction(string(source)))
	}
	files, err := fs.Glob(os.DirFS(root), galleryPictures+"/*")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if !slices.ContainsFunc(pages, func(p page) bool { return p.name == file }) {
			return nil, fmt.Errorf("%s: init has no such workflow: remove it", file)
		}
	}
	return append(pages, page{galleryPage, text.Bytes()}), nil
}

// introduction is the comment with which a workflow begins, as Markdown: what is indented are
// commands. The line before it names the JSON Schema.
func introduction(source string) string {
	var b strings.Builder
	_, rest, _ := strings.Cut(source, "\n\n")
	code := false
	for line := range strings.Lines(rest) {
		line, comment := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "#")
		if !comment {
			break
		}
		indented := strings.HasPrefix(line, "   ")
		if indented != code {
			b.WriteString("```" + map[bool]string{true: "text"}[indented] + "\n")
			if !indented && line != "" {
				b.WriteString("\n")
			}
			code = indented
		}
		if indented {
			b.WriteString(line[3:] + "\n")
		} else {
			b.WriteString(strings.TrimPrefix(line, " ") + "\n")
		}
	}
	if code {
		b.WriteString("```\n")
	}
	return b.String()
}
