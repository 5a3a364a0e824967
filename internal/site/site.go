// Package site makes a static site of the Markdown pages of a checkout: docs/README.md is its
// navigation, README.md its first page. Links between pages become links of the site, other files
// that they link are copied. The site has a search of its own and loads nothing from elsewhere, so it
// also works as files on a disk. The package must not know what the pages are about.
package site

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

//go:embed page.html site.css search.js
var assets embed.FS

var layout = template.Must(template.ParseFS(assets, "page.html"))

// contents is the page whose lists are the navigation, and first is the page that opens.
const contents, first = "docs/README.md", "README.md"

// A page is one Markdown file.
type page struct {
	path  string // in the checkout, with slashes
	text  []byte
	doc   ast.Node
	title string
}

// A group is a part of the navigation.
type group struct {
	Title string
	Links []entry
}

type entry struct {
	Title, Href string
	Current     bool
}

// A passage is the text below one heading, for the search.
type passage struct {
	Page  string `json:"page"`
	Title string `json:"title"`
	Href  string `json:"href"`
	Text  string `json:"text"`
}

// A builder makes one site.
type builder struct {
	source   fs.FS
	target   string
	markdown goldmark.Markdown
	pages    map[string]*page
	order    []string // of pages, as the navigation has them
	groups   []group  // with the paths of pages
	passages []passage
	copied   map[string]bool
}

// Write makes the site of a checkout in a folder, which is made if it is missing. What is there and
// not of the site stays.
func Write(source fs.FS, target string) error {
	b := &builder{source: source, target: target, pages: map[string]*page{}, copied: map[string]bool{}}
	b.markdown = goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	if err := b.read(); err != nil {
		return fmt.Errorf("site: %w", err)
	}
	for _, name := range b.order {
		if err := b.write(b.pages[name]); err != nil {
			return fmt.Errorf("site: %s: %w", name, err)
		}
	}
	index, err := json.Marshal(b.passages)
	if err != nil {
		return err
	}
	css, err := assets.ReadFile("site.css")
	if err != nil {
		return err
	}
	script, err := assets.ReadFile("search.js")
	if err != nil {
		return err
	}
	return firstError(
		b.put("index.js", append([]byte("const passages = "), index...)),
		b.put("site.css", css),
		b.put("search.js", script),
	)
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// read reads the navigation, and the pages in it.
func (b *builder) read() error {
	nav, err := b.load(contents)
	if err != nil {
		return err
	}
	if _, err := b.load(first); err != nil {
		return err
	}
	return ast.Walk(nav.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			if n.Level == 2 {
				b.groups = append(b.groups, group{Title: plain(n, nav.text)})
			}
		case *ast.Link:
			name := path.Join(path.Dir(contents), string(n.Destination))
			if path.Ext(name) != ".md" || len(b.groups) == 0 {
				return ast.WalkContinue, nil
			}
			if _, err := b.load(name); err != nil {
				return ast.WalkStop, err
			}
			last := &b.groups[len(b.groups)-1]
			last.Links = append(last.Links, entry{Title: plain(n, nav.text), Href: name})
		}
		return ast.WalkContinue, nil
	})
}

// load reads a page, once.
func (b *builder) load(name string) (*page, error) {
	if p, ok := b.pages[name]; ok {
		return p, nil
	}
	data, err := fs.ReadFile(b.source, name)
	if err != nil {
		return nil, err
	}
	p := &page{path: name, text: data}
	p.doc = b.markdown.Parser().Parse(text.NewReader(data), parser.WithContext(parser.NewContext(parser.WithIDs(newSlugs()))))
	p.title = name
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok && h.Level == 1 {
			p.title = plain(h, data)
			break
		}
	}
	b.pages[name] = p
	b.order = append(b.order, name)
	return p, nil
}

// write renders a page, copies what it links, and notes its passages.
func (b *builder) write(p *page) error {
	if err := b.relink(p); err != nil {
		return err
	}
	b.index(p)
	body := new(bytes.Buffer)
	if err := b.markdown.Renderer().Render(body, p.text, p.doc); err != nil {
		return err
	}
	out := new(bytes.Buffer)
	err := layout.Execute(out, map[string]any{
		"Title": p.title, "Root": up(p.path), "Groups": b.navigation(p), "Lang": language(p.path), "Body": template.HTML(body.String()),
	})
	if err != nil {
		return err
	}
	return b.put(address(p.path), out.Bytes())
}

