// Package diag describes what is wrong with a document: diagnostics with a place, a
// stable code and a hint, lists of them, and their two renderings (text with the
// source line and a caret, and JSON).
//
// Read [Diagnostic] first, then [List], then [Render], then [Text], which finds
// places inside code that is part of a document. The codes and the texts of
// `uniflow explain` are in the files codes_*.go.
//
// The package must not know the meaning of documents.
package diag

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
)

// A Pos is a place in a document. The zero Pos is an unknown place.
type Pos struct {
	File string // as given by the user, or "<stdin>"
	Line int    // from 1; 0 if unknown
	Col  int    // from 1, in characters; 0 if unknown
}

// IsValid reports whether p names at least a line.
func (p Pos) IsValid() bool { return p.Line > 0 }

// String returns FILE:LINE:COL, without the parts that are unknown.
func (p Pos) String() string {
	switch {
	case p.Line == 0:
		return p.File
	case p.Col == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
}

// Severity is either error, which prevents a program from being made, or warning.
type Severity uint8

// The severities.
const (
	SeverityError Severity = iota
	SeverityWarning
)

func (s Severity) String() string {
	if s == SeverityWarning {
		return "warning"
	}
	return "error"
}

// A Code permanently identifies a kind of finding: F followed by four digits. The
// first digit is the phase: 1 parse, 2 config, 3 links, 4 code, 5 lint, 7 run time,
// 9 bug of the engine. A retired code is never used again.
type Code string

// A Diagnostic is one finding. It is an error, so that code which decodes a field
// may return one without knowing its place: the caller, which walks the document,
// sets Pos, Node and Path if they are empty.
type Diagnostic struct {
	Code     Code
	Severity Severity
	Pos      Pos
	Node     string // the node's name, or else its kind; empty outside nodes
	Path     string // the field within the node, such as "routes[1].path"
	Pointer  string // the same place as a JSON Pointer into the document
	Msg      string // lower case, no full stop
	Hint     string // what to do about it, possibly empty
	UsedAt   Pos    // where the template of a kind is used that Pos is in; zero outside of templates
	Err      error  // the cause, if there is one
	Fix      *Fix   // what to write at Pos; nil if that is not known

	// Private keeps the line of the document out of the rendering, because it may
	// contain a secret. It is set for all findings in values files.
	Private bool

	// Plain says that Msg and Hint have nothing from the document in them, nor anything
	// that was made of it. They are then shown also if a template made the text that the
	// finding is about, which may hold a secret.
	Plain bool

	// cut is set on the last entry of a list that was cut: the number of findings
	// that were cut, by severity.
	cut [2]int
}

// Errorf returns an error diagnostic without a place. Its cause is the operand of a
// %w verb, as for fmt.Errorf.
func Errorf(code Code, format string, args ...any) *Diagnostic {
	err := fmt.Errorf(format, args...)
	d := &Diagnostic{Code: code, Msg: err.Error()}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		d.Err = u.Unwrap()
	case interface{ Unwrap() []error }:
		d.Err = errors.Join(u.Unwrap()...)
	}
	return d
}

// Warningf is [Errorf] with the severity of a warning.
func Warningf(code Code, format string, args ...any) *Diagnostic {
	d := Errorf(code, format, args...)
	d.Severity = SeverityWarning
	return d
}

// WithHint sets the hint and returns d.
func (d *Diagnostic) WithHint(format string, args ...any) *Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// A Fix is the text to write in place of the one that stands at the place of a finding.
type Fix struct {
	Old string `json:"old"`
	New string `json:"new"`
}

// Suggest sets the hint and the fix to the candidate that is nearest to a word, which stands at the place
// of the finding. It reports whether one is near.
func (d *Diagnostic) Suggest(word string, candidates []string) bool {
	near, ok := spell.Nearest(word, candidates)
	if ok {
		d.Instead(word, near)
	}
	return ok
}

// Instead sets the hint and the fix to write meant in place of a word, and returns d.
func (d *Diagnostic) Instead(word, meant string) *Diagnostic {
	d.Fix = &Fix{word, meant}
	return d.WithHint("did you mean %q?", meant)
}

// AsPlain sets Plain and returns d.
func (d *Diagnostic) AsPlain() *Diagnostic {
	d.Plain = true
	return d
}

// At sets the place and returns d. An empty path leaves the path as it is.
func (d *Diagnostic) At(pos Pos, path string) *Diagnostic {
	d.Pos = pos
	if path != "" {
		d.Path = path
	}
	return d
}

// Error returns the finding on one line, place first, code last, without the hint.
func (d *Diagnostic) Error() string {
	var b strings.Builder
	if place := d.Pos.String(); place != "" {
		b.WriteString(place)
		b.WriteString(": ")
	}
	if d.Severity == SeverityWarning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.what())
	return b.String()
}

// what returns the text of Error without place and severity.
func (d *Diagnostic) what() string {
	var b strings.Builder
	if d.Node != "" {
		fmt.Fprintf(&b, "node %q: ", d.Node)
	}
	if d.Path != "" {
		b.WriteString(d.Path)
		b.WriteString(": ")
	}
	b.WriteString(d.Msg)
	if d.Code != "" {
		fmt.Fprintf(&b, " [%s]", d.Code)
	}
	return b.String()
}

func (d *Diagnostic) Unwrap() error { return d.Err }

// A Finding is a diagnostic as JSON has it: without what is unknown, except for code, severity and
// message.
type Finding struct {
	Code     Code   `json:"code"`
	Severity string `json:"severity"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Col      int    `json:"col,omitempty"`
	Node     string `json:"node,omitempty"`
	Path     string `json:"path,omitempty"`
	Pointer  string `json:"pointer,omitempty"`
	Message  string `json:"message"`
	Hint     string `json:"hint,omitempty"`
	UsedAt   string `json:"used_at,omitempty" jsonschema:"where a sub-graph is used that it is in"`
	Fix      *Fix   `json:"fix,omitempty" jsonschema:"the text to write in place of the one at the place"`
}

// Finding returns what JSON has of a diagnostic.
func (d *Diagnostic) Finding() Finding {
	return Finding{d.Code, d.Severity.String(), d.Pos.File, d.Pos.Line, d.Pos.Col, d.Node, d.Path, d.Pointer, d.Msg, d.Hint, d.UsedAt.String(), d.Fix}
}

// MarshalJSON writes the [Finding].
func (d *Diagnostic) MarshalJSON() ([]byte, error) { return json.Marshal(d.Finding()) }
