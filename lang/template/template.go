// Package template makes documents of payloads: texts in a document may have expressions
// in them, as in orders.${self.country}.
//
// [New] reads a document as its author wrote it; [Template.Render] makes one of a payload.
// What a payload has ends up as data: it cannot change the shape of the document.
//
// The package must not know nodes, nor in which language the expressions are written.
package template

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Template is a document whose texts may have expressions in them: ${limit}. A text
// that is one expression and nothing else becomes what the expression makes, whatever its
// type; if that is null, the field is left out. In other texts the expression makes a part
// of the text. "$${" is "${". Any goroutine may use it. The zero Template makes null.
type Template struct {
	whole  value.Value // of a document without expressions
	fields []field     // of a map
	items  []Template  // of a list
	texts  []string    // of a text, around the expressions
	codes  []lang.Program
	kind   kind
}

type field struct {
	name string
	made Template
}

type kind uint8

const (
	kindWhole kind = iota
	kindMap
	kindList
	kindText
)

// A CompileFunc compiles an expression that stands within a text.
type CompileFunc func(code diag.Text) (lang.Program, error)

// New reads a document. The error is from compile, or a *diag.Diagnostic with the place
// of the text, but not with the path of a config.
func New(doc *schema.Raw, compile CompileFunc) (Template, error) {
	switch doc.Kind {
	case schema.RawMap:
		t := Template{kind: kindMap}
		constant := true
		for i := range doc.Fields {
			made, err := New(doc.Fields[i].Value, compile)
			if err != nil {
				return t, err
			}
			t.fields = append(t.fields, field{doc.Fields[i].Name, made})
			constant = constant && made.Constant()
		}
		if !constant {
			return t, nil
		}
	case schema.RawList:
		t := Template{kind: kindList}
		constant := true
		for _, item := range doc.Items {
			made, err := New(item, compile)
			if err != nil {
				return t, err
			}
			t.items = append(t.items, made)
			constant = constant && made.Constant()
		}
		if !constant {
			return t, nil
		}
	default:
		if text, ok := doc.Value.AsString(); ok {
			return textTemplate(text, doc, compile)
		}
	}
	return Template{whole: literal(doc)}, nil
}

// OfField is New for a field of a config, or its default. Errors have the path of the
// field.
func OfField(c schema.Config, name string, compile CompileFunc) (Template, error) {
	doc := c.Raw(name)
	if doc == nil {
		doc = schema.RawOf(c.Value(name))
	}
	t, err := New(doc, compile)
	return t, Place(c, name, err)
}

// Place gives the errors of New the path of a field, and its position if they have none.
func Place(c schema.Config, name string, err error) error {
	var all diag.List
	var d *diag.Diagnostic
	switch {
	case err == nil:
		return nil
	case errors.As(err, &all):
	case errors.As(err, &d):
		all = diag.List{d}
	default:
		return c.Errorf(name, diag.CodeBadValue, "%s", err)
	}
	for _, d := range all {
		if d.Path == "" {
			d.Path = c.Path(name)
		}
		if !d.Pos.IsValid() {
			d.Pos = c.Pos(name)
		}
	}
	return all.Err()
}

// Compiler returns the function that compiles expressions in a language.
func Compiler(languages *lang.Set, language string) CompileFunc {
	return func(code diag.Text) (lang.Program, error) {
		return languages.Compile(language, code, lang.Options{Mode: lang.ModeExpression})
	}
}

// literal returns the value of a document without expressions.
func literal(doc *schema.Raw) value.Value {
	switch doc.Kind {
	case schema.RawMap:
		fields := make([]value.Field, len(doc.Fields))
		for i, f := range doc.Fields {
			fields[i] = value.Field{Name: f.Name, Value: literal(f.Value)}
		}
		return value.Map(fields...)
	case schema.RawList:
		items := make([]value.Value, len(doc.Items))
		for i, item := range doc.Items {
			items[i] = literal(item)
		}
		return value.List(items...)
	}
	if text, ok := doc.Value.AsString(); ok {
		return value.String(Unescape(text))
	}
	return doc.Value
}

// Unescape returns what a text without expressions means.
func Unescape(text string) string { return strings.ReplaceAll(text, "$${", "${") }

