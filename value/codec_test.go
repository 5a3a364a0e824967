package value_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net/netip"
	"net/url"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/value"
)

type (
	text     string
	level    int
	handle   struct{ N int }
	loop     struct{ Next *loop }
	selfPtr  *selfPtr
	selfList []selfList
	selfMap  map[string]selfMap
	wrapped  struct{ P *int } // one word, which an interface may hold itself

	Base struct {
		ID    string
		Kind  string
		inner int
	}
	Extra struct {
		Kind string
		Note string
	}
	embedding struct {
		Base
		*Extra
		Kind string
	}
	clash struct {
		Base
		Extra
	}
	tagged struct {
		A      int            `value:"first,alias=one,alias=eins"`
		B      string         `json:"second,omitempty"`
		C      string         `value:"-"`
		D      *int           `value:",omitempty"`
		E      time.Time      `value:",omitempty"`
		F      []int          `value:",omitempty"`
		HTTPId bool           `value:",omitempty"`
		Nested Base           `value:",inline"`
		Rest   map[string]any `value:",inline"`
		hidden int
	}
)

func (h handle) MarshalText() ([]byte, error) {
	if h.N < 0 {
		return nil, errors.New("negative")
	}
	return fmt.Appendf(nil, "h%d", h.N), nil
}

func (h *handle) UnmarshalText(text []byte) error {
	_, err := fmt.Sscanf(string(text), "h%d", &h.N)
	return err
}

type onlyJSON struct{ X, Y int }

func (o onlyJSON) MarshalJSON() ([]byte, error) { return fmt.Appendf(nil, "[%d,%d]", o.X, o.Y), nil }

func (o *onlyJSON) UnmarshalJSON(data []byte) error {
	_, err := fmt.Sscanf(string(data), "[%d,%d]", &o.X, &o.Y)
	return err
}

