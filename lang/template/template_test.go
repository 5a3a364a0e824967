package template

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// echo is a program that makes its own code, or null of "null".
type echo string

func (e echo) Eval(context.Context, value.Value) (value.Value, error) {
	if e == "null" {
		return value.Null(), nil
	}
	return value.String("<" + string(e) + ">"), nil
}

func compileEcho(code diag.Text) (lang.Program, error) {
	if code.Code == "" {
		return nil, errors.New("no code")
	}
	return echo(code.Code), nil
}

func TestMain(m *testing.M) { leak.Main(m) }

func TestTemplate(t *testing.T) {
	f := func(doc, want string) {
		t.Helper()
		v, err := value.ParseJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		made, err := New(schema.RawOf(v), compileEcho)
		if err != nil {
			if got := "error: " + err.Error(); got != want {
				t.Errorf("%s: got %s, want %s", doc, got, want)
			}
			return
		}
		got, _, err := made.Render(t.Context(), value.Null())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := got.AppendJSON(nil); err != nil || string(text) != want {
			t.Errorf("%s: got %s, %v, want %s", doc, text, err, want)
		}
	}
	f(`{"a":[1,"b",null,{}]}`, `{"a":[1,"b",null,{}]}`)
	f(`{"a":"${x}","b":["${y}","-${z}-${z}"]}`, `{"a":"<x>","b":["<y>","-<z>-<z>"]}`)
	f(`{"a":"${null}","b":["${null}",1],"c":"x${null}y","d":2}`, `{"b":[1],"c":"xy","d":2}`)
	f(`"$${x} costs 5$"`, `"${x} costs 5$"`)
	f(`"${ {'a': {'b': '}'}}.a }"`, `"< {'a': {'b': '}'}}.a >"`)
	f(`"${x[\"}\\\"\"]}"`, `"<x[\"}\\\"\"]>"`)
	f(`"a}b{c$d"`, `"a}b{c$d"`)
	f(`{"a":["${x"]}`, `error: a "${" has no "}" [F2013]`)
	f(`"${}"`, `error: no code`)
}

// TestTemplateTypes keeps the type of what an expression makes.
func TestTemplateTypes(t *testing.T) {
	languages := builtin.Languages()
	doc, err := value.ParseJSON([]byte(`{"n":"${n + 1}","l":"${l}","t":"n=${n} l=${l}"}`))
	if err != nil {
		t.Fatal(err)
	}
	made, err := New(schema.RawOf(doc), func(code diag.Text) (lang.Program, error) {
		return languages.Compile("cel", code, lang.Options{Mode: lang.ModeExpression})
	})
	if err != nil {
		t.Fatal(err)
	}
	in, err := value.ParseJSON([]byte(`{"n":1,"l":[{"a":true}]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, there, err := made.Render(t.Context(), in)
	if err != nil || !there {
		t.Fatal(err)
	}
	if want := `{"n":2,"l":[{"a":true}],"t":"n=1 l=[{\"a\":true}]"}`; got.String() != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestText renders values of other types as text.
func TestText(t *testing.T) {
	languages := builtin.Languages()
	f := func(text, want string) {
		t.Helper()
		made, err := New(schema.RawOf(value.String(text)), func(code diag.Text) (lang.Program, error) {
			return languages.Compile("cel", code, lang.Options{Mode: lang.ModeExpression})
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := made.Text(t.Context(), value.Map(value.Field{Name: "n", Value: value.Int(7)}, value.Field{Name: "z", Value: value.Null()}))
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	f("orders", "orders")
	f("", "")
	f("${n}", "7")
	f("${z}", "")
	f("a.${n}.${z}b", "a.7.b")
	f("${[n]}", "[7]")
	f("${missing}", "error: unknown name \"missing\"")
}

// FuzzTemplate reads or refuses any text. Texts without expressions
// come back as they were.
func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"", "a", "${a}", "x${a}y${b}z", "$${a}", "${", "${}", "${'}'}", "${{}}", "$$${a}", "${`a", "${\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		made, err := textTemplate(text, schema.RawOf(value.String(text)), compileEcho)
		if err != nil {
			return
		}
		got, there, err := made.Render(t.Context(), value.Null())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "${") && (!there || got.String() != text) {
			t.Errorf("%q: got %q", text, got)
		}
	})
}
