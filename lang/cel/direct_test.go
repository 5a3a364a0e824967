package cel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/value"
)

// interpreted is the same program without direct steps.
func interpreted(p *program) *program {
	return &program{planned: p.planned, timeout: p.timeout, code: p.code, info: p.info, types: p.types}
}

// alike fails unless a program gives the same with direct steps and without.
func alike(t *testing.T, p *program, in value.Value) {
	t.Helper()
	got, err := p.Eval(t.Context(), in)
	want, wantErr := interpreted(p).Eval(t.Context(), in)
	if wantErr != nil && strings.Contains(wantErr.Error(), "unhashable") {
		return // a mistake of the library: binary in a constant list
	}
	if fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Errorf("%s on %v: got error %v, want %v", p.code.Code, in, err, wantErr)
	}
	if kinds(got) != kinds(want) {
		t.Errorf("%s on %v: got %s, want %s", p.code.Code, in, kinds(got), kinds(want))
	}
}

// kinds is a value as text, with kinds and the signs of zeros.
func kinds(v value.Value) string {
	var b strings.Builder
	var write func(v value.Value)
	write = func(v value.Value) {
		fmt.Fprintf(&b, "%s ", v.Kind())
		switch v.Kind() {
		case value.KindList:
			for _, e := range v.Elems() {
				write(e)
			}
		case value.KindMap:
			for name, e := range v.Fields() {
				fmt.Fprintf(&b, "%q:", name)
				write(e)
			}
		case value.KindFloat:
			f, _ := v.AsFloat()
			if f != f {
				b.WriteString("NaN")
			} else {
				fmt.Fprintf(&b, "%x", math.Float64bits(f))
			}
		default:
			b.WriteString(v.String())
		}
		b.WriteByte(';')
	}
	write(v)
	return b.String()
}

func payloads() []value.Value {
	field := func(name string, v value.Value) value.Field { return value.Field{Name: name, Value: v} }
	scalars := []value.Value{
		value.Null(), value.Bool(true), value.Bool(false), value.Int(0), value.Int(1), value.Int(-7), value.Int(math.MaxInt64), value.Int(math.MinInt64),
		value.Int(1 << 53), value.Int(1<<53 + 1), value.Uint(math.MaxUint64), value.Float(0), value.Float(math.Copysign(0, -1)), value.Float(1), value.Float(2.5),
		value.Float(1 << 63), value.Float(math.NaN()), value.Float(math.Inf(1)), value.String(""), value.String("a"), value.String("äöü"),
		value.String(strings.Repeat("x", 300)), value.Binary([]byte("a")), value.Duration(5), value.Error(fmt.Errorf("broken")),
	}
	at := payload()
	at, _ = at.Get("at")
	scalars = append(scalars, at)
	all := append([]value.Value{}, scalars...)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func() value.Value { return scalars[rnd.IntN(len(scalars))] }
	all = append(all, value.List(), value.Map(), payload())
	for range 40 {
		lines := make([]value.Value, rnd.IntN(4))
		for i := range lines {
			lines[i] = value.Map(field("a", pick()), field("b", pick()))
		}
		nums := make([]value.Value, rnd.IntN(5))
		for i := range nums {
			nums[i] = value.Int(int64(rnd.IntN(5) - 2))
		}
		all = append(all, value.Map(
			field("a", pick()), field("b", pick()), field("l", value.List(lines...)), field("n", value.List(nums...)),
			field("m", value.Map(field("a", pick()), field("b", value.Int(3)), field("x y", pick()))),
			field("f", value.Float(1.5)), field("i", value.Int(int64(rnd.IntN(100)))), field("s", value.String("ab")),
			field("z", value.LazyMap(source{pick()}, 64, 1)), field("x", pick()),
		))
	}
	return all
}

// An author writes random expressions.
type author struct {
	*rand.Rand
	vars []string
}

func (a *author) one(of ...string) string { return of[a.IntN(len(of))] }

