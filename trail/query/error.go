package query

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxErrors is how many problems of one document are told.
const maxErrors = 100

// An Error is one problem of a document, or of a query built in Go, which has
// neither file nor place.
type Error struct {
	File string // as it was given to Parse
	Pos         // the zero Pos for none
	Msg  string
	Hint string // what to write instead; "" for none
}

// Error tells the place and the message: q.yaml:3:9: unknown key "stepz".
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&b, "%d:%d:", e.Line, e.Column)
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Errors are all problems that were found, by place, at most 100. There is at
// least one; errors.As finds the first as an *Error.
type Errors []*Error

// Error tells the problems, one on a line.
func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems.
func (e Errors) Unwrap() []error {
	list := make([]error, len(e))
	for i, p := range e {
		list[i] = p
	}
	return list
}

// err returns the problems in order of their places, each once, or nil.
func (e Errors) err() error {
	if len(e) == 0 {
		return nil
	}
	slices.SortStableFunc(e, func(a, b *Error) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	// A filter that stands for several steps tells its problem for each.
	e = slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
	return e[:min(len(e), maxErrors)]
}

// A list is any number of things as a message tells them: a, b or c.
func list(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// hintOf says which of the words was probably meant, or else which there are.
func hintOf(word string, words []string, meant map[string]string) string {
	if m := meant[strings.ToLower(word)]; m != "" {
		return "write " + m
	}
	if m, ok := nearest(word, words); ok {
		return "did you mean " + m + "?"
	}
	return "it can be " + list(words)
}

// maxWord is the longest word, in characters, that a spelling is suggested for.
const maxWord = 40

// nearest returns the word with the fewest letters added, dropped, changed or
// swapped, at most a third of them.
func nearest(word string, words []string) (best string, ok bool) {
	w := []rune(strings.ToLower(word))
	if len(w) < 3 || len(w) > maxWord {
		return "", false
	}
	limit := len(w) / 3
	for _, c := range words {
		if utf8.RuneCountInString(c) > maxWord {
			continue
		}
		if d := edits(w, []rune(strings.ToLower(c))); d <= limit {
			best, ok, limit = c, true, d-1
		}
	}
	return best, ok
}

// edits counts the letters to add, drop, change or swap with their neighbour to
// make b of a.
func edits(a, b []rune) int {
	var rows [3][maxWord + 1]int
	before, last, next := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := range a {
		next[0] = i + 1
		for j := range b {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			next[j+1] = min(last[j+1]+1, next[j]+1, last[j]+cost)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, last, next = last, next, before
	}
	return last[len(b)]
}

// quote returns text as a message shows it: quoted, and not without end.
func quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}
