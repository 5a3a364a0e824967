package reference

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// A Kind is the description of a kind of node.
type Kind struct {
	Kind    string  `json:"kind"`
	Summary string  `json:"summary"`
	Doc     string  `json:"doc,omitempty"` // Markdown
	Fields  []Field `json:"fields"`
	In      []Port  `json:"in"`
	Out     []Port  `json:"out"` // "error" included
	Example string  `json:"example,omitempty"`
}

// A Field is one field of a kind's config.
type Field struct {
	Name     string       `json:"name"`
	Type     string       `json:"type"`
	Required bool         `json:"required,omitempty"`
	Secret   bool         `json:"secret,omitempty"`
	Default  *value.Value `json:"default,omitempty"` // as an author would write it
	Enum     []string     `json:"enum,omitempty"`
	Minimum  string       `json:"minimum,omitempty"` // as an author would write it
	Maximum  string       `json:"maximum,omitempty"`
	Doc      string       `json:"doc,omitempty"`
	Fields   []Field      `json:"fields,omitempty"` // of a list or object
}

// A Port is an in-port or out-port.
type Port struct {
	Name    string `json:"name"`
	Indexed bool   `json:"indexed,omitempty"` // out[0], out[1] and so on
	Doc     string `json:"doc,omitempty"`
}

// Describe returns the description of a kind.
func Describe(def *node.Def) Kind {
	k := Kind{
		Kind: def.Kind, Summary: def.Summary, Doc: def.Doc, Example: def.Example,
		Fields: describeFields(def.Config), In: ports(def.In), Out: ports(def.Out),
	}
	if def.HasError() {
		k.Out = append(k.Out, Port{Name: "error", Doc: cmp.Or(def.Error, node.OwnFailure)})
	}
	return k
}

func ports(list []node.Port) []Port {
	all := []Port{}
	for _, p := range list {
		all = append(all, Port{Name: p.Name, Indexed: p.Indexes != nil, Doc: p.Doc})
	}
	return all
}

func describeFields(o schema.Object) []Field {
	fields := []Field{}
	properties, _ := o.JSONSchema().Get("properties")
	for _, f := range o.All() {
		d := Field{
			Name: f.Name, Type: f.Type.String(), Required: f.Required, Secret: f.Secret,
			Enum: f.Enum, Doc: f.Doc, Minimum: bound(f, f.Min), Maximum: bound(f, f.Max),
		}
		// The schema has the default as an author writes it: 8MiB, not 8388608.
		property, _ := properties.Get(f.Name)
		if v, ok := property.Get("default"); ok && !f.Secret {
			d.Default = &v
		}
		if f.Type == schema.TypeList || f.Type == schema.TypeGroup {
			d.Fields = describeFields(f.Fields)
		}
		fields = append(fields, d)
	}
	return fields
}

// bound writes an end of a range, empty if there is no range.
func bound(f schema.FieldInfo, n float64) string {
	switch {
	case !f.Ranged:
		return ""
	case f.Type == schema.TypeDuration:
		return time.Duration(n).String()
	case f.Type == schema.TypeBytes:
		return show.Size(n)
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// Text is the kind for terminals.
func (k Kind) Text() string {
	var b strings.Builder
	b.WriteString(wrap(k.Kind+": "+k.Summary, ""))
	if k.Doc != "" {
		b.WriteString("\n" + wrap(k.Doc, ""))
	}
	if len(k.Fields) > 0 {
		b.WriteString("\nFields\n")
		fieldsText(&b, k.Fields, "  ")
	}
	portsText(&b, "In-ports", k.In)
	portsText(&b, "Out-ports", k.Out)
	if k.Example != "" {
		b.WriteString("\nExample\n" + indented(strings.TrimRight(k.Example, "\n")+"\n", "  "))
	}
	return b.String()
}

func fieldsText(b *strings.Builder, fields []Field, indent string) {
	for _, f := range fields {
		name := indent + f.Name + "  "
		b.WriteString(name + strings.TrimLeft(wrap(f.about(), strings.Repeat(" ", len(name))), " "))
		b.WriteString(wrap(f.Doc, indent+"    "))
		fieldsText(b, f.Fields, indent+"    ")
	}
}

// about is the type of a field and its bounds.
func (f Field) about() string {
	parts := []string{f.Type}
	if len(f.Enum) > 0 {
		parts[0] = strings.Join(f.Enum, " | ")
	}
	if f.Minimum != "" {
		parts = append(parts, f.Minimum+" to "+f.Maximum)
	}
	if f.Required {
		parts = append(parts, "required")
	}
	if f.Secret {
		parts = append(parts, "secret")
	}
	if f.Default != nil {
		parts = append(parts, "default "+shown(*f.Default))
	}
	return strings.Join(parts, ", ")
}

// shown writes a default: text without quotes, unless there is none.
func shown(v value.Value) string {
	if s, ok := v.AsString(); ok && s != "" {
		return s
	}
	return v.String()
}

// shownName is the name of a port as it is written.
func (p Port) shownName() string {
	if p.Indexed {
		return p.Name + "[0], " + p.Name + "[1], …"
	}
	return p.Name
}

func portsText(b *strings.Builder, title string, ports []Port) {
	if len(ports) == 0 {
		return
	}
	b.WriteString("\n" + title + "\n")
	for _, p := range ports {
		b.WriteString("  " + p.shownName() + "\n" + wrap(p.Doc, "      "))
	}
}
