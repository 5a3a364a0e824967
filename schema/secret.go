package schema

import "github.com/uniflow-labs/uniflow/value"

// Secrets returns the texts and numbers in the secret fields of a config, and in the
// defaults of these.
func (o Object) Secrets(raw *Raw) []string {
	var texts []string
	for _, f := range o.fields {
		if f.secret {
			texts = append(texts, Texts(f.def)...)
		}
	}
	if raw == nil {
		return texts
	}
	for _, item := range raw.Items {
		texts = append(texts, o.Secrets(item)...)
	}
	for _, given := range raw.Fields {
		i, ok := o.byName[given.Name]
		switch {
		case !ok:
		case o.fields[i].secret:
			texts = append(texts, Texts(given.Value.ToValue())...)
		default:
			texts = append(texts, o.fields[i].fields.Secrets(given.Value)...)
		}
	}
	return texts
}

// SecretNames returns the names of all secret fields, also within lists and groups.
func (o Object) SecretNames() []string {
	var names []string
	for _, f := range o.fields {
		if f.secret {
			names = append(names, f.name)
		}
		names = append(names, f.fields.SecretNames()...)
	}
	return names
}

// Texts returns the strings and numbers in a value.
func Texts(v value.Value) (texts []string) {
	switch v.Kind() {
	case value.KindMap:
		for _, field := range v.Fields() {
			texts = append(texts, Texts(field)...)
		}
	case value.KindList:
		for _, e := range v.Elems() {
			texts = append(texts, Texts(e)...)
		}
	case value.KindNull, value.KindBool:
	case value.KindBinary:
		data, _ := v.AsBinary()
		texts = append(texts, string(data))
	default:
		texts = append(texts, v.String())
	}
	return texts
}
