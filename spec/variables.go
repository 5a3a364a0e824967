package spec

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// ParseVariables reads a values file: one variable or a list of them, each with id,
// namespace, name, annotations, data, secret and literal. It returns all findings, which
// show no line of the file.
func ParseVariables(doc Document) ([]*Variable, diag.List) {
	if doc.Variable != "" {
		return mountedVariable(doc)
	}
	roots, list := yamltree.Read(doc.File, doc.Data)
	var vars []*Variable
	read := func(raw *schema.Raw) {
		if raw.Kind != schema.RawMap {
			d := diag.Errorf(diag.CodeVariable, "a variable is a map, not %s", raw.What()).WithHint("write {name: NAME, data: …}")
			d.Pos, d.Pointer = raw.Pos, raw.Pointer
			list.Add(d)
			return
		}
		vars = append(vars, variable(doc, raw, &list))
	}
	for _, raw := range roots {
		switch {
		case raw.Kind == schema.RawList:
			for _, item := range raw.Items {
				read(item)
			}
		case !isNull(raw):
			read(raw)
		}
	}
	for _, d := range list {
		d.Private = true
	}
	list.Sort()
	return vars, list
}

// mountedVariable makes the variable of a document that is its data. It is secret, and
// for all namespaces.
func mountedVariable(doc Document) ([]*Variable, diag.List) {
	var list diag.List
	at := diag.Pos{File: doc.File}
	s := scope{list: &list, node: func() string { return "" }, private: true}
	v := &Variable{Name: s.name(&schema.Raw{Value: value.String(doc.Variable), Pos: at}, "name"), Data: mountedValue(doc.Data), Secret: true, Pos: at}
	v.ID = variableID(v, "")
	return []*Variable{v}, list
}

func variableID(v *Variable, otherwise string) string {
	return uuid.NewSHA1(idSpace, []byte("variable\x00"+v.Namespace+"\x00"+v.Name+"\x00"+otherwise)).String()
}

func variable(doc Document, raw *schema.Raw, list *diag.List) *Variable {
	v := &Variable{Pos: raw.Pos}
	public := false // it says that it is not secret
	s := scope{list: list, node: func() string { return "" }, private: true}
	for i := range raw.Fields {
		f := &raw.Fields[i]
		switch f.Name {
		case "id":
			v.ID = s.id(f.Value, f.Name)
		case "namespace":
			v.Namespace = s.name(f.Value, f.Name)
		case "name":
			v.Name = s.name(f.Value, f.Name)
		case "annotations":
			v.Annotations = s.annotations(f.Value, f.Name)
		case "data":
			if !isLiteral(raw) {
				v.referred = doc.resolve(s, f.Value)
			}
			v.Data = f.Value.ToValue()
		case "secret":
			v.Secret = s.boolean(f.Value, f.Name)
			public = !v.Secret
		case "literal":
			s.boolean(f.Value, f.Name)
		default:
			s.unknown(f, "variable", "id", "namespace", "name", "annotations", "data", "secret", "literal")
		}
	}
	if public {
		v.referred = nil
	}
	switch {
	case raw.Field("id") == nil && raw.Field("name") == nil:
		s.report(raw, "", diag.Errorf(diag.CodeVariable, "the variable has neither name nor id").WithHint("name it, so that env can refer to it"))
	case raw.Field("data") == nil:
		s.report(raw, "", diag.Errorf(diag.CodeVariable, "the variable has no data").WithHint("give it data"))
	}
	if v.ID == "" && raw.Field("id") == nil {
		v.ID = variableID(v, anonymous(v, raw))
	}
	return v
}

// boolean reads true or false, in quotes or without.
func (s scope) boolean(raw *schema.Raw, path string) bool {
	config, found := schema.Fields(schema.Bool(path)).Decode(&schema.Raw{Kind: schema.RawMap, Fields: []schema.RawField{{Name: path, Pos: raw.Pos, Value: raw}}})
	s.list.Append(found)
	return config.Bool(path)
}

func anonymous(v *Variable, raw *schema.Raw) string {
	if v.Name != "" {
		return ""
	}
	return raw.Pos.File + ":" + strconv.Itoa(raw.Pos.Line)
}
