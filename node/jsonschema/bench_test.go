package jsonschema

import (
	"testing"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/value"
)

const orderSchema = `{"type": "object", "required": ["item", "count"], "additionalProperties": false, "properties": {
	"item": {"type": "string", "minLength": 1, "maxLength": 100}, "count": {"type": "integer", "minimum": 1, "maximum": 1000},
	"note": {"type": "string", "maxLength": 500}, "tags": {"type": "array", "maxItems": 10, "items": {"type": "string", "pattern": "^[a-z]+$"}}}}`

const order = `{"item": "tea", "count": 3, "note": "without sugar", "tags": ["hot", "green"]}`

// BenchmarkCheck is what a body of four fields costs: by the rules, and by the library with
// the conversion that it needs.
func BenchmarkCheck(b *testing.B) {
	s, _ := value.ParseJSON([]byte(orderSchema))
	v, _ := value.ParseJSON([]byte(order))
	b.Run("rules", func(b *testing.B) {
		rules, err := Compile(s, Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if found := rules.Problems(v, 20); found != nil {
				b.Fatal(found)
			}
		}
	})
	b.Run("library", func(b *testing.B) {
		lib := library.NewCompiler()
		if err := lib.AddResource(schemaURL, s.Go()); err != nil {
			b.Fatal(err)
		}
		compiled, err := lib.Compile(schemaURL)
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for b.Loop() {
			if err := compiled.Validate(v.Go()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