func TestEncode(t *testing.T) {
	f := func(in any, want string) {
		t.Helper()
		v, err := value.Encode(in)
		if got := v.String(); err != nil || got != want {
			t.Errorf("%T: got %s, %v, want %s", in, got, err, want)
		}
		p := reflect.New(reflect.TypeFor[any]())
		if in != nil {
			p.Elem().Set(reflect.ValueOf(in))
		}
		if w, err := value.Encode(p.Interface()); err != nil || !w.Equal(v) { // as *any
			t.Errorf("%T in an interface: got %v, %v, want %v", in, w, err, v)
		}
	}
	one, now := 1, time.Date(2024, 5, 17, 10, 30, 0, 0, time.UTC)
	f(nil, "null")
	f(true, "true")
	f(int8(-1), "-1")
	f(int16(-1), "-1")
	f(int32(-1), "-1")
	f(uint8(1), "1")
	f(uint(math.MaxUint), "18446744073709551615")
	f(uintptr(7), "7")
	f(float32(0.5), "0.5")
	f(text("x"), "x")
	f(level(3), "3")
	f(&one, "1")
	f((*int)(nil), "null")
	f((*fault)(nil), "null")
	f(now, "2024-05-17T10:30:00Z")
	f(&now, "2024-05-17T10:30:00Z")
	f(90*time.Second, "1m30s")
	f([]byte("hello"), "aGVsbG8=")
	f([5]byte{'h', 'e', 'l', 'l', 'o'}, "aGVsbG8=")
	f([]string{"a", "b"}, `["a","b"]`)
	f([]int(nil), "[]")
	f([2]bool{true}, "[true,false]")
	f([][]int{{1}, nil}, "[[1],[]]")
	f([]any{1, nil, "x", []any{}}, `[1,null,"x",[]]`)
	f(map[string]any{"b": 1, "a": nil}, `{"a":null,"b":1}`)
	f(map[string]int{"b": 1, "a": 2}, `{"a":2,"b":1}`)
	f(map[string]string(nil), `{}`)
	f(map[string]value.Value{"a": value.Int(1)}, `{"a":1}`)
	f(map[text]level{"b": 1, "a": 2}, `{"a":2,"b":1}`)
	f(map[int]string{10: "x", 9: "y"}, `{"10":"x","9":"y"}`)
	f(map[uint8]bool{1: true}, `{"1":true}`)
	f(map[handle]int{{1}: 1, {2}: 2}, `{"h1":1,"h2":2}`)
	f(map[netip.Addr]int{netip.MustParseAddr("::1"): 1}, `{"::1":1}`)
	f(handle{3}, "h3")
	f(&handle{3}, "h3")
	f([]*handle{nil, {4}}, `[null,"h4"]`)
	f(big.NewInt(12), "12")
	f(onlyJSON{1, 2}, "[1,2]")
	f(json.RawMessage(`{"a":[1.5]}`), `{"a":[1.5]}`)
	f(json.RawMessage(nil), `null`)
	f(json.Number("17"), "17")
	f(io.EOF, "EOF")
	f(struct{ Err error }{io.EOF}, `{"err":{"message":"EOF"}}`)
	f(struct{ Err, None *fault }{Err: &fault{text: "x"}}, `{"err":{"message":"x"},"none":null}`)
	f(struct{ W fmt.Stringer }{W: &url.URL{Path: "/"}}.W.String(), "/")
	f(struct{ I fmt.Stringer }{}, `{"i":null}`)
	f(struct{ I fmt.Stringer }{time.Second}, `{"i":"1s"}`)
	f(value.Int(5), "5")
	f(struct{ V value.Value }{value.List()}, `{"v":[]}`)
	f(wrapped{&one}, `{"p":1}`)
	f(wrapped{}, `{"p":null}`)
	f([1]*int{&one}, `[1]`)
	f(struct{ A [1]*int }{}, `{"a":[null]}`)
	f(struct{}{}, `{}`)
	f(loop{&loop{}}, `{"next":{"next":null}}`)
	f(selfList{{}, {{}}}, "[[],[[]]]")
	f(selfMap{"a": {"b": nil}}, `{"a":{"b":{}}}`)
	f(embedding{Base: Base{ID: "1", Kind: "base", inner: 5}, Kind: "outer"}, `{"id":"1","kind":"outer"}`)
	f(embedding{Extra: &Extra{Note: "n"}}, `{"id":"","note":"n","kind":""}`)
	f(clash{Base{ID: "1", Kind: "a"}, Extra{Kind: "b", Note: "n"}}, `{"id":"1","note":"n"}`)
	f(tagged{A: 1, C: "c", hidden: 1}, `{"first":1,"id":"","kind":""}`)
	f(tagged{B: "b", D: &one, E: now, F: []int{1}, HTTPId: true, Rest: map[string]any{"z": 1, "first": 2, "m": nil}},
		`{"first":0,"second":"b","d":1,"e":"2024-05-17T10:30:00Z","f":[1],"http_id":true,"id":"","kind":"","m":null,"z":1}`)
}

func TestEncodeErrors(t *testing.T) {
	f := func(in any, want string) {
		t.Helper()
		v, err := value.Encode(in)
		var ce *value.ConvertError
		if !errors.As(err, &ce) || err.Error() != want {
			t.Errorf("%T: got %v, error %v, want %s", in, v, err, want)
		}
	}
	f(func() {}, "cannot turn func() into a value")
	f(make(chan int), "cannot turn chan int into a value")
	f(complex(1, 2), "cannot turn complex128 into a value")
	f(struct{ Orders []struct{ Done func() } }{make([]struct{ Done func() }, 2)}, "orders[0].done: cannot turn func() into a value")
	f(map[string]any{"a.b": []any{1, map[int]any{3: complex64(0)}}}, `["a.b"][1].3: cannot turn complex64 into a value`)
	f(map[bool]int{true: 1}, "cannot turn map[bool]int into a map: the keys of a map must be strings, integers or types with text")
	f([]handle{{-1}}, "[0]: cannot turn value_test.handle into text: negative")
	f(json.RawMessage("{"), "cannot turn json.RawMessage into a value: JSON, line 1, column 2: unexpected end, want a name in quotes")
	f(json.Number("x"), `cannot turn json.Number "x" into a number`)
}

