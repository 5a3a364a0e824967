package schema

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/value"
)

var all = Fields(
	Enum("method", "GET", "POST").Default("GET").Doc("The method."),
	String("path").Required().Doc("The path, a|b."),
	Text("code"),
	Expr("when"),
	Duration("timeout").Default("5s"),
	Int("port").Range(0, 65535).Default(8000),
	Float("factor").Range(1, 10).Default(1.5),
	Bool("on").Default(true),
	Bytes("body").Default("8MiB").Range(1, 1<<30),
	Any("payload"),
	Strings("hosts").Default([]string{"a", "b"}),
	OutPort("to"),
	List("routes", Fields(String("path").Required(), OutPort("port").Required())),
	Group("limits", Fields(Bytes("header").Default("64KiB"), Duration("idle").Default(2*time.Minute), String("need").Required())),
	String("key").Secret(),
)

// tree makes a Raw of Go values, each at a line of its own.
func tree(v value.Value) *Raw {
	line := 0
	var place func(r *Raw, pointer string)
	place = func(r *Raw, pointer string) {
		line++
		r.Pos, r.Pointer = diag.Pos{File: "x", Line: line, Col: 1}, pointer
		if r.Kind == RawScalar && r.Text.Code == "" {
			r.Text.Code = r.Value.String()
		}
		r.Text = diag.NewText(r.Text.Code, "x", r.Pos, []diag.Pos{r.Pos})
		for _, item := range r.Items {
			place(item, pointer+"/-")
		}
		for i := range r.Fields {
			r.Fields[i].Pos = diag.Pos{File: "x", Line: line + 1, Col: 1}
			place(r.Fields[i].Value, pointer+"/"+r.Fields[i].Name)
		}
	}
	raw := RawOf(v)
	place(raw, "")
	return raw
}

func object(pairs ...any) value.Value {
	var b value.MapBuilder
	for i := 0; i < len(pairs); i += 2 {
		var v value.Value
		switch x := pairs[i+1].(type) {
		case value.Value:
			v = x
		case string:
			v = value.String(x)
		case int:
			v = value.Int(int64(x))
		case float64:
			v = value.Float(x)
		case bool:
			v = value.Bool(x)
		}
		b.Set(pairs[i].(string), v)
	}
	return b.Build()
}

