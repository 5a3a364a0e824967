// Package constant has the languages whose code is a value: text, JSON, YAML.
//
// Compile reads the code; an evaluation returns the value for any payload. The programs
// are [lang.Constant], so that a caller can skip the evaluation. The code means the same
// in both modes of compiling.
//
// The package must not know nodes, processes or how documents are parsed.
package constant

import (
	"context"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// A Text is the language whose programs return their own code as a string. The zero Text
// is ready to use.
type Text struct{}

// Compile implements [lang.Language]. It does not fail.
func (Text) Compile(code diag.Text, _ lang.Options) (lang.Program, error) {
	return program{value.String(code.Code)}, nil
}

// A program returns one value.
type program struct{ v value.Value }

func (p program) Eval(ctx context.Context, _ value.Value) (value.Value, error) {
	if err := lang.Stopped(ctx); err != nil {
		return value.Value{}, err
	}
	return p.v, nil
}

func (p program) Constant() value.Value { return p.v }
