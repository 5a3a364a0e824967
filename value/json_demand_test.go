package value_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/value"
)

// sameOnDemand checks that a text read on demand is the value, or the error, that the parser
// reads, whatever is read of it first. It reports whether it is written as it was.
func sameOnDemand(t *testing.T, text []byte, o value.JSONOptions) (unchanged bool) {
	t.Helper()
	want, wantErr := value.ParseJSONWith(text, o)
	o.OnDemand = true
	read := func() value.Value {
		o.Owned = !o.Owned
		v, err := value.ParseJSONWith(bytes.Clone(text), o)
		if fmt.Sprint(err) != fmt.Sprint(wantErr) {
			t.Fatalf("%q: got error %v, want %v", text, err, wantErr)
		}
		return v
	}
	got := read()
	if wantErr != nil {
		return false
	}
	if got.Kind() != want.Kind() || got.Depth() != want.Depth() || got.Len() != want.Len() || got.Size() < want.Size() || got.Size() > 2*want.Size()+len(text) {
		t.Fatalf("%q: got a %s of depth %d, length %d and size %d, want %s, %d, %d and %d",
			text, got.Kind(), got.Depth(), got.Len(), got.Size(), want.Kind(), want.Depth(), want.Len(), want.Size())
	}
	sameFields(t, got, want, 0)
	written, err := got.AppendJSON(nil)
	wantWritten, wantErr := want.AppendJSON(nil)
	if !bytes.Equal(written, wantWritten) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
		t.Fatalf("%q: written as %q (%v), want %q (%v)", text, written, err, wantWritten, wantErr)
	}
	if got.String() != want.String() || !got.Equal(want) || !want.Equal(read()) || got.Hash() != want.Hash() || got.Compare(want) != 0 {
		t.Fatalf("%q: got %v, want %v", text, got, want)
	}
	if v := read(); !v.Clone().Equal(want) || !v.With("new", value.Int(1)).Equal(want.With("new", value.Int(1))) {
		t.Fatalf("%q: a copy or a changed copy is %v", text, v)
	}
	return want.Kind() == value.KindMap && bytes.Equal(written, text)
}

// sameFields reads fields by name, so that they are made one by one.
func sameFields(t *testing.T, got, want value.Value, depth int) {
	t.Helper()
	for name, w := range want.Fields() {
		for range 1 + depth { // again and again, until all are made
			g, ok := got.Get(name)
			if !ok || g.Kind() != w.Kind() || g.Len() != w.Len() || g.Depth() != w.Depth() {
				t.Fatalf("field %q: got %v (%v), want %v", name, g, ok, w)
			}
			text, err := g.AppendJSON(nil)
			wantText, wantErr := w.AppendJSON(nil)
			if !bytes.Equal(text, wantText) || fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("field %q is written as %q, want %q", name, text, wantText)
			}
			sameFields(t, g, w, depth+1)
			if !g.Equal(w) || g.At(0).Kind() != w.At(0).Kind() || g.Append(w).Len() != w.Append(w).Len() {
				t.Fatalf("field %q: got %v, want %v", name, g, w)
			}
		}
	}
	if v, ok := got.Get("no such name"); ok {
		t.Fatalf("there is no such name, got %v", v)
	}
}

// A jsonWriter writes texts as programs of all kinds do.
type jsonWriter struct {
	*rand.Rand
	strings.Builder
	plain bool // as this package writes
}

func (w *jsonWriter) pick(texts ...string) { w.WriteString(texts[w.IntN(len(texts))]) }

func (w *jsonWriter) space() {
	if !w.plain && w.IntN(8) == 0 {
		w.pick(" ", "\n", "\t", "  ")
	}
}

func (w *jsonWriter) value(depth int) {
	w.space()
	defer w.space()
	n := w.IntN(10)
	if depth > 3 {
		n = w.IntN(7)
	}
	switch n {
	case 0:
		w.pick("true", "false", "null")
	case 1, 2:
		fmt.Fprint(w, w.Int64N(1<<w.IntN(63))-w.Int64N(1<<w.IntN(40)))
	case 3:
		fmt.Fprintf(w, "%d.%d", w.IntN(1000), 1+10*w.IntN(1000))
	case 4:
		if w.plain {
			w.pick("0", "-1", "0.5", "-12.25", "999999999999999999")
		} else {
			w.pick("-0", "1e3", "1.50", "0.0000001", "1E-7", "123456789012345678901", "0.1234567890123456789", "-0.0", "1e308", "12345678901234567.5", "100000000000000000000000.5")
		}
	case 5, 6:
		w.text()
	case 7:
		w.WriteByte('[')
		for i := range w.IntN(5) {
			if i > 0 {
				w.WriteByte(',')
			}
			w.value(depth + 1)
		}
		w.WriteByte(']')
	default:
		w.object(depth, w.IntN(6))
	}
}