func (a *author) expr(depth int) string {
	if depth <= 0 {
		return a.leaf()
	}
	sub := func() string { return a.expr(depth - 1) }
	switch a.IntN(16) {
	case 0, 1:
		return a.leaf()
	case 2, 3:
		return "(" + sub() + " " + a.one("+", "-", "*", "/", "%") + " " + sub() + ")"
	case 4, 5:
		return "(" + sub() + " " + a.one("==", "!=", "<", "<=", ">", ">=") + " " + sub() + ")"
	case 6:
		return "(" + sub() + " " + a.one("&&", "||") + " " + sub() + ")"
	case 7:
		return "(" + sub() + " ? " + sub() + " : " + sub() + ")"
	case 8:
		return "(" + sub() + " in " + sub() + ")"
	case 9:
		return a.one("!", "-", "size", "has", "double", "int", "string") + "(" + a.one(sub(), a.leaf()+".a", "m.b") + ")"
	case 10:
		return "[" + sub() + ", " + sub() + "]"
	case 11:
		return "{'a': " + sub() + ", " + a.one("'b'", "'b'", "'a'", "1", "s") + ": " + sub() + "}"
	case 12:
		return sub() + "[" + sub() + "]"
	case 13:
		return sub() + "." + a.one("startsWith", "endsWith", "contains") + "(" + a.leaf() + ")"
	}
	over := a.one("l", "l", "n", "n", "m", "[1, 2, 'a']", sub())
	name := a.one("e", "x", "self", "i")
	a.vars = append(a.vars, name, name, name+".a")
	body := a.expr(depth - 1)
	if a.IntN(2) == 0 {
		body = "[" + name + ".a, " + body + ", " + name + "." + a.one("a", "a", "b") + "]"
	}
	macro := a.one("all", "exists", "exists_one", "filter", "map", "map2", "transformList", "sortBy")
	args := name + ", " + body
	switch macro {
	case "map2":
		macro, args = "map", name+", "+a.expr(depth-1)+", "+body
	case "transformList":
		args = "k, " + name + ", " + body
	}
	a.vars = a.vars[:len(a.vars)-3]
	return over + "." + macro + "(" + args + ")"
}

func (a *author) leaf() string {
	if len(a.vars) > 0 && a.IntN(2) == 0 {
		return a.one(a.vars...)
	}
	return a.one("a", "b", "l", "n", "m", "f", "i", "s", "x", "z", "z.q", "m.a", "m.b", "m['x y']", "self", "self.a", "missing", "m.missing", "l[0]", "l[0].a", "n[0]",
		"1", "-1", "0", "2.5", "0.0", "-0.0", "9223372036854775807", "-9223372036854775808", "3u", "'a'", "''", "'ab'", "'äö'", "true", "false", "null", "b'a'",
		"[]", "{}", "[1, 2.0]", "['a', 'b']", "{'a': 1, 'b': 2}", "int", ".a", ".x", "type(a)", "dyn(a)", "string(i)", "'12'", "'-3.5e2'", "double('1.5')", "string(f)")
}

// TestDirectIsInterpreted compares random expressions on many payloads.
func TestDirectIsInterpreted(t *testing.T) {
	language, ins := New(), payloads()
	a := &author{Rand: rand.New(rand.NewPCG(3, 4))}
	expressions, direct, values, kept := 0, 0, 0, 0
	for range 4000 {
		code := a.expr(1 + a.IntN(4))
		made, err := language.Compile(diag.PlainText(code), lang.Options{})
		p, ok := made.(*program)
		if err != nil || !ok { // refused, or a literal
			continue
		}
		expressions++
		if p.direct == nil {
			continue
		}
		direct++
		for _, name := range []string{"e", "x", "self", "i"} {
			if strings.Contains(code, "["+name+".a, ") && strings.Contains(code, ", "+name+".a]") {
				kept++
			}
		}
		for range 12 {
			in := ins[a.IntN(len(ins))]
			alike(t, p, in)
			if v := (&activation{in: in}); !in.IsError() {
				v.meter.start(t.Context(), 0)
				if _, ok := p.evalDirect(v); ok {
					values++
				}
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("%d expressions, %d of them direct, with %d values, %d select a field several times", expressions, direct, values, kept)
	if direct < expressions/3 || values < direct || kept < 10 {
		t.Errorf("got %d direct of %d expressions and %d values from them, which compares too little", direct, expressions, values)
	}
}
