package amqp

import (
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/value"
)

// Headers of any type become texts.
func TestHeader(t *testing.T) {
	header := headerValue(amqp.Table{
		"n": int64(7), "f": 1.5, "b": true, "s": "x", "raw": []byte("y"), "none": nil, "at": time.Unix(0, 0),
		"list": []any{"a", int32(2), nil}, "x-death": []any{amqp.Table{"count": int64(1)}},
	})
	if got, want := header.String(), `{"at":"1970-01-01T00:00:00Z","b":"true","f":"1.5","list":["a","2",""],"n":"7","none":"","raw":"y","s":"x","x-death":["map[count:1]"]}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	back, err := headerOf(header)
	if err != nil || back["n"] != "7" || !reflect.DeepEqual(back["list"], []any{"a", "2", ""}) {
		t.Errorf("back: got %v, %v", back, err)
	}
	if err := back.Validate(); err != nil {
		t.Errorf("the library does not take it: %v", err)
	}
	if !headerValue(nil).IsNull() {
		t.Error("without headers, there is one")
	}
}

func TestHeaderRefused(t *testing.T) {
	for name, header := range map[string]value.Value{
		"a list": value.List(), "a text": value.String("a"),
		"no name":   value.Map(value.Field{Name: "", Value: value.String("a")}),
		"long name": value.Map(value.Field{Name: strings.Repeat("x", longestName+1), Value: value.String("a")}),
	} {
		if got, err := headerOf(header); err == nil {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if got, err := headerOf(value.Map(value.Field{Name: "CC", Value: value.String("a")})); err != nil || !reflect.DeepEqual(got["CC"], []any{"a"}) {
		t.Errorf("CC: got %v, %v", got, err)
	}
}

// FuzzHeader has headers of text survive the way through a workflow.
func FuzzHeader(f *testing.F) {
	f.Add("a", "1", "b", "2")
	f.Add("CC", "queue", "", "")
	f.Fuzz(func(t *testing.T, name1, text1, name2, text2 string) {
		if !utf8.ValidString(name1+text1) || !utf8.ValidString(name2+text2) {
			return // values are UTF-8
		}
		table := amqp.Table{name1: text1, name2: []any{text1, text2}}
		back, err := headerOf(headerValue(table))
		valid := true
		for name := range table {
			valid = valid && name != "" && len(name) <= longestName
		}
		if s, ok := table[name1].(string); ok && (name1 == "CC" || name1 == "BCC") {
			table[name1] = []any{s}
		}
		if (err == nil) != valid || valid && !reflect.DeepEqual(back, table) {
			t.Errorf("%q: got %q, %v", table, back, err)
		}
	})
}

// Arguments of a declaration keep their types.
func TestArguments(t *testing.T) {
	v, err := value.ParseJSON([]byte(`{"x-max-length": 100, "x-ratio": 0.5, "x-single-active-consumer": true, "x-overflow": "reject-publish", "deep": {"n": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	want := amqp.Table{"x-max-length": int64(100), "x-ratio": 0.5, "x-single-active-consumer": true, "x-overflow": "reject-publish", "deep": amqp.Table{"n": int64(1)}}
	if got := tableOf(v); !reflect.DeepEqual(got, want) {
		t.Errorf("got %#v, want %#v", got, want)
	}
}