func TestEncodeLoops(t *testing.T) {
	f := func(in any) {
		t.Helper()
		v, err := value.Encode(in)
		if err == nil || !strings.Contains(err.Error(), "points back to itself") || len(err.Error()) > 1000 {
			t.Errorf("%T: got a %s, error %v", in, v.Kind(), err)
		}
	}
	l := &loop{}
	l.Next = l
	f(l)
	var p selfPtr
	p = &p
	f(p)
	s := selfList{nil}
	s[0] = s
	f(s)
	m := selfMap{}
	m["a"] = m
	f(m)
	a := []any{nil}
	a[0] = a
	f(a)
	var i any
	i = &i
	f(i)
	g := map[string]any{}
	g["a"] = map[int]any{1: g}
	f(g)
	deep := value.Null()
	for range value.MaxDepth {
		deep = value.List(deep)
	}
	f([]value.Value{deep})
	f(struct{ V value.Value }{deep})
	f(map[string]value.Value{"a": deep})
	f(map[text]value.Value{"a": deep})
	f(struct {
		M map[string]value.Value `value:",inline"`
	}{map[string]value.Value{"a": deep}})
}

func decode[T any](v value.Value) (T, error) {
	var into T
	err := value.Decode(v, &into)
	return into, err
}

func decodeTo[T any](t *testing.T, in string, want T) {
	t.Helper()
	got, err := decode[T](parse(t, in))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s to %T: got %+v, %v, want %+v", in, want, got, err, want)
	}
}

func TestDecode(t *testing.T) {
	one := 1
	onep := &one
	decodeTo(t, "true", true)
	decodeTo(t, `"true"`, true)
	decodeTo(t, "1", int8(1))
	decodeTo(t, "1.0", 1)
	decodeTo(t, `"12"`, int16(12))
	decodeTo(t, `"1e3"`, 1000)
	decodeTo(t, "-128", int8(-128))
	decodeTo(t, "255", uint8(255))
	decodeTo(t, "18446744073709551615", uint64(math.MaxUint64))
	decodeTo(t, "1", 1.0)
	decodeTo(t, `"0.5"`, float32(0.5))
	decodeTo(t, "5", level(5))
	decodeTo(t, `"x"`, text("x"))
	decodeTo(t, "5", "5")
	decodeTo(t, "1.5", "1.5")
	decodeTo(t, "true", text("true"))
	decodeTo(t, `"1m30s"`, 90*time.Second)
	decodeTo(t, "1500", 1500*time.Millisecond)
	decodeTo(t, "0.5", 500*time.Microsecond)
	decodeTo(t, `"250"`, 250*time.Millisecond)
	decodeTo(t, `"2024-05-17T10:30:00.5Z"`, time.Date(2024, 5, 17, 10, 30, 0, 5e8, time.UTC))
	decodeTo(t, "1715941800000", time.UnixMilli(1715941800000).UTC())
	decodeTo(t, `"aGVsbG8="`, []byte("hello"))
	decodeTo(t, `"aGVsbG8="`, [6]byte{'h', 'e', 'l', 'l', 'o'})
	decodeTo(t, "1", onep)
	decodeTo(t, "1", &onep)
	decodeTo(t, "null", (*int)(nil))
	decodeTo(t, "[1,2]", []int{1, 2})
	decodeTo(t, "[]", []int{})
	decodeTo(t, "null", []int(nil))
	decodeTo(t, `"a"`, []string{"a"})
	decodeTo(t, `5`, []string{"5"})
	decodeTo(t, `5`, []any{int64(5)})
	decodeTo(t, `"h5"`, []*handle{{5}})
	decodeTo(t, "[1,null]", []*int{onep, nil})
	decodeTo(t, "[1,null]", []int{1, 0})
	decodeTo(t, "[[1],[]]", [][]int{{1}, {}})
	decodeTo(t, "[[],[[]]]", selfList{{}, {{}}})
	decodeTo(t, "[1]", [2]int{1, 0})
	decodeTo(t, `{"a":1}`, map[string]int{"a": 1})
	decodeTo(t, `{"a":1}`, map[text]level{"a": 1})
	decodeTo(t, `{"a":[1,{}],"b":null}`, map[string]any{"a": []any{int64(1), map[string]any{}}, "b": nil})
	decodeTo(t, `{"a":1,"b":"x","c":null}`, map[string]string{"a": "1", "b": "x", "c": ""})
	decodeTo(t, `{"1":"x"}`, map[int8]string{1: "x"})
	decodeTo(t, `{"h1":{}}`, map[handle]map[string]int{{1}: {}})
	decodeTo(t, `{"a":"x","b":["y","z"]}`, map[string][]string{"a": {"x"}, "b": {"y", "z"}})
	decodeTo(t, "null", map[string]int(nil))
	decodeTo(t, `"h7"`, handle{7})
	decodeTo(t, "12", *big.NewInt(12))
	decodeTo(t, "[1,2]", onlyJSON{1, 2})
	decodeTo(t, `{"a":1}`, json.RawMessage(`{"a":1}`))
	decodeTo(t, "1.5", json.Number("1.5"))
	decodeTo(t, "null", any(nil))
	decodeTo(t, `{"next":{"next":null}}`, loop{&loop{}})
	decodeTo(t, `{"id":"1","kind":"k","note":"n"}`, embedding{Base: Base{ID: "1"}, Extra: &Extra{Note: "n"}, Kind: "k"})
	decodeTo(t, `{"id":"1","note":null}`, embedding{Base: Base{ID: "1"}})
	decodeTo(t, `{"one":1}`, tagged{A: 1})
	decodeTo(t, `{"first":1,"eins":2}`, tagged{A: 1})
	decodeTo(t, `{"eins":2,"first":1,"-":3,"c":4,"kind":"k"}`, tagged{A: 1, Nested: Base{Kind: "k"}, Rest: map[string]any{"-": int64(3), "c": int64(4)}})
	decodeTo(t, `{"p":1}`, wrapped{onep})

	if got, err := decode[value.Value](value.Int(1)); err != nil || !got.Equal(value.Int(1)) {
		t.Errorf("to a Value: got %v, %v", got, err)
	}
	if got, err := decode[error](value.Error(io.EOF)); got != io.EOF || err != nil {
		t.Errorf("to an error: got %v, %v", got, err)
	}
	if got, err := decode[error](value.String("x")); got == nil || got.Error() != "x" || err != nil {
		t.Errorf("text to an error: got %v, %v", got, err)
	}
	if got, err := decode[string](value.Error(io.EOF)); got != "EOF" || err != nil {
		t.Errorf("error to text: got %v, %v", got, err)
	}
	if got, err := decode[fmt.Stringer](value.Duration(1)); err != nil || got != time.Duration(1) {
		t.Errorf("to an interface that it has: got %v, %v", got, err)
	}
}

