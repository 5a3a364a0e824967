package dialogue

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/uniflow-labs/uniflow/value"
)

// A shape is a JSON Schema that answers are checked against. It is immutable.
type shape struct {
	schema *jsonschema.Schema
	types  []string // of the answer; empty for any
}

// newShape compiles a schema of draft 2020-12. It loads no other schema.
func newShape(doc value.Value) (*shape, error) {
	text, err := doc.AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	parsed, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	const name = "mem:schema"
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, parsed); err != nil {
		return nil, err
	}
	s, err := c.Compile(name)
	if err != nil {
		var bad *jsonschema.SchemaValidationError
		if errors.As(err, &bad) {
			return nil, errors.New(describe(bad.Err))
		}
		return nil, errors.New(strings.ReplaceAll(err.Error(), name, ""))
	}
	sh := &shape{schema: s}
	if s.Types != nil {
		sh.types = s.Types.ToStrings()
	}
	return sh, nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("schemas elsewhere are not loaded") }

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

// problem returns what is wrong with a value, "" if it fits.
func (s *shape) problem(v value.Value) string {
	err := s.schema.Validate(v.Go())
	if err == nil {
		return ""
	}
	return describe(err)
}

// describe returns the first reason why a value does not fit a schema, in one line.
func describe(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	text := invalid.ErrorKind.LocalizedString(message.NewPrinter(language.English))
	if len(invalid.InstanceLocation) > 0 {
		text = strings.Join(invalid.InstanceLocation, ".") + ": " + text
	}
	return text
}
