package web

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestAnswers checks the answers to all kinds of responses.
func TestAnswers(t *testing.T) {
	f := func(name string, response string, status int, body string, headers ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			start(t, "", always(flowtest.Parse(t, response))).do("GET", "/", "").want(t, status, body, headers...)
		})
	}
	const j, txt = "Content-Type: application/json", "Content-Type: text/plain; charset=utf-8"
	f("string", `"pong"`, 200, "pong", txt, "Content-Length: 4")
	f("empty string", `""`, 200, "", txt, "Content-Length: 0")
	f("null", `null`, 200, "null", j)
	f("number", `1.5`, 200, "1.5", j)
	f("boolean", `true`, 200, "true", j)
	f("list", `[null,{"a":[{}]}]`, 200, `[null,{"a":[{}]}]`, j)
	f("map", `{"message":"hi"}`, 200, `{"message":"hi"}`, j)
	f("empty map", `{}`, 200, `{}`, j)
	f("map with a status that is none", `{"status":"active"}`, 200, `{"status":"active"}`, j)
	f("map with a status and another key", `{"status":"404","path":"/"}`, 500, "Internal Server Error")
	f("map with a word for a status and a path", `{"status":"open","path":"/x"}`, 200, `{"status":"open","path":"/x"}`, j)
	f("map with a null status", `{"status":null}`, 200, `{"status":null}`, j)
	for _, status := range []string{"600", "700", "0", "-1", "99", "100", "101", "103", "199", "201.5", `"404"`} {
		f("status "+status, `{"status":`+status+`}`, 500, "Internal Server Error", txt)
		f("status with a body "+status, `{"status":`+status+`,"body":"x"}`, 500, "Internal Server Error", txt)
	}
	for _, status := range []string{`"active"`, "null", "true", "[]", "{}"} {
		f("status with a header "+status, `{"status":`+status+`,"header":{}}`, 500, "Internal Server Error", txt)
	}
	f("map with a foreign key", `{"status":201,"body":1,"id":2}`, 200, `{"status":201,"body":1,"id":2}`, j)
	f("map with request keys only", `{"method":"GET","path":"/"}`, 200, `{"method":"GET","path":"/"}`, j)
	f("envelope", `{"status":201,"header":{"X-A":"1"},"body":{"id":1}}`, 201, `{"id":1}`, j, "X-A: 1")
	f("envelope of a status", `{"status":202}`, 202, "", "Content-Type: ")
	f("envelope of an integral float", `{"status":202.0,"body":"x"}`, 202, "x", txt)
	f("envelope of a null body", `{"body":null}`, 200, "null", j)
	f("envelope of a header", `{"header":{"location":"/x"},"status":302}`, 302, "", "Location: /x")
	f("no content", `{"status":204,"body":"x"}`, 204, "")
	f("not modified", `{"status":304,"header":{"etag":"\"1\""},"body":"x"}`, 304, "", `Etag: "1"`)
	f("reset content", `{"status":205,"body":"x"}`, 205, "", "Content-Length: 0")
	f("params with a body", `{"params":{},"body":"x"}`, 200, "x")
	f("cookies", `{"header":{"set-cookie":["a=1","b=2"]},"body":""}`, 200, "", "Set-Cookie: a=1 | b=2")
	f("two spellings", `{"header":{"x-a":"1","X-A":["2",null]},"body":""}`, 200, "", "X-A: 1 | 2")
	f("cors", `{"header":{"access-control-allow-origin":"*"},"body":"x"}`, 200, "x", "Access-Control-Allow-Origin: *")
	f("numbers in headers", `{"header":{"X-N":1,"X-F":1.5,"X-B":true,"X-0":null},"body":""}`, 200, "", "X-N: 1", "X-F: 1.5", "X-B: true", "X-0: ")
	f("server's own headers", `{"header":{"content-length":"1","connection":"close","transfer-encoding":"chunked","upgrade":"x"},"body":"abc"}`, 200, "abc", "Content-Length: 3", "Connection: ", "Upgrade: ")
	f("explicit type", `{"header":{"content-type":"text/html"},"body":"<p>"}`, 200, "<p>", "Content-Type: text/html")
	f("explicit JSON", `{"header":{"content-type":"application/vnd.x+json"},"body":"a"}`, 200, `"a"`, "Content-Type: application/vnd.x+json")
	f("explicit text of a map", `{"header":{"content-type":"text/plain"},"body":{"a":1}}`, 200, `{"a":1}`, "Content-Type: text/plain")
	f("explicit text of null", `{"header":{"content-type":"text/plain"},"body":null}`, 200, "")
	f("explicit charset", `{"header":{"content-type":"text/plain; charset=iso-8859-1"},"body":"é"}`, 200, "\xe9")
	f("explicit form", `{"header":{"content-type":"application/x-www-form-urlencoded"},"body":{"a":["1","b c"],"d":true}}`, 200, "a=1&a=b+c&d=true")
	f("header is not a map", `{"header":"x","body":""}`, 500, "Internal Server Error")
	f("header name", `{"header":{"a b":"x"},"body":""}`, 500, "Internal Server Error")
	f("header name empty", `{"header":{"":"x"},"body":""}`, 500, "Internal Server Error")
	f("header split", `{"header":{"x":"a\r\nb: c"},"body":""}`, 500, "Internal Server Error", "X: ")
	f("header is a map", `{"header":{"x":{}},"body":""}`, 500, "Internal Server Error")
	f("header lists nest", `{"header":{"x":[["a"]]},"body":""}`, 500, "Internal Server Error")
}

