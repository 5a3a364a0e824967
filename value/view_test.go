package value_test

import (
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/value"
)

func TestGo(t *testing.T) {
	now := time.Date(2024, 5, 17, 10, 30, 0, 5, time.FixedZone("x", 3600))
	for _, want := range []any{
		nil, true, int64(-1), uint64(math.MaxUint64), 1.0, "x", []byte("b"), []byte{}, now, time.Second, io.EOF, []any{}, map[string]any{},
		[]any{nil, []any{}, map[string]any{}, int64(1)}, map[string]any{"a": nil, "b": map[string]any{"c": []any{}}},
	} {
		v, err := value.Encode(want)
		if got := v.Go(); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %#v, %v, want %#v", got, err, want)
		}
	}
	v := value.Binary([]byte("abc"))
	v.Go().([]byte)[0] = 'x'
	if b, _ := v.AsBinary(); string(b) != "abc" {
		t.Errorf("a change to what Go returned reached the value: %s", b)
	}
}

func TestString(t *testing.T) {
	f := func(v value.Value, want string) {
		t.Helper()
		if got := v.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f(value.Null(), "null")
	f(value.Int(5), "5")
	f(value.Float(2.5), "2.5")
	f(value.Float(math.NaN()), "NaN")
	f(value.Float(math.Inf(-1)), "-Infinity")
	f(value.String("a\nb"), "a\nb")
	f(value.String(`"q"`), `"q"`)
	f(value.Duration(time.Minute), "1m0s")
	f(value.Binary([]byte("hello")), "aGVsbG8=")
	f(value.Binary(nil), "")
	f(value.Error(io.EOF), "EOF")
	f(value.List(value.String("a"), value.Duration(time.Second), value.Float(math.NaN()), value.Error(io.EOF)), `["a","1s",NaN,{"message":"EOF"}]`)
	f(value.List(), "[]")
	f(value.Map(), "{}")
	f(value.List(value.Error(mirror{}), value.Error(mirror{})), `[{"self":"mirror"},{"self":"mirror"}]`)
}

type fault struct {
	text   string
	status int
	public bool
	err    error
}

func (f *fault) Error() string { return "node x: " + f.text }
func (f *fault) Unwrap() error { return f.err }
func (f *fault) ErrorFields() []value.Field {
	fields := []value.Field{{Name: "message", Value: value.String(f.text)}}
	if f.status != 0 {
		fields = append(fields, value.Field{Name: "status", Value: value.Int(int64(f.status))})
	}
	if f.public {
		fields = append(fields, value.Field{Name: "public", Value: value.Bool(true)})
	}
	return fields
}

func TestErrorMap(t *testing.T) {
	f := func(err error, want, text string) {
		t.Helper()
		v := value.Error(err)
		if got := value.ErrorMap(v).String(); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
		if got := v.String(); got != text {
			t.Errorf("%v: got text %q, want %q", err, got, text)
		}
	}
	a, b, c := &fault{text: "a", public: true}, &fault{text: "b", status: 404, public: true}, &fault{text: "c", status: 500}
	f(io.EOF, `{"message":"EOF"}`, "EOF")
	f(b, `{"message":"b","status":404,"public":true}`, "b")
	f(fmt.Errorf("wrapped: %w", b), `{"message":"b","status":404,"public":true}`, "b")
	f(&fault{text: "outer", err: b}, `{"message":"outer"}`, "outer")
	f(errors.Join(a, b), `{"message":"a\nb","public":true,"status":404}`, "a\nb")
	f(errors.Join(b, c), `{"message":"b\nc","status":404}`, "b\nc")
	f(errors.Join(c, b), `{"message":"c\nb","status":500}`, "c\nb")
	f(errors.Join(io.EOF, b), `{"message":"EOF\nb","status":404}`, "EOF\nb")
	f(errors.Join(io.EOF, io.ErrClosedPipe), `{"message":"EOF\nio: read/write on closed pipe"}`, "EOF\nio: read/write on closed pipe")
	f(fmt.Errorf("both %w and %w", io.EOF, io.ErrNoProgress), `{"message":"both EOF and multiple Read calls return no data or error"}`,
		"both EOF and multiple Read calls return no data or error")
	f(mirror{}, `{"self":{"self":"mirror"}}`, "mirror")
	if v := value.Int(1); !value.ErrorMap(v).Equal(v) {
		t.Error("ErrorMap changed a value that is not an error")
	}
}
