package kinds

import (
	"embed"
	"io/fs"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/kinds/wasm"
	"github.com/uniflow-labs/uniflow/test/guests"
	"github.com/uniflow-labs/uniflow/value"
)

// order is a payload of 300 bytes of JSON.
func order() value.Value {
	line := func(count, price int64) value.Value {
		return value.Map(value.Field{Name: "count", Value: value.Int(count)}, value.Field{Name: "price", Value: value.Int(price)})
	}
	return value.Map(
		value.Field{Name: "id", Value: value.String("a-1")},
		value.Field{Name: "lines", Value: value.List(line(2, 50), line(1, 20), line(3, 7))},
		value.Field{Name: "note", Value: value.String(strings.Repeat("x", 194))},
	)
}

//go:embed testdata
var testdata embed.FS

// versus measures a module in Rust, and the same in JavaScript. Benchmarks run in any folder.
func versus(b *testing.B, module, fields string, in value.Value) {
	data, err := fs.Sub(testdata, "testdata")
	if err != nil {
		b.Fatal(err)
	}
	code, err := fs.ReadFile(data, module+".js")
	if err != nil {
		b.Fatal(err)
	}
	b.Chdir(b.TempDir())
	guests.Rust(b, ".", module+".rs", wasm.Rust(), data)
	var answers []string
	for _, kind := range []struct{ name, document string }{
		{"uniflow", "- {kind: wasm, name: n, module: " + module + ".wasm" + fields + "}"},
		{"by-hand/javascript", "- {kind: snippet, name: n, language: javascript, timeout: 1m, code: " + strconv.Quote(string(code)) + "}"},
	} {
		send := sent(b, kind.document, in)
		out, err := send()
		if err != nil {
			b.Fatal(err)
		}
		if answers = append(answers, out.String()); answers[0] != out.String() {
			b.Fatalf("got %s, want %s", out, answers[0])
		}
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := send(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWasmMap prices an order of 300 bytes.
func BenchmarkWasmMap(b *testing.B) { versus(b, "price", ", config: {tax: 20}", order()) }

// BenchmarkWasmHash hashes a text 1,000 times.
func BenchmarkWasmHash(b *testing.B) {
	versus(b, "sha256", "", value.Map(value.Field{Name: "text", Value: value.String("abc")}, value.Field{Name: "rounds", Value: value.Int(1000)}))
}