func TestDecode(t *testing.T) {
	c, list := all.Decode(tree(object(
		"path", "/", "code", 42, "when", true, "timeout", "1m", "port", "81", "on", "false", "body", "1KiB",
		"payload", value.List(value.Int(1)), "hosts", "one", "to", "out[2]",
		"routes", value.List(object("path", "/a", "port", "out[0]"), object("path", "/b", "port", "out")),
		"limits", object("need", "x", "header", 10),
	)))
	if len(list) > 0 {
		t.Fatalf("got %v, want no findings", list)
	}
	got := []any{
		c.String("method"), c.String("path"), c.Text("code").Code, c.Text("when").Code, c.Duration("timeout"), c.Int("port"),
		c.Float("factor"), c.Bool("on"), c.Int("body"), c.Value("payload").String(), c.Strings("hosts"), c.OutPort("to"),
		len(c.List("routes")), c.List("routes")[1].String("path"), c.List("routes")[1].OutPort("port"),
		c.Group("limits").Int("header"), c.Group("limits").Duration("idle"), c.String("key"),
		c.Has("method"), c.Has("path"), c.Path("path"), c.List("routes")[1].Path("path"), c.Group("limits").Path("idle"),
	}
	want := []any{
		"GET", "/", "42", "true", time.Minute, int64(81),
		1.5, false, int64(1024), "[1]", []string{"one"}, 2,
		2, "/b", 0,
		int64(10), 2 * time.Minute, "",
		false, true, "path", "routes[1].path", "limits.idle",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// TestSettings shows what was given as it was written, and defaults, but no secret.
func TestSettings(t *testing.T) {
	raw := tree(object(
		"path", "/", "timeout", "1m", "key", "hunter2", "payload", object("a", "hunter2"),
		"routes", value.List(object("path", "/a", "port", "out[0]")), "limits", object("need", "x"),
	))
	raw.Field("payload").Field("a").Templated = true
	c, list := all.Decode(raw)
	if len(list) > 0 {
		t.Fatal(list)
	}
	got := make(map[string]string)
	for _, s := range c.Settings() {
		text := s.Value.String()
		if s.Hidden {
			text = "hidden"
		}
		if !s.Given {
			text += " by default"
		}
		got[s.Path] = text
	}
	for path, want := range map[string]string{
		"path": "/", "timeout": "1m", "key": "hidden", "payload": "hidden", "routes[0].path": "/a", "routes[0].port": "out[0]",
		"limits.need": "x", "limits.idle": "2m0s by default", "port": "8000 by default", "when": "",
	} {
		if got[path] != want {
			t.Errorf("%s: got %q, want %q", path, got[path], want)
		}
	}
}

// TestWithInUse adds fields to an object that others use; the race detector watches.
func TestWithInUse(t *testing.T) {
	shared := Fields(Duration("timeout").Default("5s"))
	var users sync.WaitGroup
	for range 2 {
		users.Go(func() {
			for range 100 {
				c, list := shared.With(Int("more").Default(1)).Decode(RawOf(value.Map()))
				if len(list) > 0 || c.Int("more") != 1 {
					t.Error(list)
					return
				}
			}
		})
	}
	users.Wait()
}

func TestDecodeDefaults(t *testing.T) {
	c, list := all.Decode(tree(object("path", "/", "port", value.Null(), "routes", object("path", "/", "port", "out"))))
	if len(list) > 0 {
		t.Fatalf("got %v, want no findings", list)
	}
	if got := c.Group("limits").Duration("idle"); got != 2*time.Minute || c.Has("limits") {
		t.Errorf("group left out: got %v, %v, want its defaults", got, c.Has("limits"))
	}
	if c.Int("port") != 8000 || c.Has("port") || c.Int("body") != 8<<20 || len(c.Strings("hosts")) != 2 || len(c.List("routes")) != 1 {
		t.Error("got other than the defaults")
	}
	empty, list := Object{}.Decode(nil)
	if len(list) > 0 || empty.Errorf("", "F2007", "x").Pos.IsValid() {
		t.Errorf("got %v, want nothing", list)
	}
}

func TestDecodeFindings(t *testing.T) {
	f := func(v value.Value, want ...string) {
		t.Helper()
		_, list := all.Decode(tree(v))
		list.Sort()
		var got []string
		for _, d := range list {
			line := d.Error()
			if d.Hint != "" {
				line += " | " + d.Hint
			}
			got = append(got, line)
		}
		if g, w := strings.Join(got, "\n"), strings.Join(want, "\n"); g != w {
			t.Errorf("got\n%s\nwant\n%s", g, w)
		}
	}
	f(object("pathh", "/", "xyzzy", 1),
		`x:1:1: path: missing [F2002] | it is required: a string`,
		`x:2:1: pathh: unknown field [F2001] | did you mean "path"?`,
		`x:3:1: xyzzy: unknown field [F2001] | the fields are: method, path, code, when, timeout, port, factor, on, body, payload, hosts, to, routes, limits, key`)
	f(object("path", value.Null()), `x:2:1: path: is null [F2002] | it is required: a string`)
	f(object("path", ""), `x:2:1: path: is empty [F2002] | it is required: a string`)
	f(object("path", 42), `x:2:1: path: want a string, got an integer [F2003] | put quotes around it: "42"`)
	f(object("path", "/", "method", "PSOT", "port", 70000, "factor", "x", "on", 1, "body", "8 megs", "timeout", "5 seconds", "to", "in[0]"),
		`x:3:1: method: want one of GET, POST, got "PSOT" [F2005] | did you mean "POST"?`,
		`x:4:1: port: want an integer from 0 to 65535, got 70000 [F2004] | write 65535 or less`,
		`x:5:1: factor: want a number, got "x" [F2003] | write a number, without a unit`,
		`x:6:1: on: want a boolean, got an integer [F2003] | write true or false`,
		`x:7:1: body: want a size such as "8MiB", got "8 megs" [F2012] | the units are B, KiB, MiB, GiB, TiB, and kB, MB, GB, TB; a bare number is bytes`,
		`x:8:1: timeout: want a duration such as "5s", got "5 seconds" [F2011] | write 5s`,
		`x:9:1: to: want an out-port such as out[0], got "in[0]" [F2010] | only out, out[0], out[1] and so on can be named here`)
	f(object("path", "/", "timeout", 5), `x:3:1: warning: timeout: 5 has no unit, so it is milliseconds: 5ms [F5040] | write 5s for seconds, or 5ms if that is meant`)
	f(object("path", "/", "timeout", "1500"), `x:3:1: warning: timeout: 1500 has no unit, so it is milliseconds: 1.5s [F5040] | write 1500s for seconds, or 1.5s if that is meant`)
	f(object("path", "/", "timeout", 0))
	f(object("path", "/", "timeout", "1 day"), `x:3:1: timeout: want a duration such as "5s", got "1 day" [F2011] | write 24h`)
	f(object("path", "/", "timeout", "5x"), `x:3:1: timeout: want a duration such as "5s", got "5x" [F2011] | the units are ns, us, ms, s, m and h, as in 1h30m`)
	f(object("path", "/", "method", "FETCH"), `x:3:1: method: want one of GET, POST, got "FETCH" [F2005] | write GET or POST`)
	f(object("path", "/", "body", 0, "timeout", -1, "port", 1.5, "to", "out[4096]", "on", value.List()),
		`x:3:1: body: want a size such as "8MiB" from 1 to 1GiB, got 0 [F2004] | write 1 or more`,
		`x:4:1: timeout: a duration cannot be negative [F2011] | write a duration such as "5s"`,
		`x:5:1: port: want an integer, got a float [F2003] | write a number, without a unit`,
		`x:6:1: to: an index may go up to 1023 [F2004] | write out[1023] or less`,
		`x:7:1: on: want a boolean, got a list [F2003] | write true or false`)
	f(object("path", "/", "routes", value.List(object("path", "/"), value.Int(1), object("port", "out", "pot", 1)), "limits", 7, "hosts", value.List(value.Int(1))),
		`x:4:1: routes[0].port: missing [F2002] | it is required: an out-port such as out[0]`,
		`x:6:1: routes[1]: want a map, got an integer [F2003] | write {path: …, port: …}`,
		`x:7:1: routes[2].path: missing [F2002] | it is required: a string`,
		`x:9:1: routes[2].pot: unknown field [F2001] | did you mean "port"?`,
		`x:10:1: limits: want a map, got an integer [F2003] | write {header: …, idle: …, need: …}`,
		`x:12:1: hosts: want a string, got an integer [F2003]`)
	f(object("path", "/", "limits", object("header", 1)), `x:3:1: limits.need: missing [F2002] | it is required: a string`)
	f(value.Int(1), `x:1:1: want a map, got an integer [F2003] | write {method: …, path: …, code: …, when: …, …}`)
}

func TestSecretsAreNotShown(t *testing.T) {
	o := Fields(
		Enum("a", "x"), Int("b").Range(0, 1), Bool("c"), Duration("d"), Bytes("e"), OutPort("f"), Int("g"), Float("h"), String("i"),
	)
	var b value.MapBuilder
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		b.Set(name, value.String("hunter2"))
	}
	b.Set("b", value.String("4711"))
	raw := tree(b.Build())
	for i := range raw.Fields {
		raw.Fields[i].Value.Templated = true
	}
	c, list := o.Decode(raw)
	if len(list) != 8 {
		t.Errorf("got %d findings, want 8: %v", len(list), list)
	}
	for _, d := range list {
		if s := d.Error() + d.Hint; strings.Contains(s, "hunter2") || strings.Contains(s, "4711") {
			t.Errorf("got %q, want it without the secret", s)
		}
	}
	if !c.Hidden("a") || c.Hidden("i") {
		t.Error("got Hidden other than for what a template made")
	}
	secret := Fields(Int("key").Secret())
	_, list = secret.Decode(tree(object("key", "hunter2")))
	if s := list.Error(); strings.Contains(s, "hunter2") || !strings.Contains(s, "a secret text") {
		t.Errorf("got %q, want it without the secret", s)
	}
}

func TestErrorf(t *testing.T) {
	c, _ := all.Decode(tree(object("path", "/", "routes", value.List(object("path", "/a", "port", "out")))))
	d := c.List("routes")[0].Errorf("path", diag.CodeRouteConflict, "taken by %s", "b")
	if got, want := d.Error(), "x:5:1: routes[0].path: taken by b [F2008]"; got != want || d.Pointer != "/routes/-/path" {
		t.Errorf("got %s at %s, want %s", got, d.Pointer, want)
	}
	if got, want := c.Errorf("key", diag.CodeBadNode, "m").Error(), "x:1:1: key: m [F2007]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := c.Errorf("", diag.CodeBadNode, "m").Error(), "x:1:1: m [F2007]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestFind(t *testing.T) {
	c, _ := all.Decode(tree(object("path", "/")))
	for _, f := range []struct{ path, want string }{
		{"port", "port"}, {"limits.idle", "limits.idle"}, {"limits", "limits"}, {"limits.none", "limits"}, {"routes.path", "routes"}, {"none", ""}, {"", ""},
	} {
		if in, name := c.Find(f.path); in.Path(name) != f.want {
			t.Errorf("%s: got %q, want %q", f.path, in.Path(name), f.want)
		}
	}
}

func TestMistakesOfTheKindPanic(t *testing.T) {
	f := func(name string, mistake func()) {
		t.Helper()
		defer func() {
			if recover() == nil {
				t.Errorf("%s: got no panic, want one", name)
			}
		}()
		mistake()
	}
	c, _ := all.Decode(tree(object("path", "/")))
	f("undeclared field", func() { c.String("nope") })
	f("other type", func() { c.Int("path") })
	f("declared twice", func() { Fields(Int("a"), Int("a")) })
	f("bad default", func() { Fields(Duration("a").Default("x")) })
	f("default out of range", func() { Fields(Int("a").Range(1, 2).Default(3)) })
	f("default of a list", func() { Fields(List("a", Object{}).Default("x")) })
	f("odd default", func() { Int("a").Default(struct{}{}) })
}

func TestWith(t *testing.T) {
	own := Fields(String("topic").Required(), Duration("every").Default(time.Second))
	both := own.With(Int("count").Default(7))
	c, list := both.Decode(RawOf(value.Map(value.Field{Name: "topic", Value: value.String("a")})))
	if len(list) > 0 {
		t.Fatal(list)
	}
	if c.String("topic") != "a" || c.Duration("every") != time.Second || c.Int("count") != 7 || own.Has("count") {
		t.Errorf("got %v, %v, %v, and own.Has(count) %v", c.String("topic"), c.Duration("every"), c.Int("count"), own.Has("count"))
	}
	defer func() {
		if recover() == nil {
			t.Error("a field that is declared twice did not panic")
		}
	}()
	both.With(Int("topic"))
}

func TestMarkdown(t *testing.T) {
	want := "| field | type | default | description |\n| --- | --- | --- | --- |\n" +
		"| `method` | `GET`, `POST` | `GET` | The method. |\n" +
		"| `path` | string | required | The path, a\\|b. |\n" +
		"| `code` | text |  |  |\n" +
		"| `when` | expression |  |  |\n" +
		"| `timeout` | duration | `5s` |  |\n" +
		"| `port` | integer, 0 to 65535 | `8000` |  |\n" +
		"| `factor` | number, 1 to 10 | `1.5` |  |\n" +
		"| `on` | boolean | `true` |  |\n" +
		"| `body` | size, 1 to 1GiB | `8MiB` |  |\n" +
		"| `payload` | any |  |  |\n" +
		"| `hosts` | list of strings | `[\"a\",\"b\"]` |  |\n" +
		"| `to` | out-port |  |  |\n" +
		"| `routes` | list |  |  |\n" +
		"| `routes[].path` | string | required |  |\n" +
		"| `routes[].port` | out-port | required |  |\n" +
		"| `limits` | object |  |  |\n" +
		"| `limits.header` | size | `64KiB` |  |\n" +
		"| `limits.idle` | duration | `2m0s` |  |\n" +
		"| `limits.need` | string | required |  |\n" +
		"| `key` | string, secret |  |  |\n"
	if got := all.Markdown(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := (Object{}).Markdown(); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

func TestJSONSchema(t *testing.T) {
	got := Fields(Int("n").Required().Range(1, 2).Doc("N."), Strings("s"), Enum("e", "a").Default("a"), Duration("d").Default("5s"), String("k").Secret()).JSONSchema().String()
	want := `{"type":"object","properties":{"n":{"description":"N.","anyOf":[{"type":"integer","minimum":1,"maximum":2},{"type":"string","pattern":"^[-+]?[0-9]+(\\.0*)?([eE]\\+?[0-9]+)?$|\\{\\{"}]},` +
		`"s":{"anyOf":[{"type":"array","items":{"type":"string"}},{"type":"string"},{"type":"null"}]},` +
		`"e":{"anyOf":[{"enum":["a"]},{"type":"string","pattern":"\\{\\{"},{"type":"null"}],"default":"a"},` +
		`"d":{"anyOf":[{"type":"string","pattern":"^\\+?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)([eE][-+]?[0-9]+)?|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$|\\{\\{"},{"type":"number","minimum":0},{"type":"null"}],"default":"5s"},` +
		`"k":{"anyOf":[{"type":"string"},{"type":"null"}],"writeOnly":true}},` +
		`"required":["n"],"additionalProperties":false}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	got = Fields(Text("t").Pattern("^[0-9]+$"), String("s").Pattern("^x")).JSONSchema().String()
	want = `{"type":"object","properties":{"t":{"anyOf":[{"type":"string","pattern":"^[0-9]+$|\\{\\{"},{"type":"number"},{"type":"boolean"},{"type":"null"}]},` +
		`"s":{"anyOf":[{"type":"string","pattern":"^x|\\{\\{"},{"type":"null"}]}},"additionalProperties":false}`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	infos := all.All()
	if len(infos) != 15 || infos[0].Name != "method" || infos[1].Required != true || infos[14].Secret != true || len(infos[12].Fields.All()) != 2 {
		t.Errorf("got %+v, want all fields", infos)
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("out[0]", int64(1), 1.5, true)
	f.Add("5s", int64(-1), -1e300, false)
	f.Add("0x1p-2", int64(1<<62), 1e19, false)
	f.Fuzz(func(t *testing.T, s string, i int64, n float64, b bool) {
		for _, v := range []value.Value{value.String(s), value.Int(i), value.Float(n), value.Bool(b), value.List(value.String(s))} {
			for _, info := range all.All() {
				c, list := all.Decode(tree(object("path", "/", info.Name, v)))
				for _, d := range list {
					if d.Code == "" || !d.Pos.IsValid() || d.Path == "" {
						t.Errorf("%s: got %v, want code, place and path", info.Name, d)
					}
				}
				if d := c.Duration("timeout"); d < 0 {
					t.Errorf("got duration %s, want none below 0", d)
				}
				if got := c.Int("body"); got < 0 || got > 1<<30 {
					t.Errorf("got size %d, want it in range", got)
				}
			}
		}
	})
}
