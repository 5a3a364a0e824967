package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/template"
	"text/template/parse"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

const (
	maxRendered = 16 << 20 // bytes of the text that a template makes
	maxActions  = 100_000  // {{ in a template
)

type renderer struct {
	scope
	keys keys
}

// render renders the strings of a tree in place.
func (t *renderer) render(raw *schema.Raw, path string) {
	switch raw.Kind {
	case schema.RawList:
		for i, item := range raw.Items {
			t.render(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return
	case schema.RawMap:
		for i := range raw.Fields {
			f := &raw.Fields[i]
			t.render(f.Value, path+"."+f.Name)
		}
		return
	}
	text, ok := raw.Value.AsString()
	if t.keys.values == nil || !ok || !strings.Contains(text, "{{") {
		return
	}
	if m := wholeKey().FindStringSubmatch(text); m != nil {
		switch v := t.keys.values[m[1]].(type) {
		case map[string]any, []any:
			tree, err := value.Encode(v)
			if err == nil {
				t.replace(raw, tree)
				return
			}
		}
	}
	made, ok := t.text(raw, path, t.keys.values)
	if !ok {
		return
	}
	raw.Value = value.String(made)
	t.mark(raw, raw.Text.Rendered(made))
}

// mark says that a template has made a scalar.
func (t *renderer) mark(raw *schema.Raw, text diag.Text) {
	text.Hidden = !t.keys.public
	raw.Text, raw.Templated = text, !t.keys.public
}

// wholeKey matches a template that is one key and nothing else.
var wholeKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\{\{-?\s*\.([\pL_][\pL\pN_]*)\s*-?\}\}$`) })

// replace puts a list or a map in the place of the template that stands for it.
func (t *renderer) replace(raw *schema.Raw, v value.Value) {
	made := schema.RawOf(v)
	for r := range made.All() {
		r.Pos, r.Pointer = raw.Pos, raw.Pointer
		if r.Kind == schema.RawScalar {
			t.mark(r, raw.Text.Rendered(r.Text.Code))
		}
		for i := range r.Fields {
			r.Fields[i].Pos = raw.Pos
		}
	}
	*raw = *made
}

// text renders one template. Its findings do not show the data.
func (t *renderer) text(raw *schema.Raw, path string, dot any) (text string, ok bool) {
	code, _ := raw.Value.AsString()
	if strings.Count(code, "{{") > maxActions {
		t.reportAt(raw.Pos, raw.Pointer, path, diag.Errorf(diag.CodeLimit, "the template has more than %d actions in braces", maxActions))
		return "", false
	}
	parsed, err := template.New("t").Option("missingkey=error").Funcs(functions).Parse(code)
	if err == nil {
		err = allowed(parsed)
	}
	if err != nil {
		t.fail(raw, path, dot, err, false)
		return "", false
	}
	var out limited
	if err := parsed.Execute(&out, dot); err != nil {
		t.fail(raw, path, dot, err, true)
		return "", false
	}
	return out.String(), true
}

// limited is a buffer for up to maxRendered bytes.
type limited struct{ bytes.Buffer }

var errTooLong = errors.New("the text is too long")

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > maxRendered {
		return 0, errTooLong
	}
	return l.Buffer.Write(p)
}

// functions are available in templates in addition to the functions of text/template.
// None has access to anything outside of the document.
var functions = template.FuncMap{
	"lower": strings.ToLower,
	"upper": strings.ToUpper,
	"trim":  strings.TrimSpace,
	"json": func(v any) (string, error) {
		data, err := json.Marshal(v)
		return string(data), err
	},
	"default": func(otherwise, v any) any {
		if truth, ok := template.IsTrue(v); ok && truth {
			return v
		}
		return otherwise
	},
}

// allowed refuses templates that could take more time than the size of their data
// allows: templates that call each other, and loops that count.
func allowed(t *template.Template) error {
	if len(t.Templates()) > 1 {
		return errors.New("template: t:1: a template cannot define others")
	}
	var walk func(n parse.Node) error
	walk = func(n parse.Node) error {
		var parts []*parse.ListNode
		switch n := n.(type) {
		case *parse.ListNode:
			if n == nil {
				return nil
			}
			for _, c := range n.Nodes {
				if err := walk(c); err != nil {
					return err
				}
			}
		case *parse.TemplateNode:
			return fmt.Errorf("template: t:%d: a template cannot call others", n.Line)
		case *parse.RangeNode:
			for _, cmd := range n.Pipe.Cmds {
				for _, arg := range cmd.Args {
					if _, counts := arg.(*parse.NumberNode); counts && len(cmd.Args) == 1 {
						return fmt.Errorf("template: t:%d: range needs a list or a map", n.Line)
					}
				}
			}
			parts = []*parse.ListNode{n.List, n.ElseList}
		case *parse.IfNode:
			parts = []*parse.ListNode{n.List, n.ElseList}
		case *parse.WithNode:
			parts = []*parse.ListNode{n.List, n.ElseList}
		}
		for _, p := range parts {
			if p != nil {
				if err := walk(p); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if t.Tree == nil {
		return nil
	}
	return walk(t.Tree.Root)
}

var (
	templatePlace  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^template: t:(\d+)(?::(\d+))?: (?s:(.*))$`) })
	templateAction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^executing "t" at <(.*?)>: (?s:(.*))$`) })
	missingKey     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`map has no entry for key "(.*)"$`) })
	noField        = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`can't evaluate field (\w+) in type`) })
)

