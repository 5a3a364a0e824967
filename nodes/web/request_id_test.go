package web

import (
	"context"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// showField answers with a field of the request, or null.
func showField(name string) flow {
	return func(_ context.Context, payload value.Value) node.Response {
		v, _ := payload.Get(name)
		return reply(value.List(v))
	}
}

func TestRequestID(t *testing.T) {
	s := start(t, "", showField("id"))
	f := func(id, wantBody, wantHeader string) {
		t.Helper()
		s.do("GET", "/", "", "X-Request-Id: "+id).want(t, 200, wantBody, "X-Request-Id: "+wantHeader)
	}
	f("order-7/a.b_c:1", `["order-7/a.b_c:1"]`, "order-7/a.b_c:1")
	f(strings.Repeat("x", 128), `["`+strings.Repeat("x", 128)+`"]`, strings.Repeat("x", 128))
	f(strings.Repeat("x", 129), `[null]`, "")
	f("two words", `[null]`, "")
	f("caf\u00e9", `[null]`, "")
	s.do("GET", "/", "").want(t, 200, `[null]`, "X-Request-Id: ")
	s.do("GET", "/", "", "X-Request-Id: a", "X-Request-Id: b").want(t, 200, `[null]`, "X-Request-Id: ")
}

func TestRequestIDAlways(t *testing.T) {
	s := start(t, `"request_ids":"always"`, showField("id"))
	first, second := s.do("GET", "/", ""), s.do("GET", "/", "")
	id := first.header.Get("X-Request-Id")
	first.want(t, 200, `["`+id+`"]`)
	if len(id) != 36 || id == second.header.Get("X-Request-Id") {
		t.Errorf("got ids %q and %q, want two UUIDs", id, second.header.Get("X-Request-Id"))
	}
	s.do("GET", "/", "", "X-Request-Id: mine").want(t, 200, `["mine"]`, "X-Request-Id: mine")
}

// TestRequestIDOfErrors checks the id that a client can quote to people who search the log:
// its own, or else the id of the process.
func TestRequestIDOfErrors(t *testing.T) {
	s := start(t, "", failing(errTest))
	s.do("GET", "/", "").want(t, 500, "Internal Server Error", "X-Request-Id: "+processID)
	got := s.do("GET", "/", "", "X-Request-Id: r-9", "Accept: application/json")
	if !strings.Contains(got.body, `"request_id":"r-9"`) || got.header.Get("X-Request-Id") != "r-9" {
		t.Errorf("got %s with %q, want the id of the client", got.body, got.header.Get("X-Request-Id"))
	}
	s.do("POST", "/", "{", "Content-Type: application/json", "X-Request-Id: r-10").want(t, 400, s.do("POST", "/", "{", "Content-Type: application/json").body, "X-Request-Id: r-10")
}

// TestRequestIDOfWorkflow leaves the header of an answer as it is.
func TestRequestIDOfWorkflow(t *testing.T) {
	s := start(t, "", always(flowtest.Parse(t, `{"header":{"x-request-id":"theirs"}}`)))
	s.do("GET", "/", "", "X-Request-Id: mine").want(t, 200, "", "X-Request-Id: theirs")
}

// TestRequestKeys checks that a map is a request if it has a method, and a body otherwise.
func TestRequestKeys(t *testing.T) {
	s := start(t, "", always(flowtest.Parse(t, `{"id":7,"body":"a comment"}`)))
	s.do("GET", "/", "").want(t, 200, `{"id":7,"body":"a comment"}`)
	echo := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		return reply(payload.With("params", value.Map()).With("auth", flowtest.Parse(t, `{"subject":"ann"}`)))
	})
	echo.do("POST", "/", "tea", "Content-Type: text/plain", "X-Request-Id: r").want(t, 200, "tea", "Content-Type: text/plain")
}

func TestRaw(t *testing.T) {
	w := newWorld(t)
	w.raw = true
	s := startIn(t, w, "", &source{flow: func(_ context.Context, payload value.Value) node.Response {
		v, _ := payload.Get("raw")
		b, ok := v.AsBinary()
		if !ok {
			return reply(value.String("no bytes"))
		}
		return reply(value.Map(value.Field{Name: "body", Value: value.Binary(b)}))
	}})
	const body = "{ \"a\" : 1 }"
	s.do("POST", "/", body, "Content-Type: application/json").want(t, 200, body)
	zipped := compressed(t, "gzip", body)
	s.do("POST", "/", zipped, "Content-Type: application/json", "Content-Encoding: gzip").want(t, 200, zipped)
	s.do("GET", "/", "").want(t, 200, "")
	plain := start(t, "", showField("raw"))
	plain.do("POST", "/", body, "Content-Type: application/json").want(t, 200, `[null]`)
	s.do("POST", "/", strings.Repeat("x", 9<<20)).want(t, 413, "body of more than 8388608 bytes")
}
