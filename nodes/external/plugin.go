package external

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/nodes/wasm"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed plugin.md
var pluginPage string

func pluginDef() *node.Def {
	return &node.Def{
		Kind:     "plugin",
		Summary:  "Declares a kind whose nodes run a program or a WebAssembly module.",
		Page:     node.ReadPage(pluginPage),
		Subgraph: node.SubgraphTemplate,
		Declare:  declare,
		Config: schema.Fields(append([]*schema.Field{
			schema.String("summary").Required().Doc("One sentence about the kind, for listings."),
			schema.String("doc").Doc("What users of the kind should know, in Markdown."),
			schema.String("example").Doc("A document that uses the kind."),
			field.Declared("fields"),
			schema.String("in").Default("Any payload.").Doc("What comes to the in-port."),
			schema.List("out", schema.Fields(
				schema.String("name").Required().Doc("The name of the out-port."),
				schema.String("doc").Required().Doc("What leaves by it."),
			)).Doc("The out-ports; one with the name `out` unless set. An answer goes to the first, or to the `port` that it names."),
			schema.String("error").Doc("What leaves by the port `error`."),
			schema.Enum("run", "exec", "wasm").Required().Doc("What the nodes run."),
			schema.Strings("command").Doc("With `run: exec`, the program and its arguments. A path is relative to the folder of the document, in which the program runs."),
			schema.String("module").Doc("With `run: wasm`, the file of the module, relative to the document."),
			schema.List("tests", schema.Fields(
				schema.String("name").Doc("What is tested."),
				schema.Any("config").Doc("The fields of the node, as a map."),
				schema.Any("input").Doc("The payload."),
				schema.Any("output").Doc("The answer that is expected; null unless set."),
				schema.String("error").Doc("The code of the error that is expected, in place of an answer."),
			)).Doc("Tests of the kind, which `uniflow test` runs."),
		}, processFields("30s")...)...),
	}
}

// declare makes a kind of the spec of a plugin.
func declare(d node.Declaration) (*node.Declared, error) {
	c := d.Config
	def := &node.Def{
		Kind: d.Name, Summary: c.String("summary"), Page: node.Page{Doc: c.String("doc"), Example: c.String("example")},
		Config: d.Fields, In: []node.Port{{Name: "in", Doc: c.String("in")}}, Error: c.String("error"),
		Recall: node.Always(node.Effects),
	}
	for _, p := range c.List("out") {
		name := p.String("name")
		for _, other := range def.Out {
			if other.Name == name {
				return nil, p.Errorf("name", diag.CodeDuplicateName, "there is a port %q already", name)
			}
		}
		if name == "" || name == "error" || strings.ContainsAny(name, "[]") {
			return nil, p.Errorf("name", diag.CodeBadValue, "%q cannot be the name of an out-port", name).WithHint("give it another name")
		}
		def.Out = append(def.Out, node.Port{Name: name, Doc: p.String("doc")})
	}
	if len(def.Out) == 0 {
		def.Out = []node.Port{{Name: "out", Doc: "The answer."}}
	}
	make := newPlugin
	other, needs := "module", "command"
	if c.String("run") == "wasm" {
		make, other, needs = newModule, "command", "module"
	}
	if c.Has(other) {
		return nil, c.Errorf(other, diag.CodeBadValue, "run: %s has a %s", c.String("run"), needs).WithHint("leave %s out", other)
	}
	if !c.Has(needs) || needs == "command" && len(c.Strings("command")) == 0 {
		return nil, c.Errorf("run", diag.CodeBadValue, "run: %s needs a %s", c.String("run"), needs)
	}
	def.New = func(init *node.Init) (node.Node, error) { return make(init, c, def) }
	return &node.Declared{Def: def, Tests: testsOf(c, def)}, nil
}

// A plugin is a node of a kind that a folder with a program declares.
type plugin struct{ *lines }

// newPlugin makes a node of a kind with a program. c declares the kind.
func newPlugin(init *node.Init, c schema.Config, def *node.Def) (node.Node, error) {
	s, err := newSettings(c)
	if err != nil {
		return nil, err
	}
	folder, err := filepath.Abs(filepath.Dir(c.Pos("run").File))
	if err != nil {
		return nil, err
	}
	s.Command, s.Dir = c.Strings("command"), folder
	if strings.ContainsRune(s.Command[0], filepath.Separator) {
		s.Command[0] = relativeTo(folder, s.Command[0])
	}
	if s.Sandbox != nil {
		s.Sandbox.Read = append(s.Sandbox.Read, folder)
	}
	s.Version = version(folder, s.Command)
	first, err := value.Map(value.Field{Name: "config", Value: configOf(init.Config, def)}).AppendJSON(nil)
	if err != nil {
		return nil, err
	}
	s.First = string(first)
	n := &plugin{newLines(init, s)}
	n.ports = nil
	for _, port := range def.Out {
		n.ports = append(n.ports, port.Name)
	}
	return n, nil
}

