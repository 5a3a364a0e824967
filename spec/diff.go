package spec

import (
	"slices"

	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// difference returns a field in which two nodes differ in meaning, or "" if there is
// none.
func difference(a, b *Node) string {
	switch {
	case a.Kind != b.Kind:
		return "kind"
	case a.Namespace != b.Namespace:
		return "namespace"
	case a.Name != b.Name:
		return "name"
	case a.ID != b.ID:
		return "id"
	case !slices.EqualFunc(a.Annotations, b.Annotations, func(x, y Annotation) bool { return x.Name == y.Name && same(x.Value, y.Value) }):
		return "annotations"
	case !slices.EqualFunc(a.Env, b.Env, sameBinding):
		return "env"
	case a.LifecycleTimeout != b.LifecycleTimeout:
		return "lifecycle"
	case !slices.EqualFunc(a.Ports, b.Ports, samePort):
		return "ports"
	}
	for _, f := range a.Config.Fields {
		other := b.Config.Field(f.Name)
		if other == nil || !sameRaw(f.Value, other) && !(f.Name == "specs" && sameSpecs(f.Value, other)) {
			return f.Name
		}
	}
	for _, f := range b.Config.Fields {
		if a.Config.Field(f.Name) == nil && !isImplied(b.Kind, f) {
			return f.Name
		}
	}
	return ""
}

func sameSpecs(a, b *schema.Raw) bool {
	before, found := ParseInner(a, new(Node))
	after, left := ParseInner(b, new(Node))
	return len(found) == len(left) && slices.EqualFunc(before, after, func(x, y *Node) bool { return difference(x, y) == "" })
}

func sameBinding(a, b Binding) bool {
	if a.Key != b.Key || a.ID != b.ID || a.Name != b.Name || (a.Data == nil) != (b.Data == nil) {
		return false
	}
	return sameRaw(a.Data, b.Data)
}

func samePort(a, b Port) bool {
	return a.Name == b.Name && slices.EqualFunc(a.Links, b.Links, func(x, y Link) bool {
		return x.ID == y.ID && x.Name == y.Name && x.Port == y.Port
	})
}

// sameRaw compares trees: unlike for payloads, the order of fields counts, and 1
// and 1.0 differ.
func sameRaw(a, b *schema.Raw) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Kind == b.Kind && same(a.Value, b.Value) &&
		slices.EqualFunc(a.Items, b.Items, sameRaw) &&
		slices.EqualFunc(a.Fields, b.Fields, func(x, y schema.RawField) bool { return x.Name == y.Name && sameRaw(x.Value, y.Value) })
}

// same compares values with their kinds; a NaN is the same as itself.
func same(a, b value.Value) bool {
	if a.Kind() != b.Kind() {
		return false
	}
	if f, ok := a.AsFloat(); ok && f != f {
		g, _ := b.AsFloat()
		return g != g
	}
	return a.Equal(b)
}
