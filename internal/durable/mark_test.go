package durable

import (
	"net/http"
	"testing"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/value"
	"github.com/uniflow-labs/uniflow/value/wire"
)

// TestHeaderMarks checks what is behind a header once it was in the journal, and that a program that knows no marks
// reads the same fields.
func TestHeaderMarks(t *testing.T) {
	h := http.Header{"B": {"1", "2"}, "A": {""}, "Cookie": {"c"}}
	request := value.LazyMap(&content.RequestView{View: content.View{Header: h}, Path: "/a/b", RawPath: "/a%2Fb"}, 1, content.ViewDepth)
	payload := value.Map(value.Field{Name: "path", Value: value.String("/a/b")}, value.Field{Name: "header", Value: request})
	cookie := paths([]string{"header.Cookie"})
	for name, c := range map[string]struct {
		payload value.Value
		raw     string
		fields  string
	}{
		"whole":            {payload, "/a%2Fb", `{"A":[""],"B":["1","2"],"Cookie":["c"]}`},
		"stripped":         {without(payload, cookie), "/a%2Fb", `{"A":[""],"B":["1","2"]}`},
		"put back":         {put(without(payload, cookie), cookie[0], value.List(value.String("c"))), "/a%2Fb", `{"A":[""],"B":["1","2"],"Cookie":["c"]}`},
		"without its path": {without(payload, paths([]string{"path"})), "", `{"A":[""],"B":["1","2"],"Cookie":["c"]}`},
	} {
		got, err := decode(encode(c.payload))
		header, _ := got.Get("header")
		if _, _, raw := content.Sent(header); err != nil || raw != c.raw || header.String() != c.fields || !content.OfRequest(header) {
			t.Errorf("%s: got %s, %s, %v", name, raw, header, err)
		}
	}
	for _, empty := range []bool{true, false} {
		answer := value.LazyMap(&content.AnswerView{View: content.View{Header: h}, Empty: empty}, 1, content.ViewDepth)
		data := encode(answer)
		got, err := decode(data)
		if err != nil || content.IsEmpty(got, value.Null()) != empty || content.OfRequest(got) {
			t.Errorf("got %s, %v", got, err)
		}
		before := wire.Reader{Buf: data[1:]}
		if old, err := before.Whole(); err != nil || !old.Equal(answer) {
			t.Errorf("without marks: got %s, %v", old, err)
		}
	}
}
