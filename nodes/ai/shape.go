package ai

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

	"github.com/uniflow-labs/uniflow/value"
)

// A shape is a JSON Schema that values are checked against. It is immutable.
type shape struct {
	schema *jsonschema.Schema
	doc    value.Value
	text   string // of doc
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
	c.UseLoader(noLoader{})
	if err := c.AddResource(name, parsed); err != nil {
		return nil, err
	}
	s, err := c.Compile(name)
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), name, ""))
	}
	return &shape{s, doc, string(text)}, nil
}

type noLoader struct{}

func (noLoader) Load(string) (any, error) { return nil, errors.New("schemas elsewhere are not loaded") }

// maxProblems bounds what a model is told about one value.
const maxProblems = 10

// problems returns what is wrong with a value, a line each, "" if it fits.
func (s *shape) problems(v value.Value) string {
	err := s.schema.Validate(v.Go())
	if err == nil {
		return ""
	}
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	var lines []string
	printer := message.NewPrinter(language.English)
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		for _, cause := range e.Causes {
			walk(cause)
		}
		if len(e.Causes) == 0 && len(lines) < maxProblems {
			lines = append(lines, fmt.Sprintf("/%s: %s", strings.Join(e.InstanceLocation, "/"), e.ErrorKind.LocalizedString(printer)))
		}
	}
	walk(invalid)
	return strings.Join(lines, "\n")
}

// strict reports whether servers take a schema in their strict form: every object has all
// its properties required, and no others.
func strict(doc value.Value) bool {
	switch doc.Kind() {
	case value.KindList:
		for _, e := range doc.Elems() {
			if !strict(e) {
				return false
			}
		}
	case value.KindMap:
		if properties := get(doc, "properties"); properties.Kind() == value.KindMap {
			others, given := get(doc, "additionalProperties").AsBool()
			if !given || others || get(doc, "required").Len() != properties.Len() {
				return false
			}
		}
		for _, e := range doc.Fields() {
			if !strict(e) {
				return false
			}
		}
	}
	return true
}

// parse reads the JSON that a model wrote. Many put it into a block of code.
func parse(text string) (value.Value, error) {
	text = strings.TrimSpace(text)
	if inner, ok := strings.CutPrefix(text, "```"); ok {
		if inner, ok = strings.CutSuffix(inner, "```"); ok {
			if _, rest, ok := strings.Cut(inner, "\n"); ok {
				text = rest
			}
		}
	}
	return value.ParseJSON([]byte(text))
}

// get returns a field of a map, null if there is none.
func get(v value.Value, name string) value.Value {
	field, _ := v.Get(name)
	return field
}

// text returns a field that is text, "" if there is none.
func text(v value.Value, name string) string {
	s, _ := get(v, name).AsString()
	return s
}

// object makes a map of names and values.
func object(pairs ...any) value.Value {
	fields := make([]value.Field, 0, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		var v value.Value
		switch p := pairs[i+1].(type) {
		case string:
			v = value.String(p)
		case int:
			v = value.Int(int64(p))
		case bool:
			v = value.Bool(p)
		case value.Value:
			v = p
		}
		fields = append(fields, value.Field{Name: pairs[i].(string), Value: v})
	}
	return value.Map(fields...)
}
