package value_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

func parse(t testing.TB, text string) value.Value {
	t.Helper()
	v, err := value.ParseJSON([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

func toJSON(t testing.TB, v value.Value) string {
	t.Helper()
	text, err := v.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestSharedBase changes one map in many goroutines while others read it: the
// maps that result share an array, and none may see what another added.
func TestSharedBase(t *testing.T) {
	fields := make([]value.Field, 0, 16)
	fields = append(fields, value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "b", Value: value.List(value.Int(2))})
	base := value.UniqueMap(fields)
	before := toJSON(t, base)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			name := fmt.Sprint("g", g)
			for i := range 200 {
				v := base.With(name, value.Int(int64(i)))
				w := v.With("more", value.Int(int64(g)))
				u := v.With("more", value.Int(-1)).Without("a")
				if got, want := w.String(), fmt.Sprintf(`{"a":1,"b":[2],"%s":%d,"more":%d}`, name, i, g); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got, want := u.String(), fmt.Sprintf(`{"b":[2],"%s":%d,"more":-1}`, name, i); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got := base.String(); got != before {
					t.Errorf("the base became %s", got)
				}
				if got, want := base.With("b", value.Int(int64(g))).String(), fmt.Sprintf(`{"a":1,"b":%d}`, g); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
}

// TestLargeMap checks names beyond the number from which they are indexed.
func TestLargeMap(t *testing.T) {
	var b value.MapBuilder
	for i := range 100 {
		if b.Set(fmt.Sprint("n", i), value.Int(int64(i))) {
			t.Fatalf("n%d is there already", i)
		}
	}
	v := b.Build()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 3 {
				for i := range 100 {
					if got, ok := v.Get(fmt.Sprint("n", i)); !ok || !got.Equal(value.Int(int64(i))) {
						t.Errorf("n%d: got %v, %t", i, got, ok)
					}
				}
				if _, ok := v.Get("n100"); ok {
					t.Error("n100 is there")
				}
			}
		})
	}
	wg.Wait()
	w := v.Without("n50").With("n7", value.Null())
	if _, ok := w.Get("n50"); ok || w.Len() != 99 {
		t.Errorf("without n50: got %d fields, found %t", w.Len(), ok)
	}
	dup := value.Map(value.Field{Name: "a", Value: value.Int(1)}, value.Field{Name: "b"}, value.Field{Name: "a", Value: value.Int(2)})
	if got := dup.String(); got != `{"a":2,"b":null}` {
		t.Errorf("name twice: got %s", got)
	}
}

type fieldSource struct {
	fields []value.Field
	calls  int
}

func (s *fieldSource) Fields() []value.Field {
	s.calls++
	return s.fields
}

func TestLazyMap(t *testing.T) {
	s := &fieldSource{fields: []value.Field{{Name: "a", Value: value.Int(1)}, {Name: "deep", Value: value.List(value.List())}}}
	v := value.LazyMap(s, 100, 2)
	if v.Size() != 100 || s.calls != 0 {
		t.Errorf("size %d, %d calls before a look", v.Size(), s.calls)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if a, ok := v.Get("a"); !ok || !a.Equal(value.Int(1)) {
				t.Errorf("a: got %v, %t", a, ok)
			}
			v.With("b", value.Int(2))
		})
	}
	wg.Wait()
	if s.calls != 1 {
		t.Errorf("got %d calls, want 1", s.calls)
	}
	if deep, _ := v.Get("deep"); !deep.IsError() {
		t.Errorf("field deeper than declared: got %v, want an error", deep)
	}
	if !value.LazyMap(s, 0, value.MaxDepth+1).IsError() {
		t.Error("too deep a lazy map is not an error")
	}
}

type fieldFinder struct{ fieldSource }

func (s *fieldFinder) Field(name string) (value.Value, bool) {
	for _, f := range s.fields[:2] {
		if f.Name == name {
			return f.Value, true
		}
	}
	return value.Null(), false
}

// TestFieldFinder reads a field without making all, and one that has to be made.
func TestFieldFinder(t *testing.T) {
	s := &fieldFinder{fieldSource{fields: []value.Field{{Name: "a", Value: value.Int(1)}, {Name: "deep", Value: value.List(value.List())}, {Name: "b", Value: value.Int(2)}}}}
	v := value.LazyMap(s, 100, 2)
	if a, ok := v.Get("a"); !ok || !a.Equal(value.Int(1)) || s.calls != 0 {
		t.Errorf("a: got %v, %t after %d calls", a, ok, s.calls)
	}
	if deep, _ := v.Get("deep"); !deep.IsError() || s.calls != 0 {
		t.Errorf("field deeper than declared: got %v after %d calls, want an error", deep, s.calls)
	}
	if b, ok := v.Get("b"); !ok || !b.Equal(value.Int(2)) || s.calls != 1 {
		t.Errorf("b: got %v, %t after %d calls", b, ok, s.calls)
	}
	if _, ok := v.Get("c"); ok {
		t.Error("c is there")
	}
}

func TestMaxDepth(t *testing.T) {
	v := value.Null()
	for range value.MaxDepth {
		v = value.List(v)
	}
	if v.IsError() {
		t.Fatalf("at MaxDepth: got %v", v)
	}
	f := func(what string, got value.Value) {
		t.Helper()
		if !got.IsError() {
			t.Errorf("%s beyond MaxDepth: got a %s, want an error", what, got.Kind())
		}
	}
	f("List", value.List(v))
	f("Append", value.List().Append(v))
	f("Map", value.Map(value.Field{Name: "a", Value: v}))
	f("With", value.Null().With("a", v))
	f("With in a map", value.Map(value.Field{Name: "a"}).With("b", v))
	f("With in place", value.Map(value.Field{Name: "a"}).With("a", v))
	// Recursive functions work on the deepest value.
	if w, err := value.Encode(v.Go()); err != nil || !w.Equal(v) || w.Compare(v) != 0 || w.Hash() != v.Hash() || w.String() != v.String() {
		t.Errorf("the deepest value does not survive: %v", err)
	}
}

func TestDepthAndFields(t *testing.T) {
	t.Parallel()
	inner := value.List(value.Int(1))
	for want, v := range []value.Value{value.String("x"), inner, value.Map(value.Field{Name: "a", Value: inner})} {
		if got := v.Depth(); got != want {
			t.Errorf("depth of %s: got %d, want %d", v, got, want)
		}
	}
	var b value.MapBuilder
	b.Set("a", value.Int(1))
	b.Set("a", value.Int(2))
	if got := b.Fields(); len(got) != 1 || !got[0].Value.Equal(value.Int(2)) || b.Len() != 0 {
		t.Errorf("got %v, and a builder of %d fields", got, b.Len())
	}
}

// TestSlab makes maps of two shapes in turns, and changes some.
func TestSlab(t *testing.T) {
	none, two := value.NewShape(), value.NewShape("a", "b")
	var slab value.Slab
	var maps []value.Value
	for i := range 50 {
		made := two.MapIn(&slab, value.Int(int64(i)), value.List(value.Int(1)))
		if i%7 == 0 {
			none.MapIn(&slab)
		}
		if added := made.With("c", value.Int(1)); added.Len() != 3 {
			t.Errorf("got %v", added)
		}
		maps = append(maps, made)
	}
	for i, got := range maps {
		want := two.Map(value.Int(int64(i)), value.List(value.Int(1)))
		if !got.Equal(want) || got.Size() != want.Size() || got.Depth() != want.Depth() {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}
