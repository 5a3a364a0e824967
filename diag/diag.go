// Package diag says what is wrong with a document, where, and what to write
// instead: positions, diagnostics with stable codes, lists of them, and their
// two renderings (text with the source line and a caret, and JSON).
//
// Read [Diagnostic] first, then [List], then [Text], which finds positions
// inside a piece of code that stands in a document. The catalogue of codes is
// in codes.go.
//
// The package knows nothing of what the documents mean.
package diag

import (
	"fmt"
)

// A Pos is a place in a document. The zero Pos is nowhere.
type Pos struct {
	File string // as given by the user, or "<stdin>"
	Line int    // from 1; 0 if unknown
	Col  int    // from 1, in characters; 0 if unknown
}

// IsValid reports whether p names at least a line.
func (p Pos) IsValid() bool { return p.Line > 0 }

// String returns FILE:LINE:COL, as far as it is known.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity tells an error, which stops a program from being made, from a
// warning, which does not.
type Severity uint8

// The severities.
const (
	SeverityError Severity = iota
	SeverityWarning
)

// A Code names one sort of finding for good: F followed by four digits. The
// thousands say which phase found it: 1 parse, 2 config, 3 links, 4 expressions,
// 5 lint, 7 run time, 9 engine bug. A retired code is never used again.
type Code string

// A Diagnostic is one finding. It is an error, so that code which decodes a
// field may return one without knowing where it stands: whoever walks the
// document fills in Pos, Node and Path where they are empty.
type Diagnostic struct {
	Code     Code
	Severity Severity
	Pos      Pos
	Node     string // the node's name, or what tells it apart; empty outside nodes
	Path     string // the field within the node, such as "routes[1].path"
	Pointer  string // the same place as a JSON Pointer into the document
	Msg      string // lower case, no full stop
	Hint     string // what to do about it, possibly empty
	Err      error  // the cause, if there is one
}

// Errorf returns an error diagnostic without a place. The cause is taken from a
// %w verb, as by fmt.Errorf.
func Errorf(code Code, format string, args ...any) *Diagnostic {
	d := &Diagnostic{Code: code, Msg: fmt.Sprintf(format, args...)}
	return d
}

// WithHint sets the hint and returns d.
func (d *Diagnostic) WithHint(format string, args ...any) *Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// Error returns the finding on one line, place first.
func (d *Diagnostic) Error() string { return d.Msg }

// Unwrap returns the cause.
func (d *Diagnostic) Unwrap() error { return d.Err }

// A Text is a piece of code that stands in a document, with what is needed to
// find its lines and columns there.
type Text struct {
	Code string // the text as its language sees it
	File string // the document; the base for relative imports

	// start and lines are set by the parser of the document.
	start Pos
	lines []Pos // where each line of Code begins, if known
}
