package spec

import (
	"strconv"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/yamltree"
	"github.com/uniflow-labs/uniflow/schema"
)

// ParseVariables reads a values file: one variable or a list of them, each with id,
// namespace, name, annotations and data. It returns all findings, which show no line
// of the file.
func ParseVariables(doc Document) ([]*Variable, diag.List) {
	roots, list := yamltree.Read(doc.File, doc.Data)
	var vars []*Variable
	read := func(raw *schema.Raw) {
		if raw.Kind != schema.RawMap {
			d := diag.Errorf(diag.CodeVariable, "a variable is a map, not %s", raw.What()).WithHint("write {name: NAME, data: …}")
			d.Pos, d.Pointer = raw.Pos, raw.Pointer
			list.Add(d)
			return
		}
		vars = append(vars, variable(raw, &list))
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

func variable(raw *schema.Raw, list *diag.List) *Variable {
	v := &Variable{Pos: raw.Pos}
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
			v.Data = f.Value.ToValue()
		default:
			s.unknown(f, "variable", "id", "namespace", "name", "annotations", "data")
		}
	}
	switch {
	case raw.Field("id") == nil && raw.Field("name") == nil:
		s.report(raw, "", diag.Errorf(diag.CodeVariable, "the variable has neither name nor id").WithHint("name it, so that env can refer to it"))
	case raw.Field("data") == nil:
		s.report(raw, "", diag.Errorf(diag.CodeVariable, "the variable has no data").WithHint("give it data"))
	}
	if v.ID == "" && raw.Field("id") == nil {
		v.ID = uuid.NewSHA1(idSpace, []byte("variable\x00"+v.Namespace+"\x00"+v.Name+"\x00"+anonymous(v, raw))).String()
	}
	return v
}

func anonymous(v *Variable, raw *schema.Raw) string {
	if v.Name != "" {
		return ""
	}
	return raw.Pos.File + ":" + strconv.Itoa(raw.Pos.Line)
}
