package openapi

import "github.com/uniflow-labs/uniflow/value"

// adopt moves the components of a fragment to the document, and returns the fragment with
// the references to those that had to get another name.
func (b *builder) adopt(fragment value.Value) value.Value {
	components, ok := fragment.Get("components")
	if !ok {
		return fragment
	}
	fragment = fragment.Without("components")
	renamed := make(map[string]string)
	for group, entries := range components.Fields() {
		for name, entry := range entries.Fields() {
			if got := b.component(group, name, entry); got != name {
				renamed[reference(group, name)] = reference(group, got)
				if group == "securitySchemes" {
					fragment = renameSecurity(fragment, name, got)
				}
			}
		}
	}
	if len(renamed) > 0 {
		fragment = rename(fragment, renamed)
	}
	return fragment
}

func reference(group, name string) string { return "#/components/" + group + "/" + name }

// MapRefs returns a part of a document with the text of each $ref in it replaced.
func MapRefs(v value.Value, to func(ref string) string) value.Value {
	switch v.Kind() {
	case value.KindList:
		elems := make([]value.Value, 0, v.Len())
		for _, elem := range v.Elems() {
			elems = append(elems, MapRefs(elem, to))
		}
		return value.List(elems...)
	case value.KindMap:
		fields := make([]value.Field, 0, v.Len())
		for name, f := range v.Fields() {
			if ref, ok := f.AsString(); ok && name == "$ref" {
				fields = append(fields, field(name, text(to(ref))))
				continue
			}
			fields = append(fields, field(name, MapRefs(f, to)))
		}
		return value.UniqueMap(fields)
	}
	return v
}

// rename replaces references to components, and into them.
func rename(v value.Value, to map[string]string) value.Value {
	return MapRefs(v, func(ref string) string { return renameRef(ref, to) })
}

// renameRef replaces a reference to a component, or into one.
func renameRef(s string, to map[string]string) string {
	for from, now := range to {
		if s == from || len(s) > len(from) && s[:len(from)] == from && s[len(from)] == '/' {
			return now + s[len(from):]
		}
	}
	return s
}

func renameSecurity(fragment value.Value, from, to string) value.Value {
	list, _ := fragment.Get("security")
	all := make([]value.Value, 0, list.Len())
	for _, requirement := range list.Elems() {
		var b value.MapBuilder
		for name, scopes := range requirement.Fields() {
			if name == from {
				name = to
			}
			b.Set(name, scopes)
		}
		all = append(all, b.Build())
	}
	return fragment.With("security", value.List(all...))
}
