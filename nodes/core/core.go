// Package core has the kinds that control a workflow: conditions, calls, error
// handling, and snippets of code.
//
// [Defs] lists them; each kind has a file of its own. The package must not know
// HTTP, databases or how processes are run.
package core

import (
	"errors"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// Options are what the kinds need from the host.
type Options struct {
	Languages *lang.Set // what code may be written in
	Language  string    // of expressions that do not name one
}

// Defs returns the kinds of the package.
func Defs(o Options) []*node.Def {
	return []*node.Def{
		assertDef(o),
		blockDef(),
		breakerDef(o),
		cacheDef(o),
		forDef(),
		forkDef(),
		ifDef(o),
		limitDef(o),
		mergeDef(),
		nopDef(),
		pipeDef(),
		reduceDef(o),
		retryDef(o),
		sleepDef(),
		snippetDef(o),
		splitDef(),
		stepDef(),
		switchDef(o),
		templateDef(),
		testDef(o),
		throwDef(),
		tryDef(),
	}
}

func in(doc string) []node.Port { return []node.Port{{Name: "in", Doc: doc}} }

// languageField and timeoutField are fields of all kinds with an expression.
func languageField(o Options) *schema.Field {
	return field.Options(o).NewLanguage("The language of the expression; `" + o.Language + "` unless set.")
}

func timeoutField() *schema.Field {
	return schema.Duration("timeout").Default(10 * time.Second).Doc("How long one evaluation may take; one that takes longer is stopped, and the node fails. 0 means no limit.")
}

// compileExpr compiles an expression field of expr, which is the node's config or an
// entry of a list in it.
func (o Options) compileExpr(init *node.Init, expr schema.Config, field string, opts lang.Options) (lang.Program, error) {
	opts.Mode, opts.Timeout = lang.ModeExpression, init.Config.Duration("timeout")
	return o.compile(init, expr.Text(field), opts)
}

// shape returns what is known of the payloads of a node whose code runs on them.
func shape(init *node.Init) *schema.Shape {
	if init.Shape == nil {
		return nil
	}
	return init.Shape()
}

// compile compiles code of a node, in the language that its field language names. The node's
// log gets what the code writes.
func (o Options) compile(init *node.Init, code diag.Text, opts lang.Options) (lang.Program, error) {
	language, err := field.Options(o).LanguageOf(init.Config)
	if err != nil {
		return nil, err
	}
	opts.Log, opts.Warn = init.Log, init.Warn
	return o.Languages.Compile(language, code, opts)
}

// isolate is compile for code that runs in processes of its own.
func (o Options) isolate(init *node.Init, code diag.Text, opts lang.Options) (lang.Isolated, error) {
	language, err := field.Options(o).LanguageOf(init.Config)
	if err != nil {
		return nil, err
	}
	opts.Log = init.Log
	program, err := o.Languages.Isolate(language, code, opts)
	var d *diag.Diagnostic
	if errors.As(err, &d) && !d.Pos.IsValid() {
		d.Pos, d.Path = init.Config.Pos("isolate"), init.Config.Path("isolate")
	}
	return program, err
}