// fail reports an error of a template. For an error while rendering, it shows only
// what is in the document: the rest may contain secrets. text/template has no typed
// errors, so their text is taken apart.
func (t *renderer) fail(raw *schema.Raw, path string, dot any, err error, rendering bool) {
	pos, msg := raw.Text.Start(), err.Error()
	if m := templatePlace().FindStringSubmatch(msg); m != nil {
		line, _ := strconv.Atoi(m[1]) // line and column are digits
		col, _ := strconv.Atoi(m[2])
		pos, msg = raw.Text.Pos(line, col+1), m[3]
	}
	if !pos.IsValid() {
		pos = raw.Pos
	}
	d := diag.Errorf(diag.CodeTemplate, "the template does not parse: %s", msg)
	switch {
	case rendering:
	case strings.HasPrefix(msg, "unclosed action"), strings.HasPrefix(msg, "unexpected"):
		d.Hint = "a key stands between its braces, as in {{ .KEY }}: close them with }}"
	default:
		if m := noFunction().FindStringSubmatch(msg); m != nil {
			d.Hint = fmt.Sprintf("a key begins with a dot, as in {{ .%s }}; other words are functions", m[1])
		}
	}
	if rendering {
		action := ""
		if m := templateAction().FindStringSubmatch(msg); m != nil {
			action, msg = m[1], m[2]
		}
		d = t.renderError(path, dot, action, msg, err)
	}
	t.reportAt(pos, raw.Pointer, path, d)
}

// noFunction matches the message about a word that is neither a key nor a function.
var noFunction = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^function "(\w+)" not defined`) })

func (t *renderer) renderError(path string, dot any, action, msg string, err error) *diag.Diagnostic {
	key := ""
	if m := missingKey().FindStringSubmatch(msg); m != nil {
		key = m[1]
	} else if m := noField().FindStringSubmatch(msg); m != nil {
		key = m[1]
	}
	switch {
	case key != "" && strings.Contains(action, key):
		d := diag.Errorf(diag.CodeTemplateKey, "the template uses .%s, which is not bound", strings.TrimPrefix(action, "."))
		d.Hint = "bind " + key + " in env"
		if strings.HasPrefix(path, "env.") { // its templates see the variables of the program
			d.Hint = fmt.Sprintf("give the variable a value, as with -e %s=VALUE", key)
		}
		names := namesAt(dot, action, key)
		if near, ok := spell.Nearest(key, names); ok {
			d.Hint = fmt.Sprintf("did you mean %q?", near)
		} else if len(names) > 0 && len(names) <= 20 {
			d.Hint = "there is: " + strings.Join(names, ", ")
		} else if names == nil && strings.Count(action, ".") > 1 {
			d.Hint = "what stands before it has no fields"
		}
		return d
	case errors.Is(err, errTooLong):
		return diag.Errorf(diag.CodeLimit, "the template makes more than %d bytes", maxRendered)
	case action != "":
		return diag.Errorf(diag.CodeTemplate, "the template cannot be rendered: %s does not fit the data", action).
			WithHint("check the value of the variable; it is not shown here")
	}
	return diag.Errorf(diag.CodeTemplate, "the template cannot be rendered").
		WithHint("check the value of the variable; it is not shown here")
}

// namesAt returns the names next to key, in the map in which a field chain such as
// .A.b.key has looked for it.
func namesAt(dot any, action, key string) []string {
	for _, part := range strings.Split(strings.TrimPrefix(action, "."), ".") {
		fields, ok := dot.(map[string]any)
		if !ok {
			return nil
		}
		if part == key {
			return slices.Sorted(maps.Keys(fields))
		}
		dot = fields[part]
	}
	return nil
}