func TestDecodeKeeps(t *testing.T) {
	one := 1
	into := struct {
		Name  string
		Count int
		Ptr   *int
		Gone  *int
		Map   map[string]int
		List  []int
		At    time.Time
	}{"name", 5, &one, &one, map[string]int{"a": 1}, []int{1, 2}, time.Unix(1, 0)}
	kept, list := into.Ptr, into.List
	if err := value.Decode(parse(t, `{"name":null,"ptr":2,"gone":null,"map":{"b":2},"list":[3],"at":null,"other":1}`), &into); err != nil {
		t.Fatal(err)
	}
	if into.Name != "name" || into.Count != 5 || into.Ptr != kept || one != 2 || into.Gone != nil || into.At != time.Unix(1, 0) ||
		!reflect.DeepEqual(into.Map, map[string]int{"a": 1, "b": 2}) || !reflect.DeepEqual(into.List, []int{3}) || list[0] != 1 {
		t.Errorf("got %+v, the old list %v", into, list)
	}
}

func TestDecodeErrors(t *testing.T) {
	type shop struct {
		Orders []struct {
			Price float64
			Count uint8
			When  time.Time
			Tags  [1]string
			Wait  time.Duration
		}
		By   map[int]bool
		F    func()
		I    fmt.Stringer
		Self selfPtr
		N    int
	}
	f := func(in, want string) {
		t.Helper()
		err := value.Decode(parse(t, in), new(shop))
		var ce *value.ConvertError
		if !errors.As(err, &ce) || err.Error() != want {
			t.Errorf("%s: got %v, want %s", in, err, want)
		}
	}
	f(`[]`, "cannot turn list into value_test.shop")
	f(`{"orders":{}}`, "orders: cannot turn map into []struct { Price float64; Count uint8; When time.Time; Tags [1]string; Wait time.Duration }")
	f(`{"orders":[{},{},{},{"price":"x"}]}`, `orders[3].price: cannot turn string "x" into float64`)
	f(`{"orders":[{"price":true}]}`, `orders[0].price: cannot turn boolean true into float64`)
	f(`{"orders":[{"count":256}]}`, `orders[0].count: cannot turn integer 256 into uint8: out of range`)
	f(`{"orders":[{"count":-1}]}`, `orders[0].count: cannot turn integer -1 into uint8: out of range`)
	f(`{"orders":[{"count":1.5}]}`, `orders[0].count: cannot turn float 1.5 into uint8: not a whole number`)
	f(`{"orders":[{"when":"noon"}]}`, `orders[0].when: cannot turn string "noon" into time.Time: want RFC 3339, or Unix milliseconds`)
	f(`{"orders":[{"tags":["a","b"]}]}`, `orders[0].tags: cannot turn list into [1]string: it has more than 1 elements`)
	f(`{"orders":[{"wait":"soon"}]}`, `orders[0].wait: cannot turn string "soon" into time.Duration: want a text such as "5s", or milliseconds`)
	f(`{"orders":[{"wait":1e300}]}`, `orders[0].wait: cannot turn float 1e+300 into time.Duration: out of range`)
	f(`{"orders":[{"wait":9223372036854775807}]}`, `orders[0].wait: cannot turn integer 9223372036854775807 into time.Duration: out of range`)
	f(`{"by":{"x":true}}`, `by: cannot turn string "x" into int`)
	f(`{"by":{"1":2}}`, `by.1: cannot turn integer 2 into bool`)
	f(`{"f":1}`, `f: cannot turn integer 1 into func()`)
	f(`{"i":1}`, `i: cannot turn integer 1 into fmt.Stringer`)
	f(`{"self":1}`, `self: cannot turn integer 1 into value_test.selfPtr`)
	f(`{"n":9223372036854775808}`, `n: cannot turn integer 9223372036854775808 into int: out of range`)
	f(`{"n":{"a":1}}`, `n: cannot turn map into int`)
	f(`{"n":"0x10"}`, `n: cannot turn string "0x10" into int`)

	for _, into := range []any{nil, 5, (*int)(nil), shop{}} {
		if err := value.Decode(value.Int(1), into); err == nil {
			t.Errorf("into %T: got no error", into)
		}
	}
}

