package field

import (
	"errors"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/schema"
)

// Options are what kinds with expressions need from the host.
type Options struct {
	Languages *lang.Set // nil has none: an expression is a mistake then
	Language  string    // of expressions that do not name one, such as "cel"
}

// NewLanguage declares the field language. doc says what is written in it.
func (o Options) NewLanguage(doc string) *schema.Field {
	return schema.String("language").Words(false, o.Languages.Names()...).Doc(doc)
}

// LanguageOf reads the field of a config; without it, Language is the one. The error is at the
// field.
func (o Options) LanguageOf(c schema.Config) (string, error) {
	name := c.String("language")
	if name == "" && !c.Has("language") {
		name = o.Language
	}
	err := o.Languages.Check(name)
	var d *diag.Diagnostic
	if errors.As(err, &d) {
		if c.Hidden("language") { // the message would quote text of a template
			d.Msg, d.Hint = "unknown language", "use one of "+strings.Join(o.Languages.Names(), ", ")
		}
		d.Pos, d.Path = c.Pos("language"), c.Path("language")
	}
	return name, err
}

// Expr compiles a field that is an expression, in Language; nil if the field has neither a value
// nor a default. Options say the rest: their Mode is set here.
func (o Options) Expr(c schema.Config, name string, options lang.Options) (lang.Program, error) {
	text := c.Text(name)
	switch {
	case text.Code == "" && !c.Has(name):
		return nil, nil
	case o.Languages == nil:
		return nil, c.Errorf(name, diag.CodeUnknownLanguage, "this program has no language for expressions").WithHint("remove the field")
	}
	options.Mode = lang.ModeExpression
	return o.Languages.Compile(o.Language, text, options)
}