func TestAnswerNotJSON(t *testing.T) {
	s := start(t, "", always(value.Float(math.NaN())))
	s.do("GET", "/", "").want(t, 500, "Internal Server Error", "Content-Type: text/plain; charset=utf-8")
	if got := s.logs.String(); !strings.Contains(got, processID) {
		t.Errorf("log: got %s, want the process id", got)
	}
}

func TestAnswerNone(t *testing.T) {
	s := start(t, "", func(context.Context, value.Value) node.Response { return node.Response{None: true} })
	s.do("GET", "/", "").want(t, 200, "", "Content-Length: 0", "Content-Type: ")
}

func TestAnswerBinary(t *testing.T) {
	s := start(t, "", always(value.Binary([]byte{0, 1, 255})))
	s.do("GET", "/", "", "Accept: application/json").want(t, 200, "\x00\x01\xff", "Content-Type: application/octet-stream")
}

func TestHead(t *testing.T) {
	s := start(t, "", always(value.String("pong")))
	s.do("HEAD", "/", "").want(t, 200, "", "Content-Length: 4", "Content-Type: text/plain; charset=utf-8")
	big := start(t, "", always(value.String(strings.Repeat("x", 1<<20))))
	big.do("HEAD", "/", "").want(t, 200, "", "Content-Length: 1048576")
}

func TestAccept(t *testing.T) {
	s := start(t, "", always(value.String("pong")))
	f := func(accept, body, contentType string) {
		t.Helper()
		s.do("GET", "/", "", "Accept: "+accept).want(t, 200, body, "Content-Type: "+contentType)
	}
	const txt = "text/plain; charset=utf-8"
	f("*/*", "pong", txt)
	f("application/json", `"pong"`, "application/json")
	f("application/json; charset=utf-8", `"pong"`, "application/json")
	f("application/*;q=0.9, text/*;q=0.8", `"pong"`, "application/json")
	f("application/json;q=0.5, text/plain", "pong", txt)
	f("text/html, application/xhtml+xml, */*;q=0.8", "pong", txt)
	f("text/plain;q=0, */*", `"pong"`, "application/json")
	f("image/png", "pong", txt)
	f("APPLICATION/JSON;Q=1", `"pong"`, "application/json")
	f("application/json;q=nonsense, text/plain;q=0.9", "pong", txt)
	f(";;;,,/", "pong", txt)
}