// TestCodecAgrees compares with the baseline of the benchmarks.
func TestCodecAgrees(t *testing.T) {
	o := sampleOrder()
	want, err := reflectEncode(&o)
	if err != nil {
		t.Fatal(err)
	}
	got, err := value.Encode(&o)
	if err != nil || got.String() != want.String() || !got.Equal(want) {
		t.Errorf("encode: got %v, %v, want %v", got, err, want)
	}
	if got.Size() != want.Size() {
		t.Errorf("size: got %d, want %d", got.Size(), want.Size())
	}
	var back, theirs order
	if err := reflectDecode(want, &theirs); err != nil {
		t.Fatal(err)
	}
	if err := value.Decode(want, &back); err != nil || !reflect.DeepEqual(back, o) || !reflect.DeepEqual(back, theirs) {
		t.Errorf("decode: got %+v, %v, want %+v", back, err, o)
	}
	m := sampleMap()
	wantMap, err := reflectEncode(m)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := value.Encode(m); err != nil || got.String() != wantMap.String() || got.Size() != wantMap.Size() {
		t.Errorf("map: got %v, %v, want %v", got, err, wantMap)
	}
	if got := wantMap.Go(); !reflect.DeepEqual(got, any(m)) {
		t.Errorf("map back: got %v, want %v", got, m)
	}
}

