package query

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
)

// maxErrors is how many problems of one document are reported.
const maxErrors = 100

// An Error is one problem of a document, or of a query built in Go, which has
// neither file nor place.
type Error struct {
	File string // as it was given to Parse
	Pos         // the zero Pos for none
	Err  error  // the cause; nil for none
	Msg  string
	Hint string // what to write instead; "" for none

	UnknownKey string // the key, if the error is that no query has this key in this place
}

// Error returns the place and the message: q.yaml:3:9: unknown key "stepz".
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

func (e Errors) Error() string {
	lines := make([]string, len(e))
	for i, p := range e {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

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
	slices.SortStableFunc(e, func(a, b *Error) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	// A problem in a filter for several steps is reported for each of them.
	e = slices.CompactFunc(e, func(a, b *Error) bool { return *a == *b })
	return e[:min(len(e), maxErrors)]
}

// A list writes words for a message: a, b or c.
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
	// Words of two letters are near to many others, so the list is more useful.
	if m, ok := spell.Nearest(word, words); ok && len(word) > 2 {
		return "did you mean " + m + "?"
	}
	return "it can be " + list(words)
}

// quote returns text as a message shows it: quoted, and cut if it is long.
func quote(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

func (e *Error) Unwrap() error { return e.Err }

// An UnknownCohortError is the cause of an [Error] about a cohort that is not kept.
type UnknownCohortError struct{ Name string }

func (e *UnknownCohortError) Error() string { return fmt.Sprintf("there is no cohort %q", e.Name) }
