package web

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// showRequest answers with the whole request, without the headers that clients add.
func showRequest(_ context.Context, payload value.Value) node.Response {
	header, _ := payload.Get("header")
	for _, name := range []string{"User-Agent", "Accept-Encoding", "Content-Length"} {
		header = header.Without(name)
	}
	return reply(value.List(payload.With("header", header).With("host", value.String("HOST"))))
}

func TestRequest(t *testing.T) {
	s := start(t, "", showRequest)
	f := func(method, path, body, want string, headers ...string) {
		t.Helper()
		s.do(method, path, body, headers...).want(t, 200, "["+want+"]")
	}
	f("GET", "/", "", `{"method":"GET","scheme":"http","host":"HOST","path":"/","query":{},"protocol":"HTTP/1.1","header":{},"remote":"127.0.0.1","body":null}`)
	f("PURGE", "/a%20b/%2F?x=1&y=&x=2&&z", "", `{"method":"PURGE","scheme":"http","host":"HOST","path":"/a b//","query":{"x":["1","2"],"y":[""],"z":[""]},"protocol":"HTTP/1.1","header":{},"remote":"127.0.0.1","body":null}`)
	f("GET", "/?a=%zz&%=1&b+c=d%20e;f", "", `{"method":"GET","scheme":"http","host":"HOST","path":"/","query":{"a":["%zz"],"%":["1"],"b c":["d e;f"]},"protocol":"HTTP/1.1","header":{},"remote":"127.0.0.1","body":null}`)
	f("POST", "/", `{"b":1,"a":[{},[],null]}`, `{"method":"POST","scheme":"http","host":"HOST","path":"/","query":{},"protocol":"HTTP/1.1","header":{"Content-Type":["application/json"],"X-B":["2","1"]},"remote":"127.0.0.1","body":{"b":1,"a":[{},[],null]}}`,
		"content-type: application/json", "x-b: 2", "X-B: 1")
}

func TestBody(t *testing.T) {
	s := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		body, _ := payload.Get("body")
		return reply(value.List(value.String(body.Kind().String()), body))
	})
	f := func(contentType, body string, status int, want string) {
		t.Helper()
		got := s.do("POST", "/", body, "Content-Type: "+contentType)
		if status != 200 {
			if got.status != status || !strings.Contains(got.body, want) {
				t.Errorf("%s %q: got %d %q, want %d %q", contentType, body, got.status, got.body, status, want)
			}
			return
		}
		got.want(t, status, want)
	}
	f("application/json", `[null]`, 200, `["list",[null]]`)
	f("application/json", `{"a":[{}]}`, 200, `["map",{"a":[{}]}]`)
	f("application/json; charset=utf-8", ` 9007199254740993 `, 200, `["integer",9007199254740993]`)
	f("application/JSON", `1`, 200, `["integer",1]`)
	f("application/ld+json", `{"a":1}`, 200, `["map",{"a":1}]`)
	f("application/json", "", 200, `["null",null]`)
	f("application/json", "\ufeff1", 200, `["integer",1]`)
	f("application/json; charset=utf-16le", "1\x00", 200, `["integer",1]`)
	f("application/json", `{`, 400, "JSON, line 1")
	f("application/json", `{"a":1}x`, 400, "JSON, line 1")
	f("application/json", "\xff\xfe", 400, "not valid UTF-8")
	f("application/json", strings.Repeat("[", 100000), 400, "JSON, line 1")
	f("text/plain", "grüße", 200, `["string","grüße"]`)
	f("text/html; charset=ISO-8859-1", "gr\xfc\xdfe", 200, `["string","grüße"]`)
	f("text/plain; charset=shift_jis", "\x93\xfa\x96\x7b", 200, `["string","日本"]`)
	f("text/plain", "", 200, `["string",""]`)
	f("text/plain", "\xff", 400, "not valid UTF-8")
	f("text/plain; charset=klingon", "x", 415, "unknown charset")
	f("application/x-www-form-urlencoded", "a=1&b=x+y%21&a=2&c", 200, `["map",{"a":["1","2"],"b":["x y!"],"c":[""]}]`)
	f("application/x-www-form-urlencoded", "", 200, `["map",{}]`)
	f("application/x-www-form-urlencoded", "a=%zz", 400, "form")
	f("application/x-www-form-urlencoded", "%ff=1", 400, "form")
	f("application/octet-stream", "\x00\xff", 200, `["binary","AP8="]`)
	f("image/png", "x", 200, `["binary","eA=="]`)
	f("no type at all;;;", "x", 200, `["binary","eA=="]`)
	f("", "x", 200, `["binary","eA=="]`)
	f("", "", 200, `["null",null]`)
	f("multipart/form-data", "x", 400, "boundary")
	f("multipart/form-data; boundary=b", "", 400, "multipart")
	f("multipart/form-data; boundary=b", "--b\r\n\r\nx\r\n--b--\r\n", 400, "no name")
	f("multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx", 400, "multipart")
	f("multipart/form-data; boundary=b", strings.Repeat("--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n", 1001)+"--b--", 413, "more than 1000 parts")
}

