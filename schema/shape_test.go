package schema_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/uniflow-labs/uniflow/schema"
)

// show writes a shape: names in braces, with … for others, elements in brackets, ? for nothing.
func show(s *schema.Shape, depth int) string {
	if s == nil || depth == 0 {
		return "?"
	}
	text := "{"
	for _, name := range slices.Sorted(maps.Keys(s.Fields)) {
		text += name + ":" + show(s.Fields[name], depth-1) + " "
	}
	if !s.Closed {
		text += "…"
	}
	text += "}"
	if s.Items != nil {
		text += "[" + show(s.Items, depth-1) + "]"
	}
	return text
}

// TestEitherRecursive takes time for the shapes that there are, and not for the paths through them.
func TestEitherRecursive(t *testing.T) {
	of := func() *schema.Shape {
		s := &schema.Shape{Closed: true, Fields: map[string]*schema.Shape{}}
		for i := range 20 {
			s.Fields[fmt.Sprintf("f%02d", i)] = s
		}
		return s
	}
	s := schema.Either(of(), of())
	for range 5 {
		if !s.Lacks("other") || s.Lacks("f19") {
			t.Fatalf("got %v, want the fields of both", s)
		}
		s = s.Field("f07")
	}
}

func TestEither(t *testing.T) {
	of := func(closed bool, names ...string) *schema.Shape {
		s := &schema.Shape{Closed: closed, Fields: map[string]*schema.Shape{}}
		for _, name := range names {
			s.Fields[name] = nil
		}
		return s
	}
	f := func(a, b *schema.Shape, want string) {
		t.Helper()
		for _, s := range []*schema.Shape{schema.Either(a, b), schema.Either(b, a)} {
			if got := show(s, 4); got != want {
				t.Errorf("%s or %s: got %s, want %s", show(a, 4), show(b, 4), got, want)
			}
		}
	}
	closed, open := of(true, "a", "b"), of(false, "a", "c")
	f(nil, closed, "?")
	f(closed, closed, "{a:? b:? }")
	f(closed, of(true, "b", "c"), "{a:? b:? c:? }")
	f(closed, open, "{a:? c:? …}")
	f(open, of(false, "c", "d"), "{c:? …}")

	// What a field has is known if it is there in one of the two only.
	f(of(true).With("x", closed), of(true, "y"), "{x:{a:? b:? } y:? }")
	f(of(true).With("x", closed), of(false, "y"), "{y:? …}")
	f(of(true).With("x", closed), of(true).With("x", of(true, "c")), "{x:{a:? b:? c:? } }")
	f(of(true).With("x", closed), of(true).With("x", nil), "{x:? }")
	f(&schema.Shape{Items: closed}, &schema.Shape{Items: open}, "{…}[{a:? c:? …}]")
	f(&schema.Shape{Items: closed}, &schema.Shape{}, "{…}")

	tree, other := of(true, "n"), of(true, "m")
	tree.Fields["child"], other.Fields["child"] = tree, other
	f(tree, other, "{child:{child:{child:{child:? m:? n:? } m:? n:? } m:? n:? } m:? n:? }")
}

func TestShape(t *testing.T) {
	var unknown *schema.Shape
	if unknown.Lacks("a") || unknown.Field("a") != nil || unknown.With("a", nil) != nil {
		t.Error("got something about a value of which nothing is known")
	}
	s := &schema.Shape{Closed: true}
	with := s.With("a", s)
	if got := fmt.Sprint(s.Lacks("a"), with.Lacks("a"), with.Lacks("b"), with.Field("a") == s, len(s.Fields)); got != "true false true true 0" {
		t.Errorf("got %s", got)
	}
	if open := unknown.With("a", s); open.Lacks("b") || open.Field("a") != s {
		t.Errorf("got %s", show(open, 3))
	}
}