func TestEcho(t *testing.T) {
	s := start(t, "", func(_ context.Context, payload value.Value) node.Response { return reply(payload) })
	s.do("GET", "/a?b=c", "", "X-Secret: 1").want(t, 200, "", "Content-Type: ", "X-Secret: ", "User-Agent: ")
	s.do("POST", "/", `{"b": 1,  "a": 2}`, "Content-Type: application/json; x=y", "Cookie: a=b").want(t, 200, `{"b": 1,  "a": 2}`, "Content-Type: application/json; x=y", "Cookie: ")
	s.do("POST", "/", "a=1&b", "Content-Type: application/x-www-form-urlencoded").want(t, 200, "a=1&b", "Content-Type: application/x-www-form-urlencoded")
	s.do("POST", "/", "\xe9", "Content-Type: text/plain; charset=latin1").want(t, 200, "\xe9", "Content-Type: text/plain; charset=latin1")

	params := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		return reply(payload.With("params", value.Map()))
	})
	params.do("POST", "/", "hi", "Content-Type: text/html").want(t, 200, "hi", "Content-Type: text/html")

	changed := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		return reply(payload.With("body", value.Int(1)).With("status", value.Int(201)))
	})
	changed.do("POST", "/", "hi", "Content-Type: text/html", "X-Secret: 1").want(t, 201, "1", "Content-Type: application/json", "X-Secret: ")
}

func TestErrors(t *testing.T) {
	f := func(name string, err error, accept string, status int, body string, headers ...string) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			t.Helper()
			s := start(t, "", failing(err))
			s.do("GET", "/", "", "Accept: "+accept).want(t, status, body, headers...)
			if got := s.logs.String(); !strings.Contains(got, err.Error()) || !strings.Contains(got, processID) {
				t.Errorf("log: got %s, want the message and the process id", got)
			}
		})
	}
	const txt, problem = "Content-Type: text/plain; charset=utf-8", "Content-Type: application/problem+json"
	instance := `,"instance":"urn:uuid:` + processID + `","request_id":"` + processID + `"}`
	f("plain", errTest, "*/*", 500, "Internal Server Error", txt)
	f("json", errTest, "application/json", 500, `{"type":"about:blank","title":"Internal Server Error","status":500`+instance, problem)
	f("problem", errTest, "application/problem+json", 500, `{"type":"about:blank","title":"Internal Server Error","status":500`+instance, problem)
	f("status", &node.Error{Err: errTest, Status: 429, RetryAfter: 1500 * time.Millisecond}, "*/*", 429, "Too Many Requests", txt, "Retry-After: 2")
	f("challenge", &node.Error{Err: errTest, Status: 401, Challenges: []string{`Bearer realm="till"`}}, "*/*", 401, "Unauthorized", txt, `WWW-Authenticate: Bearer realm="till"`)
	f("unusual status", &node.Error{Err: errTest, Status: 599}, "*/*", 599, "Status 599", txt)
	f("status that is none", &node.Error{Err: errTest, Status: 200}, "*/*", 500, "Internal Server Error", txt)
	f("public", &node.Error{Err: errTest, Status: 403, Public: true}, "text/plain", 403, "the till is on fire", txt)
	f("public problem", &node.Error{Err: errTest, Status: 403, Public: true}, "application/json", 403, `{"type":"about:blank","title":"Forbidden","status":403,"detail":"the till is on fire"`+instance, problem)
	details := flowtest.Parse(t, `{"type":"https://shop.example/no-tea","errors":[{"path":"/tea","message":"must not be empty"}],"status":7,"instance":"x"}`)
	f("data of a public problem", &node.Error{Err: errTest, Status: 422, Public: true, Data: details}, "application/json", 422,
		`{"type":"https://shop.example/no-tea","title":"Unprocessable Entity","status":422,"detail":"the till is on fire"`+
			strings.TrimSuffix(instance, "}")+`,"errors":[{"path":"/tea","message":"must not be empty"}]}`, problem)
	f("data of another problem", &node.Error{Err: errTest, Status: 422, Data: details}, "application/json", 422, `{"type":"about:blank","title":"Unprocessable Entity","status":422`+instance, problem)
	f("data that JSON does not have", &node.Error{Err: errTest, Status: 422, Public: true, Data: value.Map(value.Field{Name: "n", Value: value.Float(math.Inf(1))})}, "application/json", 422,
		`{"type":"about:blank","title":"Unprocessable Entity","status":422`+instance, problem)
	f("wrapped", fmt.Errorf("outer: %w", &node.Error{Err: errTest, Status: 404}), "*/*", 404, "Not Found", txt)
}

