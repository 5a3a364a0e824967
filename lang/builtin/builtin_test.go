package builtin

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestLanguages(t *testing.T) {
	set := Languages()
	f := func(name, code, want string) {
		t.Helper()
		p, err := set.Compile(name, diag.PlainText(code), lang.Options{})
		if err != nil {
			t.Errorf("%s: got error %v", name, err)
			return
		}
		if got, err := p.Eval(t.Context(), value.Map(value.Field{Name: "n", Value: value.Int(1)})); err != nil || got.String() != want {
			t.Errorf("%s: got %v, %v, want %s", name, got, err, want)
		}
	}
	f("text", "pong", "pong")
	f("json", `{"b":1,"a":[null]}`, `{"b":1,"a":[null]}`)
	f("yaml", "b: 1\na: [~]", `{"b":1,"a":[null]}`)
	f("cel", "{'b': n, 'a': [null]}", `{"b":1,"a":[null]}`)
	f("javascript", "export default i => ({ b: i.n, a: [null] })", `{"b":1,"a":[null]}`)
	f("typescript", "export default (i: { n: number }) => ({ b: i.n, a: [null] })", `{"b":1,"a":[null]}`)
	if got := strings.Join(set.Names(), " "); got != "cel javascript json text typescript yaml" {
		t.Errorf("got the names %s", got)
	}
}

func TestUnknownLanguage(t *testing.T) {
	_, err := Languages().Compile("javascrpt", diag.PlainText(""), lang.Options{})
	var d *diag.Diagnostic
	if !errors.As(err, &d) || d.Code != diag.CodeUnknownLanguage || d.Hint != `did you mean "javascript"?` {
		t.Errorf("got %#v, want the hint javascript", err)
	}
	if !errors.As(Languages().Check("cobol"), &d) || !strings.Contains(d.Hint, "use one of cel, javascript") {
		t.Errorf("got the hint %q, want the names", d.Hint)
	}
}

// BenchmarkEval is one evaluation, compiled before: what a snippet or a condition
// costs a request on top of its node. The payload is made before, the result is
// not encoded. plain-go is the same written by hand over the same values.
func BenchmarkEval(b *testing.B) {
	set := Languages()
	in, err := value.ParseJSON([]byte(`{"method":"POST","path":"/orders","header":{"accept":["*/*"]},"body":{"n":41,"items":[{"price":1.5,"count":2},{"price":3,"count":4}]}}`))
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	run := func(name, language, code string, mode lang.Mode) {
		b.Run(name, func(b *testing.B) {
			p, err := set.Compile(language, diag.PlainText(code), lang.Options{Mode: mode})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Eval(ctx, in); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("plain-go/compare", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out, err := plainCompare(ctx, in); err != nil || !out.Truth() {
				b.Fatal(out, err)
			}
		}
	})
	b.Run("plain-go/map", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if out, err := plainMap(ctx, in); err != nil || out.Len() != 2 {
				b.Fatal(out, err)
			}
		}
	})
	run("text", "text", "pong", lang.ModeFunction)
	run("cel/compare", "cel", "method == 'POST' && body.n > 40", lang.ModeExpression)
	run("cel/map", "cel", "{'status': 200, 'body': body}", lang.ModeFunction)
	run("cel/loop", "cel", "body.items.map(i, i.price * i.count)", lang.ModeFunction)
	run("cel/judge", "cel", "size(path) > 0 && size(body.items) > 0 && body.items.all(i, i.count > 0)", lang.ModeExpression)
	run("cel/order", "cel", "{'n': body.n, 'items': body.items.map(i, {'count': i.count, 'total': {'tea': 4, 'mate': 3}['tea'] * i.count})}", lang.ModeFunction)
	run("cel/interpreted", "cel", "body.items.map(i, string(i.price))", lang.ModeFunction) // string has no direct step
	run("javascript/compare", "javascript", "method === 'POST' && body.n > 40", lang.ModeExpression)
	run("javascript/map", "javascript", "export default i => ({ status: 200, body: i.body })", lang.ModeFunction)
	run("javascript/loop", "javascript", "export default i => i.body.items.map(x => x.price * x.count)", lang.ModeFunction)
	run("javascript/async", "javascript", "export default async i => ({ status: 200, body: await i.body })", lang.ModeFunction)
	run("javascript/constant", "javascript", "export default () => 'pong'", lang.ModeFunction)
}

func plainCompare(ctx context.Context, in value.Value) (value.Value, error) {
	method, _ := in.Get("method")
	body, _ := in.Get("body")
	n, _ := body.Get("n")
	s, _ := method.AsString()
	i, _ := n.AsInt()
	return value.Bool(s == "POST" && i > 40), ctx.Err()
}

func plainMap(ctx context.Context, in value.Value) (value.Value, error) {
	body, _ := in.Get("body")
	return value.UniqueMap([]value.Field{{Name: "status", Value: value.Int(200)}, {Name: "body", Value: body}}), ctx.Err()
}

// BenchmarkCompile is one compilation, as a check of a workflow pays it for each
// field with code. The set has compiled before.
func BenchmarkCompile(b *testing.B) {
	set := Languages()
	run := func(name, language, code string, mode lang.Mode) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := set.Compile(language, diag.PlainText(code), lang.Options{Mode: mode}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	run("cel", "cel", "method == 'POST' && body.n > 40", lang.ModeExpression)
	run("javascript/expression", "javascript", "method === 'POST' && body.n > 40", lang.ModeExpression)
	run("javascript/function", "javascript", "export default i => ({ status: 200, body: i.body })", lang.ModeFunction)
	run("typescript/function", "typescript", "export default (i: { body: any }) => ({ status: 200, body: i.body })", lang.ModeFunction)
	run("yaml", "yaml", "status: 200\nbody: [a, b]", lang.ModeFunction)
}
