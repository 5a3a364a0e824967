// Package wasm has the kind whose nodes call functions of WebAssembly, and what makes such a node
// of a module for kinds that are made elsewhere.
//
// Read [New] first, then guest, which is the node, and instance, which calls the module; package
// module says how a module is interrupted. Nothing of the runtime is touched before a node is made.
//
// The package must not know which language a module was written in.
package wasm

import (
	_ "embed"
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed wasm.md
var page string

// Defs returns the kinds of the package, freshly made.
func Defs(stream.Options) []*node.Def {
	return []*node.Def{def()}
}

func def() *node.Def {
	valid := new(Valid)
	return &node.Def{
		Kind:    "wasm",
		Summary: "Calls a function of a WebAssembly module with each payload and sends the result.",
		Page:    node.ReadPage(page),
		Config: schema.Fields(
			schema.String("module").Required().Doc("The file of the module, relative to the document and in its folder."),
			schema.String("function").Default(callName).Doc("The exported function that is called."),
			schema.Any("config").Doc("Any value for the module, which gets it once in each instance."),
			schema.Bytes("memory").Default("64MiB").Range(pageSize, 1<<30).Doc("The maximum size of the memory of an instance."),
			schema.Duration("timeout").Default(time.Second).Doc("The longest time of a call."),
			schema.Int("instances").Range(1, 256).Doc("The most instances of the module. If unset, it is the number of processors."),
			schema.Group("wasi", schema.Fields(
				schema.Any("env").Doc("The environment that the module sees, a map of texts."),
				schema.Strings("read").Doc("Folders that the module may read, relative to the document and in its folder. It sees them below `/`, by the same names."),
			)).Doc("What a module of WASI may see. If unset, it is nothing."),
		),
		In:  []node.Port{{Name: "in", Doc: "A payload to call the function with."}},
		Out: []node.Port{{Name: "out", Doc: "The result of the function."}},
		Recall: func(c schema.Config) node.Recall {
			if len(c.Group("wasi").Strings("read")) > 0 {
				return node.Reads
			}
			return node.Pure // what asks for the time or for chance says so
		},
		New: func(init *node.Init) (node.Node, error) {
			c := init.Config
			n, err := newNode(init, valid)
			var wrong *Mistake
			if errors.As(err, &wrong) {
				at, field := c.Find(wrong.Field)
				return nil, at.Errorf(field, diag.CodeBadValue, "%s", wrong.Message).WithHint("%s", wrong.Hint)
			}
			return n, err
		},
	}
}

func newNode(init *node.Init, valid *Valid) (node.Node, error) {
	c := init.Config
	env, err := environment(c.Group("wasi").Value("env"))
	if err != nil {
		return nil, err
	}
	return New(init, Settings{
		Folder:    c.Pos("module").File,
		Module:    c.String("module"),
		Hidden:    c.Hidden("module"),
		Function:  c.String("function"),
		Config:    c.Value("config"),
		HasConfig: c.Has("config"),
		Memory:    c.Int("memory"),
		Timeout:   c.Duration("timeout"),
		Instances: int(c.Int("instances")),
		Env:       env,
		Read:      c.Group("wasi").Strings("read"),
		Valid:     valid,
	})
}

// environment returns the variables of a map.
func environment(v value.Value) (env map[string]string, err error) {
	if v.IsNull() {
		return nil, nil
	}
	env = make(map[string]string)
	for name, of := range v.Fields() {
		text, ok := of.AsString()
		if !ok {
			return nil, &Mistake{Field: "wasi.env", Message: "the variables must be texts", Hint: `write them as a map, such as {TZ: "UTC"}`}
		}
		env[name] = text
	}
	if v.Kind() != value.KindMap {
		return nil, &Mistake{Field: "wasi.env", Message: "it must be a map of texts", Hint: `write {TZ: "UTC"}`}
	}
	return env, nil
}