func TestErrorPort(t *testing.T) {
	s := startSource(t, "", &source{
		flow: failing(errTest),
		onError: func(_ context.Context, payload value.Value) node.Response {
			return reply(value.Map(
				value.Field{Name: "status", Value: value.Int(418)},
				value.Field{Name: "body", Value: value.String(node.Message(payload.AsError()))},
			))
		},
	})
	s.do("GET", "/", "").want(t, 418, "the till is on fire")
	s.do("POST", "/", "{", "Content-Type: application/json").want(t, 418, "body: JSON, line 1, column 2: unexpected end, want a name in quotes")
}

func TestCompression(t *testing.T) {
	text := strings.Repeat("all work and no play ", 100)
	s := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		switch path, _ := payload.Get("path"); path.String() {
		case "/small":
			return reply(value.String(text[:1023]))
		case "/binary":
			return reply(value.Binary([]byte(text)))
		case "/coded":
			return reply(value.Map(value.Field{Name: "header", Value: value.Map(value.Field{Name: "content-encoding", Value: value.String("x")})},
				value.Field{Name: "body", Value: value.String(text)}))
		case "/etag":
			return reply(value.Map(value.Field{Name: "header", Value: value.Map(value.Field{Name: "etag", Value: value.String(`"1"`)})},
				value.Field{Name: "body", Value: value.String(text)}))
		}
		return reply(value.String(text))
	})
	f := func(path, accept, coding string) {
		t.Helper()
		got := s.do("GET", path, "", "Accept-Encoding: "+accept)
		if c := got.header.Get("Content-Encoding"); c != coding {
			t.Errorf("%s with %q: got coding %q, want %q", path, accept, c, coding)
		}
		plain := got.body
		switch coding {
		case "gzip":
			plain = inflated(t, func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) }, got.body)
		case "deflate":
			plain = inflated(t, func(r io.Reader) (io.Reader, error) { return zlib.NewReader(r) }, got.body)
		case "br":
			plain = inflated(t, func(r io.Reader) (io.Reader, error) { return brotli.NewReader(r), nil }, got.body)
		case "zstd":
			plain = inflated(t, func(r io.Reader) (io.Reader, error) { return zstd.NewReader(r, zstd.WithDecoderConcurrency(1)) }, got.body)
		}
		if !strings.HasPrefix(text, plain) || len(plain) < 1023 {
			t.Errorf("%s with %q: got %.50q, want %.50q", path, accept, plain, text)
		}
	}
	for range 3 { // the second time with a pooled compressor
		f("/", "gzip", "gzip")
		f("/", "deflate", "deflate")
		f("/", "br", "br")
		f("/", "zstd", "zstd")
	}
	f("/", "gzip, deflate, br, zstd", "zstd")
	f("/", "gzip;q=1, br;q=0.5", "gzip")
	f("/", "*", "zstd")
	f("/", "*;q=0", "")
	f("/", "identity", "")
	f("/", "identity, gzip;q=0.5", "")
	f("/", "gzip;q=0", "")
	f("/", "snappy", "")
	f("/", "", "")
	f("/small", "gzip", "")
	f("/binary", "gzip", "")
	f("/coded", "gzip", "x")
	s.do("GET", "/etag", "", "Accept-Encoding: identity").want(t, 200, text, `Etag: "1"`, "Vary: Accept | Accept-Encoding")
	if got := s.do("GET", "/etag", "", "Accept-Encoding: gzip").header.Get("Etag"); got != `W/"1"` {
		t.Errorf("etag of a compressed answer: got %s, want a weak one", got)
	}
}

func inflated(t *testing.T, open func(io.Reader) (io.Reader, error), body string) string {
	t.Helper()
	r, err := open(strings.NewReader(body))
	if err != nil {
		t.Fatalf("decompression: %v", err)
	}
	var out bytes.Buffer
	if _, err := io.Copy(&out, r); err != nil {
		t.Fatalf("decompression: %v", err)
	}
	return out.String()
}

func TestBigAnswer(t *testing.T) {
	text := strings.Repeat("x", 10<<20)
	s := start(t, "", always(value.String(text)))
	s.do("GET", "/", "").want(t, 200, text)
	s.do("GET", "/", "").want(t, 200, text) // on the same connection
}
