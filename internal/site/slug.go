package site

import (
	"strconv"
	"strings"
	"unicode"

	"github.com/yuin/goldmark/ast"
)

// Slug returns the anchor of a heading, as GitHub makes it.
func Slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(title))
}

// slugs are the anchors of one page: the second of the same text ends with -1.
type slugs map[string]int

func newSlugs() slugs { return slugs{} }

// Generate implements parser.IDs.
func (s slugs) Generate(title []byte, _ ast.NodeKind) []byte {
	slug := Slug(string(title))
	n, again := s[slug]
	s[slug] = n + 1
	if again {
		slug += "-" + strconv.Itoa(n)
	}
	return []byte(slug)
}

// Put implements parser.IDs.
func (s slugs) Put(id []byte) { s[string(id)]++ }
