package dialogue

import (
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A shape is a JSON Schema that answers are checked against. It is immutable.
type shape struct {
	schema *jsonschema.Schema
	types  []string // of the answer; empty for any
}

// newShape compiles the schema of a question.
func newShape(doc value.Value, o jsonschema.Options) (*shape, error) {
	s, err := jsonschema.Compile(doc, o)
	if err != nil {
		return nil, err
	}
	return &shape{s, s.Types()}, nil
}

// shapeOf compiles the field schema of a question.
func shapeOf(c schema.Config, warn func(*diag.Diagnostic)) (*shape, error) {
	s, err := newShape(c.Value("schema"), jsonschema.Options{Hidden: c.Hidden("schema")})
	if err != nil {
		return nil, jsonschema.At(c, "schema", err, "write a JSON Schema, such as {type: integer, minimum: 1}")
	}
	jsonschema.Warn(warn, c, "schema", s.schema.Doubts())
	return s, nil
}

// read returns the value that a text stands for, and what is wrong with it, "" if it fits.
// Where the schema lets a text through as well, one that does not fit as something else stays
// a text.
func (s *shape) read(text string) (answer value.Value, problem string) {
	answer = s.of(text)
	if problem = s.problem(answer); problem == "" || answer.Kind() == value.KindString {
		return answer, problem
	}
	if s.problem(value.String(text)) == "" {
		return value.String(text), ""
	}
	return answer, problem
}

// of returns the value that a text stands for: a number, true or false if the schema asks
// for one and the text reads like it, else the text.
func (s *shape) of(text string) value.Value {
	trimmed := strings.TrimSpace(text)
	for _, typ := range s.types {
		switch typ {
		case "integer":
			if i, err := strconv.ParseInt(trimmed, 10, 64); err == nil {
				return value.Int(i)
			}
		case "number":
			if v, err := value.ParseJSON([]byte(trimmed)); err == nil && isNumber(v) {
				return v
			}
		case "boolean":
			switch strings.ToLower(trimmed) {
			case "true", "yes":
				return value.Bool(true)
			case "false", "no":
				return value.Bool(false)
			}
		case "object", "array":
			if v, err := value.ParseJSON([]byte(trimmed)); err == nil {
				return v
			}
		}
	}
	return value.String(text)
}

func isNumber(v value.Value) bool {
	switch v.Kind() {
	case value.KindInt, value.KindUint, value.KindFloat:
		return true
	}
	return false
}

// problem returns what is wrong with a value in one line, "" if it fits.
func (s *shape) problem(v value.Value) string {
	found := s.schema.Problems(v, 1)
	if len(found) == 0 {
		return ""
	}
	if found[0].Path == "" {
		return found[0].Message
	}
	return strings.ReplaceAll(found[0].Path[1:], "/", ".") + ": " + found[0].Message
}