func (w *jsonWriter) text() {
	w.WriteByte('"')
	for range w.IntN(4) {
		w.pick("plain", "ascii and longer than eight", "ü€😀", "/", "")
		if !w.plain {
			w.pick(`\n`, `\u00e9`, `\ud83d\ude00`, `\ud83d`, "\xff", `\/`, `\\`, "")
		}
	}
	w.WriteByte('"')
}

func (w *jsonWriter) object(depth, n int) {
	w.WriteByte('{')
	for i := range n {
		if i > 0 {
			w.WriteByte(',')
		}
		w.space()
		if w.plain || w.IntN(40) > 0 {
			fmt.Fprintf(w, `"%s%d"`, [...]string{"a", "name", "longer_than_8_", "ü"}[w.IntN(4)], i)
		} else {
			w.pick(`"a"`, `"a0"`, `"\u0061"`, `"same_begin_X_same_end_"`, `"same_begin_Y_same_end_"`)
		}
		w.space()
		w.WriteByte(':')
		w.value(depth + 1)
	}
	w.WriteByte('}')
}

// TestOnDemand compares values read on demand with values that are parsed, over random texts,
// whole, cut and damaged.
func TestOnDemand(t *testing.T) {
	unchanged, onDemand := 0, 0
	for seed := range uint64(4000) {
		w := &jsonWriter{Rand: rand.New(rand.NewPCG(seed, 1)), plain: seed%2 == 0}
		w.object(0, w.IntN(9))
		text := []byte(w.String())
		var o value.JSONOptions
		o.RejectDuplicates = seed%3 == 0
		if sameOnDemand(t, text, o) {
			unchanged++
		}
		if v, err := value.ParseJSONWith(text, value.JSONOptions{OnDemand: true}); err == nil {
			if _, lazy := value.FieldSourceOf(v); lazy {
				onDemand++
			}
		}
		sameOnDemand(t, text[:w.IntN(len(text)+1)], o)
		text[w.IntN(len(text))] = byte(w.IntN(256))
		sameOnDemand(t, text, o)
		o.MaxDepth = 1 + w.IntN(3)
		sameOnDemand(t, text, o)
	}
	t.Logf("of 4000 texts %d are read on demand, and %d are written as they were", onDemand, unchanged)
	if onDemand < 3500 || unchanged < 1900 {
		t.Errorf("of 4000 texts %d are read on demand, and %d are written as they were", onDemand, unchanged)
	}
}

// TestOnDemandEdges has texts at the limits of what is read on demand.
func TestOnDemandEdges(t *testing.T) {
	var wide strings.Builder
	for i := range 100 {
		fmt.Fprintf(&wide, `,"field%d":%d`, i, i)
	}
	long := strings.Repeat("x", 5000)
	for _, text := range []string{
		`{}`, ` {"a":1} `, `{"a":1}x`, "{\"a\":1}\x00", `{"a":{"a":{"a":[{"a":1}]}}}`, `{"a":[[],{},[{}]]}`,
		"{" + wide.String()[1:] + "}", `{"in":{` + wide.String()[1:] + `},"a":1}`,
		`{"a":"` + long + `","b":"short","c":{"d":"` + long + `"},"e":[1,"x"]}`,
		`{"a":1,"a":2}`, `{"a":{"b":1,"b":2}}`, `{"a":"\u0000"}`, "{\"a\":\"\n\"}", `{"":""}`, `{"a":-}`, `{"a":01}`, `{"a":1.}`, `{"a":1e}`, `{"a":1.5e}`,
	} {
		sameOnDemand(t, []byte(text), value.JSONOptions{})
	}
}

