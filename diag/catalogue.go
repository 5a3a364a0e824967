package diag

import (
	_ "embed"
	"slices"
	"strings"
)

// An Entry is the text of `uniflow explain` for a code.
type Entry struct {
	Code        Code
	Title       string // one line, without a full stop
	Explanation string // Markdown
	Bad         string // a YAML document with the finding; empty if no document can show it
	Good        string // the corrected document
}

// codes has a section for each code, with its examples at the end.
//
//go:embed codes.md
var codes string

// Catalogue returns the entries of all codes, in the order of the codes. The caller owns
// the slice.
func Catalogue() []Entry {
	var all []Entry
	for section := range strings.SplitSeq(strings.TrimPrefix(codes, "## "), "\n## ") {
		head, text, _ := strings.Cut(section, "\n")
		code, title, _ := strings.Cut(head, ": ")
		text, examples, _ := strings.Cut(text, "\nBad:\n\n```yaml\n")
		bad, good, _ := strings.Cut(examples, "```\n\nGood:\n\n```yaml\n")
		good, _, _ = strings.Cut(good, "```\n")
		all = append(all, Entry{Code(code), title, strings.TrimSpace(text), bad, good})
	}
	return all
}

// Lookup returns the entry of a code. The letter may be lower case.
func Lookup(code Code) (Entry, bool) {
	if len(code) > 0 && code[0] == 'f' {
		code = "F" + code[1:]
	}
	all := Catalogue()
	i := slices.IndexFunc(all, func(e Entry) bool { return e.Code == code })
	if i < 0 {
		return Entry{}, false
	}
	return all[i], true
}