func TestMultipart(t *testing.T) {
	s := start(t, "", echoBody)
	body := strings.ReplaceAll(`--b
Content-Disposition: form-data; name="a"

1
--b
Content-Disposition: form-data; name="f"; filename="x.json"
Content-Type: application/json

{"k":[1]}
--b
Content-Disposition: form-data; name="f"; filename="x.txt"
Content-Type: text/plain; charset=latin1

`+"\xe9"+`
--b
Content-Disposition: form-data; name="g"; filename=""

--b
Content-Disposition: form-data; name="a"
Content-Type: application/json

null
--b--
`, "\n", "\r\n")
	body = strings.Replace(body, "filename=\"\"\r\n\r\n--b", "filename=\"\"\r\n\r\n\r\n--b", 1)
	s.do("POST", "/", body, "Content-Type: multipart/form-data; boundary=b").want(t, 200,
		`{"values":{"a":["1",null]},"files":{"f":[`+
			`{"filename":"x.json","header":{"Content-Disposition":["form-data; name=\"f\"; filename=\"x.json\""],"Content-Type":["application/json"]},"size":9,"data":{"k":[1]}},`+
			`{"filename":"x.txt","header":{"Content-Disposition":["form-data; name=\"f\"; filename=\"x.txt\""],"Content-Type":["text/plain; charset=latin1"]},"size":1,"data":"é"}],`+
			`"g":[{"filename":"","header":{"Content-Disposition":["form-data; name=\"g\"; filename=\"\""]},"size":0,"data":""}]}}`)
}

func compressed(t testing.TB, coding, text string) string {
	t.Helper()
	var buf bytes.Buffer
	var w io.WriteCloser
	switch coding {
	case "gzip":
		w = gzip.NewWriter(&buf)
	case "deflate":
		w = zlib.NewWriter(&buf)
	case "raw":
		w, _ = flate.NewWriter(&buf, 6) // the level is valid
	case "br":
		w = brotli.NewWriter(&buf)
	case "zstd":
		w, _ = zstd.NewWriter(&buf, zstd.WithEncoderConcurrency(1)) // the options are valid
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatalf("compress: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatalf("compress: %v", err)
	}
	return buf.String()
}

func TestContentEncoding(t *testing.T) {
	s := start(t, `"limits":{"body_bytes":"1MiB"}`, echoBody)
	f := func(coding, body string, status int, want string) {
		t.Helper()
		got := s.do("POST", "/", body, "Content-Type: text/plain", "Content-Encoding: "+coding)
		if got.status != status || !strings.Contains(got.body, want) {
			t.Errorf("%s: got %d %.100q, want %d %.100q", coding, got.status, got.body, status, want)
		}
	}
	bomb := strings.Repeat("\x00", 64<<20)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		f(coding, compressed(t, coding, "hello"), 200, "hello")
		f(strings.ToUpper(coding), compressed(t, coding, "hello"), 200, "hello")
		f(coding, compressed(t, coding, bomb), 413, "body of more than 1048576 bytes")
		f(coding, compressed(t, coding, "hello")[:8], 400, "body: ")
		f(coding, "nonsense", 400, "body: ")
	}
	f("deflate", compressed(t, "raw", "hello"), 200, "hello")
	f("identity", "hello", 200, "hello")
	f("gzip, br", compressed(t, "br", compressed(t, "gzip", "hello")), 200, "hello")
	f("gzip, gzip", compressed(t, "gzip", compressed(t, "gzip", bomb)), 413, "body of more than")
	f("gzip, gzip, gzip, gzip", "x", 415, "unknown content encoding")
	f("snappy", "x", 415, `unknown content encoding "snappy"`)
	f("gzip", compressed(t, "gzip", strings.Repeat("x", 1<<20)), 200, "xxx")
	f("gzip", compressed(t, "gzip", strings.Repeat("x", 1<<20+1)), 413, "body of more")
}

func TestBodyLimit(t *testing.T) {
	s := start(t, `"limits":{"body_bytes":1000}`, echoBody)
	s.do("POST", "/", strings.Repeat("x", 1000), "Content-Type: text/plain").want(t, 200, strings.Repeat("x", 1000))
	s.do("POST", "/", strings.Repeat("x", 1001), "Content-Type: text/plain").want(t, 413, "body of more than 1000 bytes")
	req, err := http.NewRequest("POST", s.url, io.LimitReader(endless{}, 1001)) // without a Content-Length
	if err != nil {
		t.Fatal(err)
	}
	s.send(req).want(t, 413, "body of more than 1000 bytes")
}

type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestBodyOfTenMiB(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 10<<20/16)
	s := start(t, "", echoBody)
	got := s.do("POST", "/", text, "Content-Type: text/plain")
	got.want(t, 413, "body of more than 8388608 bytes")
	s.do("GET", "/", "").want(t, 200, "null") // the server goes on
	wide := start(t, `"limits":{"body_bytes":"16MiB"}`, echoBody)
	wide.do("POST", "/", text, "Content-Type: text/plain").want(t, 200, text)
	wide.do("POST", "/", `"`+text+`"`, "Content-Type: application/json").want(t, 200, text)
}

// TestPayloadOutlivesRequest keeps payloads and reads them later.
func TestPayloadOutlivesRequest(t *testing.T) {
	kept := make(chan value.Value, 2)
	s := start(t, "", func(_ context.Context, payload value.Value) node.Response {
		kept <- payload
		return reply(value.Null())
	})
	s.do("POST", "/?a=1", "one", "Content-Type: text/plain", "X-A: 1")
	s.do("POST", "/?a=2", "two", "Content-Type: text/plain", "X-A: 2")
	f := func(n, body string) {
		t.Helper()
		p := <-kept
		header, _ := p.Get("header")
		x, _ := header.Get("X-A")
		query, _ := p.Get("query")
		b, _ := p.Get("body")
		if got, want := x.String()+query.String()+b.String(), `["`+n+`"]{"a":["`+n+`"]}`+body; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	f("1", "one")
	f("2", "two")
}
