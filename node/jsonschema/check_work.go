package jsonschema

import (
	"errors"
	"regexp/syntax"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/value"
)

const (
	// leastWork is how many rules may be applied to a value of any size.
	leastWork = 1 << 20

	// workPerByte is the same for each byte of a large value, as [value.Value.Size] has it.
	workPerByte = 4

	tooMuchWork = "takes too long to check: parts of the schema lead to the same part in several ways"
)

// A work bounds what one check takes. Where two parts of a schema lead to a third for the
// same value, as in a oneOf of two trees, each level of the value doubles the time: without a
// bound, a body of 600 bytes would take years.
type work struct{ left int }

// spendFormat takes what a format does with a text, as rules may be applied to the same one in
// several ways.
func (w *work) spendFormat(f *library.Format, v value.Value) {
	s, _ := v.AsString()
	if w.left -= len(s) / 4; f.Name == regexName {
		w.left -= workPerPattern * len(s)
	}
}

const (
	regexName = "regex"

	// maxPattern is how long a text with the format regex may be, in bytes.
	maxPattern = 1 << 10

	// workPerPattern is what a byte of such a text takes: (?i)[a-\x{fff0}] takes a millisecond.
	workPerPattern = 256
)

// formatOf returns a format as it is checked here. A regular expression is parsed, but not
// compiled, which takes up to a hundred times as much: .{1000}.{1000}
func formatOf(f *library.Format) *library.Format {
	if f == nil || f.Name != regexName {
		return f
	}
	return &library.Format{Name: regexName, Validate: func(v any) error {
		text, ok := v.(string)
		if !ok {
			return nil
		}
		if len(text) > maxPattern {
			return errPattern
		}
		_, err := syntax.Parse(text, syntax.Perl)
		return err
	}}
}

var errPattern = errors.New("the pattern is too long")