// TestOnDemandReserve checks that the limit of memory holds for what is made later.
func TestOnDemandReserve(t *testing.T) {
	text := []byte(`{"a":[` + strings.Repeat("0,", 10000) + `0]}`)
	held := 0
	v, err := value.ParseJSONWith(text, value.JSONOptions{OnDemand: true, Reserve: func(n int) error { held += n; return nil }})
	if a, _ := v.Get("a"); err != nil || held < a.Size() || held < v.Size() || a.Len() != 10001 {
		t.Errorf("%d bytes were reserved for a value of %d bytes (%v)", held, v.Size(), err)
	}
	full := fmt.Errorf("full")
	if _, err := value.ParseJSONWith(text, value.JSONOptions{OnDemand: true, Reserve: func(int) error { return full }}); err != full {
		t.Errorf("got %v, want the error of the limit", err)
	}
}

// TestOnDemandConcurrent reads one value on several goroutines.
func TestOnDemandConcurrent(t *testing.T) {
	text := []byte(`{"a":{"b":[1,2,{"c":"x"}]},"s":"\n","n":1.5}`)
	want, _ := value.ParseJSON(text)
	v, err := value.ParseJSONWith(text, value.JSONOptions{OnDemand: true})
	if err != nil {
		t.Fatal(err)
	}
	var readers sync.WaitGroup
	for range 8 {
		readers.Go(func() {
			sameFields(t, v, want, 1)
			if !v.Equal(want) {
				t.Errorf("got %v, want %v", v, want)
			}
		})
	}
	readers.Wait()
}

func FuzzOnDemand(f *testing.F) {
	for seed := range uint64(20) {
		w := &jsonWriter{Rand: rand.New(rand.NewPCG(seed, 2)), plain: seed%2 == 0}
		w.object(0, 5)
		f.Add([]byte(w.String()), seed%2 == 0)
	}
	f.Fuzz(func(t *testing.T, text []byte, reject bool) {
		sameOnDemand(t, text, value.JSONOptions{RejectDuplicates: reject})
	})
}

// BenchmarkOnDemand reads a few fields of a message and writes some, as a mapping does.
func BenchmarkOnDemand(b *testing.B) {
	shapes := map[string]struct {
		text  string
		names []string
	}{
		"order": {`{"id":17,"user":"u123","country":"KR","amount":12.34,"count":3,"items":[{"sku":"tea-17","n":3},{"sku":"coffee-817","n":4},{"sku":"cocoa-3","n":1}],"address":{"street":"17 Long Lane","city":"Seoul","zip":"04524"},"note":"please ring twice, and leave it with the neighbour"}`,
			[]string{"id", "user", "amount", "count", "address"}},
		"log": {`{"time":"2026-01-02T03:04:05.000017Z","level":"warn","user":"u123","status":417,"took":82.731,"path":"/api/v1/orders/17","text":"the request was passed on to the service that keeps orders, which answered after it had read 71 rows of the table, 7 of them from memory; the client may send it again"}`,
			[]string{"user", "path", "took", "status"}},
		"spaced": {`{"id": 17, "user": "u123", "tags": ["a", "b"], "place": {"lat": 37.56, "lon": 126.97}, "text": "a \"quoted\" word\nand a line"}`,
			[]string{"id", "place", "text"}},
	}
	for shape, s := range shapes {
		if !json.Valid([]byte(s.text)) {
			b.Fatal(shape)
		}
		for _, how := range []string{"parsed", "on demand"} {
			b.Run(shape+"/"+how, func(b *testing.B) {
				o := value.JSONOptions{OnDemand: how == "on demand"}
				var dst []byte
				text := []byte(s.text)
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				for b.Loop() {
					v, err := value.ParseJSONWith(text, o)
					if err != nil {
						b.Fatal(err)
					}
					dst = dst[:0]
					for _, name := range s.names {
						field, _ := v.Get(name)
						if city, ok := field.Get("city"); ok {
							field = city
						}
						if dst, err = field.AppendJSON(dst); err != nil {
							b.Fatal(err)
						}
					}
				}
			})
			b.Run(shape+"/"+how+"/unchanged", func(b *testing.B) {
				o := value.JSONOptions{OnDemand: how == "on demand"}
				var dst []byte
				text := []byte(s.text)
				b.SetBytes(int64(len(text)))
				for b.Loop() {
					v, err := value.ParseJSONWith(text, o)
					if err == nil {
						dst, err = v.AppendJSON(dst[:0])
					}
					if err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
