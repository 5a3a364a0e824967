// Package core holds the kinds that steer a flow: conditions, calls, error
// handling, and snippets of code.
//
// [Defs] lists them; each kind has a file of its own. The package must not know
// HTTP, databases or how processes are run.
package core

import (
	"errors"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
)

// Options are what the kinds need from the host.
type Options struct {
	Languages *lang.Set // what code may be written in
	Language  string    // of expressions that do not name one
}

// Defs returns the kinds of the package, freshly made.
func Defs(o Options) []*node.Def {
	return []*node.Def{
		ifDef(o),
		nopDef(),
		pipeDef(),
		snippetDef(o),
		switchDef(o),
		throwDef(),
		tryDef(),
	}
}

// in is the in-port that most kinds have.
func in(doc string) []node.Port { return []node.Port{{Name: "in", Doc: doc}} }

// languageField and timeoutField are what all kinds with an expression have.
func languageField(o Options) *schema.Field {
	return schema.String("language").Words(false, o.Languages.Names()...).Doc("What the expression is written in; `" + o.Language + "` unless set.")
}

func timeoutField() *schema.Field {
	return schema.Duration("timeout").Doc("How long one evaluation may take. No limit unless set.")
}

// compileExpr compiles an expression field of a config that may stand in a list
// below the node's own fields.
func (o Options) compileExpr(expr schema.Config, field string, own schema.Config) (lang.Program, error) {
	language := o.Language
	if own.Has("language") {
		language = own.String("language")
	}
	return o.compile(language, expr.Text(field), own, lang.ModeExpression)
}

// compile compiles code of a node with the fields language and timeout. An
// unknown language is reported where it is named.
func (o Options) compile(language string, code diag.Text, own schema.Config, mode lang.Mode) (lang.Program, error) {
	if err := o.Languages.Check(language); err != nil {
		var d *diag.Diagnostic
		if errors.As(err, &d) {
			d.Pos, d.Path = own.Pos("language"), own.Path("language")
		}
		return nil, err
	}
	return o.Languages.Compile(language, code, lang.Options{Mode: mode, Timeout: own.Duration("timeout")})
}