// textTemplate reads a text of a document.
func textTemplate(text string, raw *schema.Raw, compile CompileFunc) (Template, error) {
	t := Template{kind: kindText}
	var before strings.Builder
	for rest := text; ; {
		i := strings.Index(rest, "${")
		if i < 0 {
			before.WriteString(rest)
			break
		}
		if i > 0 && rest[i-1] == '$' {
			before.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		before.WriteString(rest[:i])
		code, after, ok := expression(rest[i+2:])
		if !ok {
			d := diag.Errorf(diag.CodeBadValue, `a "${" has no "}"`).WithHint(`write "$${" for the text "${"`)
			d.Pos = within(raw, text, len(text)-len(rest)+i)
			return t, d
		}
		at := within(raw, text, len(text)-len(rest)+i+2)
		place := diag.NewFoldedText(code, raw.Text.File, at, []diag.Part{{Offset: 0, Pos: at}})
		place.Hidden = raw.Text.Hidden
		p, err := compile(place)
		if err != nil {
			return t, err
		}
		t.texts, t.codes = append(t.texts, before.String()), append(t.codes, p)
		before.Reset()
		rest = after
	}
	if len(t.codes) == 0 {
		return Template{whole: value.String(before.String())}, nil
	}
	t.texts = append(t.texts, before.String())
	return t, nil
}

// within returns the place of a byte of a text. If the text is written with escapes,
// that is the place of the text.
func within(raw *schema.Raw, text string, offset int) diag.Pos {
	if raw.Text.Code != text {
		return raw.Pos
	}
	return raw.Text.At(offset)
}

// expression returns what comes before the brace that ends an expression, and
// what comes after. Braces and quotes within the expression are skipped.
func expression(text string) (code, after string, ok bool) {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			depth++
		case '}':
			if depth == 0 {
				return text[:i], text[i+1:], true
			}
			depth--
		case '"', '\'', '`':
			for i++; i < len(text) && text[i] != c; i++ {
				if text[i] == '\\' {
					i++
				}
			}
		}
	}
	return "", "", false
}

// Constant reports whether the template does not depend on the payload.
func (t *Template) Constant() bool { return t.kind == kindWhole }

// Render makes a document of a payload. there is false if the whole document is one
// expression, which made null.
func (t *Template) Render(ctx context.Context, payload value.Value) (doc value.Value, there bool, err error) {
	switch t.kind {
	case kindMap:
		fields := make([]value.Field, 0, len(t.fields))
		for i := range t.fields {
			v, there, err := t.fields[i].made.Render(ctx, payload)
			if err != nil {
				return doc, false, fmt.Errorf("%s: %w", t.fields[i].name, err)
			}
			if there {
				fields = append(fields, value.Field{Name: t.fields[i].name, Value: v})
			}
		}
		return value.Map(fields...), true, nil
	case kindList:
		items := make([]value.Value, 0, len(t.items))
		for i := range t.items {
			v, there, err := t.items[i].Render(ctx, payload)
			if err != nil {
				return doc, false, err
			}
			if there {
				items = append(items, v)
			}
		}
		return value.List(items...), true, nil
	case kindText:
		return t.renderText(ctx, payload)
	}
	return t.whole, true, nil
}

// Text is Render for a document that is one text. What an expression makes becomes text:
// null is empty, a list or a map is JSON.
func (t *Template) Text(ctx context.Context, payload value.Value) (string, error) {
	v, _, err := t.Render(ctx, payload)
	if err != nil || v.IsNull() {
		return "", err
	}
	return v.String(), nil
}

func (t *Template) renderText(ctx context.Context, payload value.Value) (doc value.Value, there bool, err error) {
	var b strings.Builder
	b.WriteString(t.texts[0])
	for i, code := range t.codes {
		v, err := code.Eval(ctx, payload)
		if err != nil {
			return doc, false, err
		}
		if len(t.codes) == 1 && t.texts[0] == "" && t.texts[1] == "" {
			return v, !v.IsNull(), nil
		}
		if !v.IsNull() {
			b.WriteString(v.String())
		}
		b.WriteString(t.texts[i+1])
	}
	return value.String(b.String()), true, nil
}