// configOf returns the fields of a node as a program sees them.
func configOf(c schema.Config, def *node.Def) value.Value {
	var fields []value.Field
	for _, f := range def.Config.All() {
		fields = append(fields, value.Field{Name: f.Name, Value: c.Value(f.Name)})
	}
	return value.Map(fields...)
}

// version stands for the files of a command, so that a reload starts those that have changed.
func version(folder string, command []string) string {
	var all strings.Builder
	for _, arg := range command {
		if info, err := os.Stat(relativeTo(folder, arg)); err == nil && info.Mode().IsRegular() {
			fmt.Fprintf(&all, "%s %d %d\n", arg, info.Size(), info.ModTime().UnixNano())
		}
	}
	return all.String()
}

// newModule makes a node of a kind with a module. c declares the kind; of the fields of processes, timeout, processes
// and sandbox.memory are for modules, too.
func newModule(init *node.Init, c schema.Config, def *node.Def) (node.Node, error) {
	s := wasm.Settings{
		Folder: c.Pos("run").File, Module: c.String("module"), Hidden: c.Hidden("module"),
		Config: configOf(init.Config, def), HasConfig: len(def.Config.All()) > 0,
		Memory: c.Group("sandbox").Int("memory"), Instances: int(c.Int("processes")),
	}
	if c.Has("timeout") {
		s.Timeout = c.Duration("timeout")
	}
	n, err := wasm.New(init, s)
	var wrong *wasm.Mistake
	if errors.As(err, &wrong) {
		field := "module"
		if wrong.Field == "memory" {
			field = "sandbox"
		}
		return nil, c.Errorf(field, diag.CodeBadValue, "%s", wrong.Message).WithHint("%s", wrong.Hint)
	}
	return n, err
}

// testsOf returns the specs of the tests of a kind: a test, what sends the payload, the node, and what judges the answer.
func testsOf(c schema.Config, def *node.Def) (tests []node.DeclaredTest) {
	text := func(name, of string) value.Field { return value.Field{Name: name, Value: value.String(of)} }
	ports := func(links ...value.Field) value.Field { return value.Field{Name: "ports", Value: value.Map(links...)} }
	code := func(v value.Value) string {
		data, err := v.AppendJSON(nil)
		if err != nil {
			return "null" // there are no such numbers in a document
		}
		return string(data)
	}
	for i, t := range c.List("tests") {
		name := t.String("name")
		if name == "" {
			name = fmt.Sprint(i + 1)
		}
		name = def.Kind + ": " + name
		send, use, failed, judge := name+" (input)", name+" (node)", name+" (error)", name+" (output)"
		want := t.Value("output")
		fields := []value.Field{text("kind", def.Kind), text("name", use)}
		if t.Has("error") {
			want = value.String(t.String("error"))
			fields = append(fields, ports(text("error", failed)))
		}
		for key, v := range t.Value("config").Fields() {
			fields = append(fields, value.Field{Name: key, Value: v})
		}
		specs := []value.Value{
			value.Map(text("kind", "test"), text("name", name), ports(text("out[0]", send), text("out[1]", judge))),
			value.Map(text("kind", "snippet"), text("name", send), text("language", "json"), text("code", code(t.Value("input"))), ports(text("out", use))),
			value.Map(fields...),
			value.Map(text("kind", "assert"), text("name", judge), text("language", "cel"), text("expect", "self == "+code(want))),
		}
		if t.Has("error") {
			specs = append(specs, value.Map(text("kind", "snippet"), text("name", failed), text("language", "cel"), text("code", "self.code")))
		}
		tests = append(tests, node.DeclaredTest{Pos: placeOf(t), Specs: value.List(specs...)})
	}
	return tests
}

// placeOf returns where a test begins.
func placeOf(t schema.Config) diag.Pos {
	for _, name := range []string{"name", "config", "input", "output", "error"} {
		if t.Has(name) {
			return t.Pos(name)
		}
	}
	return t.Pos("name")
}