// relink makes the links of a page links of the site.
func (b *builder) relink(p *page) error {
	return ast.Walk(p.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var dest *[]byte
		switch n := n.(type) {
		case *ast.Link:
			dest = &n.Destination
		case *ast.Image:
			dest = &n.Destination
		default:
			return ast.WalkContinue, nil
		}
		link, anchor, _ := strings.Cut(string(*dest), "#")
		if link == "" || strings.Contains(link, ":") {
			return ast.WalkContinue, nil
		}
		name := path.Join(path.Dir(p.path), link)
		if _, ok := b.pages[name]; ok {
			name = address(name)
		} else if err := b.copy(&name); err != nil {
			return ast.WalkStop, err
		}
		*dest = []byte(up(p.path) + name)
		if anchor != "" {
			*dest = append(*dest, "#"+anchor...)
		}
		return ast.WalkContinue, nil
	})
}

// copy copies a file that is not a page, once. Of a folder, it copies the page or the first file in it, and
// changes the name to that.
func (b *builder) copy(name *string) error {
	info, err := fs.Stat(b.source, *name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		list, err := fs.ReadDir(b.source, *name)
		if err != nil {
			return err
		}
		for _, e := range list {
			if !e.IsDir() {
				*name = path.Join(*name, e.Name())
				return b.copy(name)
			}
		}
		return fmt.Errorf("%s has no files", *name)
	}
	original := *name
	if path.Ext(original) == ".go" {
		*name += ".txt" // browsers show it, and Go does not compile it
	}
	if b.copied[original] {
		return nil
	}
	b.copied[original] = true
	data, err := fs.ReadFile(b.source, original)
	if err != nil {
		return err
	}
	return b.put(*name, data)
}

// index notes the text below each heading of a page.
func (b *builder) index(p *page) {
	at := passage{Page: p.title, Title: p.title, Href: address(p.path)}
	var words []string
	flush := func() {
		at.Text = strings.Join(words, " ")
		b.passages, words = append(b.passages, at), nil
	}
	for n := p.doc.FirstChild(); n != nil; n = n.NextSibling() {
		if h, ok := n.(*ast.Heading); ok {
			if len(words) > 0 {
				flush()
			}
			at.Title, at.Href = plain(h, p.text), address(p.path)
			if id, ok := h.AttributeString("id"); ok && h.Level > 1 {
				at.Href += "#" + string(id.([]byte))
			}
		}
		words = append(words, plain(n, p.text))
	}
	flush()
}

// navigation returns the groups, as links from a page.
func (b *builder) navigation(p *page) []group {
	groups := make([]group, len(b.groups))
	for i, g := range b.groups {
		groups[i].Title = g.Title
		for _, l := range g.Links {
			groups[i].Links = append(groups[i].Links, entry{l.Title, up(p.path) + address(l.Href), l.Href == p.path})
		}
	}
	return groups
}

func (b *builder) put(name string, data []byte) error {
	file := filepath.Join(b.target, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// address returns where the site has a page.
func address(name string) string {
	dir, file := path.Split(name)
	if file == "README.md" {
		return dir + "index.html"
	}
	return dir + strings.TrimSuffix(file, ".md") + ".html"
}

// up returns the way from a page to the root of the site.
func up(name string) string { return strings.Repeat("../", strings.Count(name, "/")) }

// language returns the language of a page: name.ko.md is Korean.
func language(name string) string {
	if strings.HasSuffix(name, ".ko.md") {
		return "ko"
	}
	return "en"
}

// plain returns the text of a node.
func plain(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) { // the function never fails
		if !entering {
			if n.Type() == ast.TypeBlock {
				b.WriteByte(' ')
			}
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Text:
			b.Write(n.Segment.Value(source))
			if n.SoftLineBreak() {
				b.WriteByte(' ')
			}
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			for i := range n.Lines().Len() {
				line := n.Lines().At(i)
				b.Write(line.Value(source))
			}
		}
		return ast.WalkContinue, nil
	})
	return strings.Join(strings.Fields(b.String()), " ")
}
