package doctree

import (
	"encoding/json"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// An edit is a place where the text that the parser reads differs from the
// document in width.
type edit struct {
	offset int // in the text, past what was replaced
	wider  int // characters that the document has more, up to here
}

// plain returns text with the same meaning that the parser accepts. The parser refuses
// some JSON, and directives other than %YAML 1.1 and %TAG.
func plain(text string) (string, []edit) {
	if first := strings.TrimLeft(text, " \t\r\n"); first != "" && strings.IndexByte(`{["`, first[0]) >= 0 && json.Valid([]byte(text)) {
		return plainJSON(text)
	}
	return plainDirectives(text), nil
}

// plainJSON joins surrogate pairs, which YAML has no escape for, and escapes the
// characters that only JSON takes as they are.
func plainJSON(text string) (string, []edit) {
	var b strings.Builder
	var edits []edit
	done, wider := 0, 0
	replace := func(from, to int, by string) {
		b.WriteString(text[done:from] + by)
		wider += utf8.RuneCountInString(text[from:to]) - utf8.RuneCountInString(by)
		edits = append(edits, edit{b.Len(), wider})
		done = to
	}
	for i := 0; i < len(text); {
		if text[i] == '\\' {
			if pair := surrogates(text[i:]); pair != 0 {
				replace(i, i+12, string(pair))
				i += 12
				continue
			}
			i += 2
			continue
		}
		c, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case c >= 0x7f && c < 0xa0, c == 0x2028, c == 0x2029, c == 0xfffe, c == 0xffff:
			replace(i, i+size, fmt.Sprintf(`\u%04x`, c))
		}
		i += size
	}
	if len(edits) == 0 {
		return text, nil
	}
	return b.String() + text[done:], edits
}

// surrogates returns the character that a pair of escapes at the beginning of a
// text stands for, 0 if there is no pair.
func surrogates(text string) rune {
	if len(text) < 12 || text[:2] != `\u` || text[6:8] != `\u` {
		return 0
	}
	high, err := strconv.ParseUint(text[2:6], 16, 16)
	low, err2 := strconv.ParseUint(text[8:12], 16, 16)
	if c := utf16.DecodeRune(rune(high), rune(low)); err == nil && err2 == nil && c != utf8.RuneError {
		return c
	}
	return 0
}

// plainDirectives blanks directives: %YAML of any version 1, and those that YAML
// reserves, which must be ignored.
func plainDirectives(text string) string {
	if !strings.HasPrefix(text, "%") && !strings.Contains(text, "\n%") {
		return text
	}
	out := []byte(text)
	prefix := true // where directives may stand: before a document
	at := 0
	for line := range strings.Lines(text) {
		name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case prefix && strings.HasPrefix(line, "%"):
			if name != "%TAG" && (name != "%YAML" || strings.HasPrefix(strings.TrimSpace(rest), "1.")) {
				for i := range len(strings.TrimRight(line, "\r\n")) {
					out[at+i] = ' '
				}
			}
		case name == "...":
			prefix = true
		case name != "" && name[0] != '#':
			prefix = false
		}
		at += len(line)
	}
	return string(out)
}

// extra returns how many more characters the document has between two offsets of one
// line.
func (s *Source) extra(from, to int) int {
	wider := func(offset int) int {
		i := sort.Search(len(s.edits), func(i int) bool { return s.edits[i].offset > offset })
		if i == 0 {
			return 0
		}
		return s.edits[i-1].wider
	}
	return wider(to) - wider(from)
}

// marks is an upper bound of the number of nodes that the parser makes of the source.
// For what people write it is close: it counts the separators of keys and values. It
// leaves out the text of block scalars, as long as no quote or bracket before it can
// make it something else.
func (s *Source) marks() int {
	n, skip, open := 1, -1, false
	for i := range s.Lines {
		line := s.Line(i + 1)
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if skip >= 0 && (text == "" || indent > skip) {
			continue
		}
		skip = -1
		n++
		quotes, brackets := 0, 0
		for j := 0; j < len(text); j++ {
			next, before := byte(' '), byte(' ')
			if j+1 < len(text) {
				next = text[j+1]
			}
			if j > 0 {
				before = text[j-1]
			}
			switch text[j] {
			case ',':
				n += 2 // in a map, a key without a value has null
			case '[', '{':
				brackets++
				if !wordByte(before) { // as in out[0]
					n++
				}
			case ']', '}':
				brackets--
			case '"', '\'', '\\', '#':
				quotes++
			case ':':
				if strings.IndexByte(" \t,[]{}", next) >= 0 || before == '"' || before == '\'' {
					n++
				}
			case '-', '?':
				if next == ' ' || next == '\t' {
					n++
				}
			}
		}
		simple := quotes == 0 && brackets == 0
		open = open || brackets != 0 || quotes%2 != 0 || quotes > 0 && strings.Contains(text, `\`)
		if simple && !open {
			skip = blockScalar(text, indent)
		}
	}
	return n
}

func wordByte(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// blockScalar returns the indentation that the lines of a block scalar exceed, if a
// line ends with the header of one; otherwise -1.
func blockScalar(text string, indent int) int {
	words := strings.Fields(text)
	if len(words) == 0 || strings.Trim(words[len(words)-1], "+-0123456789") != "|" && strings.Trim(words[len(words)-1], "+-0123456789") != ">" {
		return -1
	}
	above := indent
	for strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "? ") {
		rest := strings.TrimLeft(text[1:], " ")
		above, indent = indent, indent+len(text)-len(rest)
		text = rest
	}
	if strings.HasPrefix(text, words[len(words)-1]) {
		return above
	}
	return indent
}
