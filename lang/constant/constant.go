// Package constant is the languages whose code is a value: text, JSON, YAML.
//
// The code is read when it is compiled; an evaluation returns what it was, on
// whatever payload. The programs are [lang.Constant], so that a caller may skip
// the evaluation. In either mode of compiling the code means the same.
//
// The package must not know nodes, processes or how documents are parsed.
package constant

import (
	"context"
	"errors"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A Text is the language whose programs give their own code, as a string. The
// zero Text is ready.
type Text struct{}

// Compile implements [lang.Language]. It does not fail.
func (Text) Compile(code diag.Text, _ lang.Options) (lang.Program, error) {
	return program{value.String(code.Code)}, nil
}

// A JSON is the language of JSON texts. The zero JSON is ready.
type JSON struct{}

// Compile implements [lang.Language].
func (JSON) Compile(code diag.Text, _ lang.Options) (lang.Program, error) {
	v, err := value.ParseJSON([]byte(code.Code))
	if err == nil {
		return program{v}, nil
	}
	var bad *value.JSONError
	if !errors.As(err, &bad) {
		return nil, lang.Syntax(code, 1, 1, "%v", err)
	}
	offset := min(bad.Offset, len(code.Code))
	col := 1 + utf8.RuneCountInString(code.Code[max(0, offset-(bad.Col-1)):offset])
	return nil, lang.Syntax(code, bad.Line, col, "JSON: %s", bad.Msg)
}

// A program gives one value.
type program struct{ v value.Value }

// Eval implements [lang.Program].
func (p program) Eval(ctx context.Context, _ value.Value) (value.Value, error) {
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	return p.v, nil
}

// Constant implements [lang.Constant].
func (p program) Constant() value.Value { return p.v }
