package reference

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
)

// A purpose is what some kinds are for.
type purpose struct {
	title string
	intro string
	kinds []string

	// alike says that most fields and ports of the kinds are the same: the page has those once.
	alike bool
}

// outline has the purposes in the order of the page: a heading, an introduction, and a list of kinds. A comment
// "common" is where the page has what all of these have in common.
//
//go:embed purposes.md
var outline string

func purposes() (list []purpose) {
	for line := range strings.Lines(outline) {
		text := strings.TrimSuffix(line, "\n")
		if title, ok := strings.CutPrefix(text, "## "); ok {
			list = append(list, purpose{title: title})
			continue
		}
		p := &list[len(list)-1]
		if kind, ok := strings.CutPrefix(text, "- "); ok {
			p.kinds = append(p.kinds, kind)
		} else if text == "<!-- common -->" {
			p.alike = true
		} else {
			p.intro = strings.TrimSpace(p.intro + "\n" + text)
		}
	}
	return list
}

// byPurpose returns the kinds of each purpose. It fails if a kind has none, or two.
func byPurpose(purposes []purpose, defs []*node.Def) ([][]*node.Def, error) {
	left := make(map[string]*node.Def, len(defs))
	for _, def := range defs {
		left[def.Kind] = def
	}
	groups := make([][]*node.Def, len(purposes))
	for i, p := range purposes {
		for _, kind := range p.kinds {
			def, ok := left[kind]
			if !ok {
				return nil, fmt.Errorf("purposes: there is no kind %s, or it has two purposes", kind)
			}
			groups[i] = append(groups[i], def)
			delete(left, kind)
		}
	}
	for kind := range left {
		return nil, fmt.Errorf("purposes: the kind %s has no purpose", kind)
	}
	return groups, nil
}

// A section is the page of a kind in parts, or what several kinds have in common.
type section struct {
	paragraphs, fields, ports []string
}

func newSection(def *node.Def) section {
	k := Describe(def)
	s := section{paragraphs: []string{k.Summary}}
	if doc := strings.TrimSpace(k.Doc); doc != "" {
		s.paragraphs = append(s.paragraphs, strings.Split(doc, "\n\n")...)
	}
	if table := strings.TrimSpace(def.Config.Markdown()); table != "" {
		s.fields = strings.Split(table, "\n")[2:]
	}
	s.ports = slices.Concat(portRows("in", k.In), portRows("out", k.Out))
	return s
}

// String returns the section as Markdown.
func (s section) String() string {
	b := new(strings.Builder)
	for _, p := range s.paragraphs {
		fmt.Fprintf(b, "\n%s\n", p)
	}
	writeTable(b, "| field | type | default | description |\n| --- | --- | --- | --- |\n", s.fields)
	writeTable(b, "| port | | description |\n| --- | --- | --- |\n", s.ports)
	return b.String()
}

func writeTable(b *strings.Builder, head string, rows []string) {
	if len(rows) > 0 {
		fmt.Fprintf(b, "\n%s%s\n", head, strings.Join(rows, "\n"))
	}
}

// common returns what all sections have.
func common(sections []section) section {
	c := sections[0]
	for _, s := range sections[1:] {
		c = section{both(c.paragraphs, s.paragraphs), both(c.fields, s.fields), both(c.ports, s.ports)}
	}
	return c
}

func both(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return !slices.Contains(b, line) })
}

// without returns the section without what another one has.
func (s section) without(c section) section {
	return section{except(s.paragraphs, c.paragraphs), except(s.fields, c.fields), except(s.ports, c.ports)}
}

func except(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(line string) bool { return slices.Contains(b, line) })
}