// TestEncodeCopies checks that a value does not change with what it is from.
func TestEncodeCopies(t *testing.T) {
	in := struct {
		B []byte
		A [2]byte
		L []int
		M map[string]int
		P *int
	}{[]byte("ab"), [2]byte{'a', 'b'}, []int{1}, map[string]int{"a": 1}, new(int)}
	v, err := value.Encode(&in)
	if err != nil {
		t.Fatal(err)
	}
	want := v.String()
	in.B[0], in.A[0], in.L[0], in.M["a"], *in.P = 'x', 'x', 2, 2, 2
	if got := v.String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// FuzzDecode decodes anything into types of all sorts: no panic, no endless
// recursion, and what was decoded can be encoded.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		"null", "1", `"x"`, "[[[]]]", `{"next":{"next":{}}}`, `{"id":1,"items":[{"sku":"a","price":"1.5"}],"tags":"x","timeout":"5s","created_at":0}`,
		`{"first":1,"eins":2,"note":null,"kind":"k","z":{"a":[]}}`, `{"h1":{"1":1e9},"-1":-1}`, `{"a":18446744073709551615,"b":1e300}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := value.ParseJSON(data)
		if err != nil {
			return
		}
		before := v.String()
		for _, into := range []any{
			new(any), new(order), new(embedding), new(tagged), new(loop), new(selfPtr), new(selfList), new(selfMap), new(handle), new(onlyJSON),
			new([]any), new([]string), new([2]int8), new([]byte), new([4]byte), new(map[string]string), new(map[int][]uint16), new(map[handle]*float32),
			new(map[string]any), new(map[string]value.Value), new(time.Time), new(time.Duration), new(json.Number), new(json.RawMessage), new(**bool),
			new(error), new(fmt.Stringer), new(func()), new(value.Value), new(big.Int), new(uint64),
		} {
			if err := value.Decode(v, into); err != nil {
				var ce *value.ConvertError
				if !errors.As(err, &ce) {
					t.Fatalf("%s into %T: got error %#v", data, into, err)
				}
				continue
			}
			if _, isFunc := into.(*func()); isFunc {
				continue
			}
			if _, err := value.Encode(into); err != nil {
				t.Fatalf("%s into %T is %+v, which does not go back: %v", data, into, into, err)
			}
		}
		if v.String() != before {
			t.Fatalf("%s became %s", before, v)
		}
	})
}

// TestCompileConcurrently compiles types that refer to one another in many goroutines.
func TestCompileConcurrently(t *testing.T) {
	type c struct{ Name string }
	type node struct {
		Kids []*node
		C    map[string]*c
		Own  c
	}
	n := node{Kids: []*node{{Own: c{"x"}}}, C: map[string]*c{"a": {"y"}}}
	const want = `{"kids":[{"kids":[],"c":{},"own":{"name":"x"}}],"c":{"a":{"name":"y"}},"own":{"name":""}}`
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			v, err := value.Encode(&n)
			if err != nil || v.String() != want {
				t.Errorf("got %v, %v, want %s", v, err, want)
			}
			back, err := decode[node](v)
			if err != nil || back.Kids[0].Own.Name != "x" || back.C["a"].Name != "y" {
				t.Errorf("back: got %+v, %v", back, err)
			}
		})
	}
	wg.Wait()
}

func TestAllocations(t *testing.T) {
	if invariant.Race {
		return // the race detector allocates
	}
	f := func(what string, want float64, do func()) {
		t.Helper()
		if got := testing.AllocsPerRun(100, do); got > want {
			t.Errorf("%s: got %v allocations, want at most %v", what, got, want)
		}
	}
	var (
		sink  value.Value
		found bool
		s     = strings.Repeat("x", 10)
		now   = time.Now()
		v     = parse(t, `{"a":1,"b":{"c":[1,2]}}`)
		big   value.MapBuilder
	)
	for i := range 50 {
		big.Set(fmt.Sprint("n", i), value.Int(int64(i)))
	}
	large := big.Build()
	large.Get("n1")
	large.Get("n1")
	f("scalars", 0, func() {
		for _, v := range [...]value.Value{value.Int(1 << 40), value.Float(1.5), value.Bool(true), value.String(s), value.Time(now), value.Duration(5)} {
			sink = v
		}
	})
	f("Get", 0, func() { sink, found = v.Get("b") })
	f("Get of many", 0, func() { sink, found = large.Get("n40") })
	f("Equal", 0, func() { found = v.Equal(sink) })
	f("Hash", 0, func() { found = v.Hash() == 0 })
	f("With", 2, func() { sink = v.With("b", sink) })
	o, plain := sampleOrder(), struct {
		A string
		B int
	}{"x", 1}
	encoded, err := value.Encode(&o)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{"a": 1, "b": "x", "c": true}
	buf := make([]byte, 0, 4096)
	f("small struct encode", 1, func() { sink, err = value.Encode(&plain) })
	f("struct encode", 8, func() { sink, err = value.Encode(&o) })
	f("struct decode", 4, func() { err = value.Decode(encoded, &o) })
	f("map encode", 1, func() { sink, err = value.Encode(m) })
	f("write JSON", 0, func() { buf, err = encoded.AppendJSON(buf[:0]) })
	f("read JSON", 49, func() { sink, err = value.ParseJSON(apiBody) })
	if err != nil || !found && sink.IsError() {
		t.Fatal(err)
	}
}
