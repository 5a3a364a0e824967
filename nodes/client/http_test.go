package client

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

// makeClient makes a node of kind http; config is JSON.
func makeClient(t testing.TB, pool *node.Pool, config string) (*httpNode, error) {
	t.Helper()
	def := httpDef(stream.Options{Languages: builtin.Languages(), Language: "cel"})
	c, found := def.Config.Decode(schema.RawOf(flowtest.Parse(t, config)))
	if err := found.Err(); err != nil {
		t.Fatalf("config %s: %v", config, err)
	}
	n, err := def.New(&node.Init{
		Config:   c,
		Node:     node.Ref{ID: "id", Kind: "http", Namespace: "default", Name: "service", Pos: diag.Pos{File: "test.yaml", Line: 1}},
		InLinks:  []int{1},
		OutLinks: []int{1},
		Log:      slog.New(slog.DiscardHandler),
		Pool:     pool,
		Clock:    node.SystemClock{},
	})
	if err != nil {
		return nil, err
	}
	return n.(*httpNode), nil
}

// newService makes a node and opens it, until the end of the test.
func newService(t testing.TB, config string) *httpNode {
	t.Helper()
	n, err := makeClient(t, new(node.Pool), config)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if err := n.Open(context.Background()); err != nil {
		t.Fatalf("Open: %v", err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return n
}

// runClient sends a payload, and returns what the node sends on or the error that it
// fails with.
func runClient(ctx context.Context, n *httpNode, payload value.Value) value.Value {
	r := n.Receive(process{}, node.Packet{Payload: payload})
	for {
		switch e := r.Effect(); e.Op {
		case effect.Block:
			r = e.More.Block(ctx)
		case effect.Send, effect.Fail:
			return e.Payload
		default:
			panic("unexpected operation of a client")
		}
	}
}

// bin starts the service of package httpbin.
func bin(t testing.TB) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(httpbin.Handler())
	t.Cleanup(s.Close)
	return s
}

func get(v value.Value, path ...string) value.Value {
	for _, name := range path {
		v, _ = v.Get(name)
	}
	return v
}

// ask makes one call with a node of this config, and returns its answer.
func ask(t *testing.T, config string, payload value.Value) value.Value {
	t.Helper()
	v := runClient(t.Context(), newService(t, config), payload)
	if v.IsError() {
		t.Fatalf("got error %v", v.AsError())
	}
	return v
}

// TestHTTPRequests shows what is sent: the method and the target, some headers, and
// the body.
func TestHTTPRequests(t *testing.T) {
	s := bin(t)
	f := func(config, payload, want string, headers ...string) {
		t.Helper()
		echo := get(ask(t, `{"url":"`+s.URL+`/echo`+config+`}`, flowtest.Parse(t, payload)), "body")
		if got := get(echo, "method").String() + " " + get(echo, "target").String() + " " + get(echo, "body").String(); got != want {
			t.Errorf("%s %s: got %s, want %s", config, payload, got, want)
		}
		for _, h := range headers {
			name, want, _ := strings.Cut(h, ": ")
			var list []string
			for _, e := range get(echo, "header", name).Elems() {
				list = append(list, e.String())
			}
			if got := strings.Join(list, ", "); got != want {
				t.Errorf("%s %s: header %s: got %q, want %q", config, payload, name, got, want)
			}
		}
		if got, want := get(echo, "host").String(), strings.TrimPrefix(s.URL, "http://"); got != want && !strings.Contains(config, "Host") {
			t.Errorf("%s %s: got host %s, want %s", config, payload, got, want)
		}
	}
	// methods and bodies
	f(`"`, `null`, "GET /echo ", "User-Agent: uniflow", "Content-Type: ", "Accept-Encoding: gzip, deflate, br, zstd")
	f(`"`, `"hello"`, "POST /echo hello", "Content-Type: text/plain; charset=utf-8", "Content-Length: 5")
	f(`"`, `""`, "POST /echo ", "Content-Length: 0")
	f(`"`, `{"id":1}`, `POST /echo {"id":1}`, "Content-Type: application/json")
	f(`"`, `{}`, "POST /echo {}")
	f(`"`, `[1,true]`, "POST /echo [1,true]")
	f(`"`, `false`, "POST /echo false")
	f(`"`, `1.5`, "POST /echo 1.5")
	f(`"`, `{"body":null}`, "GET /echo ")
	f(`","method":"PUT"`, `5`, "PUT /echo 5")
	f(`","method":"put"`, `{"method":"delete"}`, "DELETE /echo ")
	f(`","method":"PUT"`, `{"method":null}`, "PUT /echo ")
	f(`"`, `{"method":"GET","body":{"a":1}}`, `GET /echo {"a":1}`)
	// what is an envelope
	f(`"`, `{"status":"active"}`, `POST /echo {"status":"active"}`)
	f(`"`, `{"status":200,"header":{},"body":"x"}`, "POST /echo x")
	f(`"`, `{"status":1000,"body":"x"}`, `POST /echo {"status":1000,"body":"x"}`)
	f(`"`, `{"host":"a"}`, `POST /echo {"host":"a"}`)
	f(`"`, `{"path":"/x","name":"tea"}`, `POST /echo {"path":"/x","name":"tea"}`)
	f(`"`, `{"method":"GET","scheme":"ftp","host":"evil.example","path":"/a","protocol":"HTTP/9","params":{"id":"1"}}`, "GET /echo/a ")
	// paths
	f(`"`, `{"path":""}`, "GET /echo ")
	f(`"`, `{"path":"/"}`, "GET /echo/ ")
	f(`"`, `{"path":"a/b/"}`, "GET /echo/a/b/ ")
	f(`/"`, `{"path":"/a"}`, "GET /echo/a ")
	f(`"`, `{"path":"//evil.example/a"}`, "GET /echo/evil.example/a ")
	f(`"`, `{"path":"/a b/%2F/ü?x#y"}`, "GET /echo/a%20b/%252F/%C3%BC%3Fx%23y ")
	f(`/a%2Fb"`, `{"path":"c d"}`, "GET /echo/a%2Fb/c%20d ")
	f(`"`, `{"path":"/..a/.b./..."}`, "GET /echo/..a/.b./... ")
	// queries
	f(`?a=1&b=%20"`, `null`, "GET /echo?a=1&b=%20 ")
	f(`?a=1"`, `{"query":{"a":"2","c":["x y","&="],"n":null,"l":[],"i":3}}`, "GET /echo?a=1&a=2&c=x+y&c=%26%3D&i=3 ")
	f(`"`, `{"query":{"ä":true}}`, "GET /echo?%C3%A4=true ")
	f(`?a=1"`, `{"query":null,"path":"/p"}`, "GET /echo/p?a=1 ")
	// headers
	f(`","header":{"X-A":"node","x-b":["1","2"],"User-Agent":"me"}`, `{"header":{"x-a":"payload","X-C":7}}`, "GET /echo ",
		"X-A: payload", "X-B: 1, 2", "X-C: 7", "User-Agent: me")
	f(`"`, `{"header":{"Host":"evil.example","Accept-Encoding":"rot13","Connection":"close","Content-Length":"9","Transfer-Encoding":"chunked","Expect":"100-continue"},"body":"x"}`,
		"POST /echo x", "Accept-Encoding: gzip, deflate, br, zstd", "Content-Length: 1", "Connection: ", "Expect: ")
	f(`","header":{"Host":"other.example","Accept-Encoding":"identity"}`, `null`, "GET /echo ", "Accept-Encoding: identity")
	// credentials
	f(`","auth":{"user":"ann","password":"s3cret"}`, `{"header":{"Authorization":"Bearer of-a-client"}}`, "GET /echo ", "Authorization: Basic YW5uOnMzY3JldA==")
	f(`","auth":{"token":"t0ken"}`, `null`, "GET /echo ", "Authorization: Bearer t0ken")
	f(`"`, `{"header":{"authorization":"Bearer own"}}`, "GET /echo ", "Authorization: Bearer own")
	// types
	f(`"`, `{"header":{"Content-Type":"application/x-www-form-urlencoded"},"body":{"a":["1","2"],"b":"x y"}}`, "POST /echo a=1&a=2&b=x+y")
	f(`","header":{"content-type":"application/vnd.a+json"}`, `"text"`, `POST /echo "text"`, "Content-Type: application/vnd.a+json")
	f(`"`, `{"header":{"Content-Type":"application/json; charset=iso-8859-1"},"body":"ü"}`, `POST /echo "ü"`, "Content-Type: application/json")
	f(`"`, `{"header":{"Content-Type":"text/plain","Content-Encoding":"gzip"},"body":"x"}`, `POST /echo x`, "Content-Encoding: ")
	f(`"`, `{"header":{"Content-Type":"text/csv"},"body":"a,b"}`, `POST /echo a,b`, "Content-Type: text/csv")
}

func TestHTTPMultipart(t *testing.T) {
	s := bin(t)
	const body = `{"values":{"a":["1","2"],"n":3},"files":{"f":{"filename":"ü.txt","header":{"Content-Type":"text/plain"},"data":"hi"}}}`
	echo := get(ask(t, `{"url":"`+s.URL+`/echo","header":{"Content-Type":"multipart/form-data; boundary=old"}}`, value.Map(value.Field{Name: "body", Value: flowtest.Parse(t, body)})), "body")
	sent := get(echo, "header", "Content-Type").At(0).String()
	v, _, err := content.Decode(sent, []byte(get(echo, "body").String()), unlimited)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := get(v, "values").String(), `{"a":["1","2"],"n":["3"]}`; got != want {
		t.Errorf("got values %s, want %s", got, want)
	}
	file := get(v, "files", "f").At(0)
	if get(file, "filename").String() != "ü.txt" || get(file, "data").String() != "hi" {
		t.Errorf("got file %s", file)
	}
}

// TestHTTPAnswers shows what comes of answers.
func TestHTTPAnswers(t *testing.T) {
	s := bin(t)
	f := func(path string, status int, body value.Value) {
		t.Helper()
		got := ask(t, `{"url":"`+s.URL+path+`"}`, value.Null())
		if n, _ := get(got, "status").AsInt(); int(n) != status {
			t.Errorf("%s: got status %d, want %d", path, n, status)
		}
		if b := get(got, "body"); !b.Equal(body) {
			t.Errorf("%s: got body %s, want %s", path, b, body)
		}
		if p := get(got, "protocol").String(); p != "HTTP/1.1" {
			t.Errorf("%s: got protocol %s", path, p)
		}
		if enc := get(got, "header", "Content-Encoding"); !enc.IsNull() {
			t.Errorf("%s: got Content-Encoding %s", path, enc)
		}
	}
	orders := flowtest.Parse(t, httpbin.Orders)
	f("/json", 200, orders)
	f("/text", 200, value.String("café"))
	f("/octets", 200, value.Binary([]byte{0, 255}))
	f("/form", 200, flowtest.Parse(t, `{"a":["1","2"],"b":["x y"]}`))
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		f("/"+coding, 200, orders)
	}
	f("/status/404", 404, value.String("Not Found"))
	f("/status/500", 500, value.String("Internal Server Error"))
	f("/status/204", 204, value.Null())
	f("/status/304", 304, value.Null())
	f("/redirect/10", 200, get(ask(t, `{"url":"`+s.URL+`/echo"}`, value.Null()), "body"))

	head := ask(t, `{"url":"`+s.URL+`/json","method":"HEAD"}`, value.Null())
	if got := get(head, "header", "Content-Length").At(0).String(); !get(head, "body").IsNull() || got != strconv.Itoa(len(httpbin.Orders)) {
		t.Errorf("HEAD: got %s, length %s", get(head, "body"), got)
	}
}

// failed makes a call that must fail with this code, and returns the error.
func failed(t *testing.T, config string, payload value.Value, code string) *node.Error {
	t.Helper()
	n := newService(t, config)
	v := runClient(t.Context(), n, payload)
	e := new(node.Error)
	if !errors.As(v.AsError(), &e) || e.Code != code {
		t.Fatalf("%s %s: got %s with code %q, want code %q", config, node.Clip(payload.String(), 100), node.Clip(v.String(), 300), e.Code, code)
	}
	if n.held.Held() != 0 || n.metrics.inFlight.Load() != 0 {
		t.Errorf("%s: %d bytes are still reserved, %d calls in flight", config, n.held.Held(), n.metrics.inFlight.Load())
	}
	return e
}

func TestHTTPFailures(t *testing.T) {
	s := bin(t)
	f := func(path, more, code string, status int, answered int64, message string) {
		t.Helper()
		e := failed(t, `{"url":"`+s.URL+path+`"`+more+`}`, value.Null(), code)
		if e.Status != status {
			t.Errorf("%s: got status %d, want %d", path, e.Status, status)
		}
		if got, _ := get(e.Data, "status").AsInt(); got != answered {
			t.Errorf("%s: got data.status %d, want %d", path, got, answered)
		}
		if want := s.URL + path + ": " + message; node.Message(e) != want {
			t.Errorf("%s: got %q, want %q", path, node.Message(e), want)
		}
	}
	f("/slow-header", `,"timeout":"20ms"`, httpclient.CodeTimeout, 504, 0, "no complete answer within 20ms")
	f("/slow-header", `,"limits":{"header_timeout":"20ms"}`, httpclient.CodeTimeout, 504, 0, "no header of an answer within 20ms")
	f("/slow-body", `,"timeout":"50ms"`, httpclient.CodeTimeout, 504, 200, "no complete answer within 50ms")
	const cut = "the connection was closed before the answer was complete"
	f("/broken-chunk", "", httpclient.CodeAnswer, 502, 200, "invalid byte in chunk length")
	f("/early-close", "", httpclient.CodeAnswer, 502, 200, cut)
	f("/no-answer", "", httpclient.CodeAnswer, 502, 0, cut)
	f("/garbage", "", httpclient.CodeAnswer, 502, 0, `net/http: HTTP/1.x transport connection broken: malformed HTTP status code "mail.example.com"`)
	f("/long-header", "", httpclient.CodeAnswer, 502, 0, "net/http: HTTP/1.x transport connection broken: net/http: server response headers exceeded 65536 bytes; aborted")
	f("/no-status", "", httpclient.CodeAnswer, 502, 0, "the service answered with the status 000, which is not one of HTTP")
	f("/switch", "", httpclient.CodeAnswer, 502, 101, "the service answered 101 Switching Protocols, for which nothing has asked")
	const large = "answer: body of more than 1048576 bytes"
	const limit = `,"limits":{"body_bytes":"1MiB"}`
	f("/huge", limit, httpclient.CodeTooLarge, 502, 200, large)
	f("/huge-chunked", limit, httpclient.CodeTooLarge, 502, 200, large)
	for _, coding := range []string{"gzip", "deflate", "br", "zstd"} {
		f("/bomb/"+coding, limit, httpclient.CodeTooLarge, 502, 200, large)
	}
	f("/empty-members", limit, httpclient.CodeTooLarge, 502, 200, "answer: the compressed body is too large")
	f("/unknown-coding", "", codeBody, 502, 200, `answer: unknown content encoding "rot13"`)
	f("/bad-json", "", codeBody, 502, 200, "answer: body: JSON, line 1, column 8: unexpected end, want a value")
	f("/html-as-json", "", codeBody, 502, 200, "answer: body: JSON, line 1, column 1: unexpected '<', want a value")
	f("/redirect/11", "", httpclient.CodeRedirect, 502, 0, "more than 10 redirects")
	f("/loop", "", httpclient.CodeRedirect, 502, 0, "more than 10 redirects")

	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	e := failed(t, `{"url":"`+closed.URL+`/a"}`, value.Null(), httpclient.CodeConnect)
	if e.Status != 502 || !strings.HasSuffix(node.Message(e), "connection refused") {
		t.Errorf("got %d %v", e.Status, e)
	}
	e = failed(t, `{"url":"http://name.invalid/"}`, value.Null(), httpclient.CodeConnect)
	if !strings.Contains(node.Message(e), "name.invalid") {
		t.Errorf("got %v", e)
	}
}

// TestHTTPBadPayloads shows payloads that cannot be sent. Nothing is sent of them.
func TestHTTPBadPayloads(t *testing.T) {
	f := func(payload, want string) {
		t.Helper()
		e := failed(t, `{"url":"http://127.0.0.1:1/a"}`, flowtest.Parse(t, payload), codeRequest)
		if got := strings.TrimPrefix(node.Message(e), "http://127.0.0.1:1/a: "); got != want {
			t.Errorf("%s: got %q, want %q", payload, got, want)
		}
	}
	f(`{"method":5}`, "method: want a string, got integer")
	f(`{"method":"G E T"}`, `"G E T" is not a method that can be sent`)
	f(`{"method":"connect"}`, `"connect" is not a method that can be sent`)
	f(`{"method":""}`, `"" is not a method that can be sent`)
	f(`{"path":["a"]}`, "path: want a string, got list")
	f(`{"path":"a/../../b"}`, errDotSegment.Error())
	f(`{"path":"."}`, errDotSegment.Error())
	f(`{"path":"a\\..\\b"}`, errDotSegment.Error())
	f(`{"path":"a/..;x=1/b"}`, errDotSegment.Error())
	f(`{"query":"a=1"}`, "query: want a map, got string")
	f(`{"query":{"a":{"b":1}}}`, `query "a" is a map: want a string or a list of strings`)
	f(`{"query":{"a":[["b"]]}}`, `query "a" is a list: want a string or a list of strings`)
	f(`{"header":"a"}`, "header is a string: want a map")
	f(`{"header":{"a b":"c"}}`, `"a b" is not a valid header name`)
	f(`{"header":{"a":"b\r\nc: d"}}`, `header "a" has control characters`)
	f(`{"header":{"a":{"b":"c"}}}`, `header "a" is a map: want a string or a list of strings`)
	f(`{"header":{"Content-Type":"multipart/form-data"},"body":{"a":1}}`, `multipart body has the key "a": want values and files`)
	f(`{"header":{"Content-Type":"multipart/form-data"},"body":{"values":1}}`, `multipart body: values: want a map, got integer`)
	f(`{"header":{"Content-Type":"multipart/form-data"},"body":{"files":{"f":"x"}}}`, `multipart body: "f": want a map of filename and data, got string`)
	f(`{"header":{"Content-Type":"application/x-www-form-urlencoded"},"body":{"a":{}}}`, `form field "a" is a map: want a string or a list of strings`)
	e := failed(t, `{"url":"http://127.0.0.1:1/a"}`, value.List(value.Float(math.NaN())), codeRequest)
	if e.Status != 0 || !strings.Contains(node.Message(e), "body: ") {
		t.Errorf("got %v", e)
	}
}

// TestHTTPBigPayloads sends a million elements, and a value that nests deeply.
func TestHTTPBigPayloads(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(body)
	}))
	defer s.Close()
	elems := make([]value.Value, 1_000_000)
	for i := range elems {
		elems[i] = value.Int(int64(i % 10))
	}
	deep := value.Null()
	for range 500 {
		deep = value.List(deep)
	}
	for _, v := range []value.Value{value.List(elems...), deep} {
		if got := get(ask(t, `{"url":"`+s.URL+`"}`, v), "body"); !got.Equal(v) {
			t.Errorf("got %s", node.Clip(got.String(), 100))
		}
	}
	deep = value.List(value.List(deep))
	for range 100 {
		deep = value.List(deep)
	}
	failed(t, `{"url":"`+s.URL+`"}`, deep, codeBody) // the answer nests too deep for JSON
}

// TestHTTPMemory makes an answer whose value takes more than all answers may.
func TestHTTPMemory(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, "["+strings.Repeat("0,", 100_000)+"0]")
	}))
	defer s.Close()
	n := newService(t, `{"url":"`+s.URL+`"}`)
	n.heldBytes = 1 << 20
	var e *node.Error
	if v := runClient(t.Context(), n, value.Null()); !errors.As(v.AsError(), &e) || e.Code != codeBusy || e.Status != 503 || e.RetryAfter == 0 {
		t.Errorf("got %s", node.Clip(v.String(), 200))
	}
	if n.held.Held() != 0 {
		t.Errorf("%d bytes are still reserved", n.held.Held())
	}
}

func TestHTTPConfig(t *testing.T) {
	f := func(config, want string) {
		t.Helper()
		_, err := makeClient(t, new(node.Pool), config)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", config, err, want)
		}
		for _, secret := range []string{"hunter2", "s3cret"} {
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error has a secret: %v", config, err)
			}
		}
	}
	f(`{"url":"localhost:80"}`, "want a URL of http or https")
	f(`{"url":"http://[::1"}`, "not a URL")
	f(`{"url":"http://a:hunter2/"}`, "not a URL")
	f(`{"url":"https:///path"}`, "the URL has no host")
	f(`{"url":"https://ann:hunter2@a"}`, "must not contain credentials")
	f(`{"url":"https://a#b"}`, "has no fragment")
	f(`{"url":"https://a","method":"G T"}`, "not a method")
	f(`{"url":"https://a","method":"CONNECT"}`, "not a method")
	f(`{"url":"https://a","header":"hunter2"}`, "must be a map of text")
	f(`{"url":"https://a","header":{"a":"hunter2\n"}}`, "must be a map of text")
	f(`{"url":"https://a","auth":{}}`, "neither a user nor a token")
	f(`{"url":"https://a","auth":{"password":"hunter2"}}`, "neither a user nor a token")
	f(`{"url":"https://a","auth":{"user":"a:b"}}`, "cannot contain a colon")
	f(`{"url":"https://a","auth":{"user":"a","token":"hunter2"}}`, "both a user and a token")
	f(`{"url":"https://a","auth":{"token":"hunter2\n"}}`, "control characters")
	f(`{"url":"https://a","proxy":"hunter2"}`, "not the URL of a proxy")
	f(`{"url":"https://a","proxy":"http://ann:hunter2@a"}`, "must not contain credentials")
	f(`{"url":"https://a","proxy":"ftp://a"}`, "want a proxy of http")
	f(`{"url":"https://a","proxy":"http://a","egress":"public"}`, "a proxy looks up names itself")
	f(`{"url":"https://a","proxy_auth":{"user":"ann","password":"hunter2"}}`, "credentials without a proxy")
	f(`{"url":"https://10.1.2.3","egress":"public"}`, "does not allow this address")
	f(`{"url":"https://[::ffff:127.0.0.1]","egress":"public"}`, "does not allow this address")
	f(`{"url":"https://a","tls":{"cert":"x"}}`, "needs both cert and key")
	f(`{"url":"https://a","tls":{"ca":"-----BEGIN hunter2"}}`, "no certificate in PEM form")
	f(`{"url":"https://a","tls":{"cert":"-----BEGIN x","key":"-----BEGIN hunter2"}}`, "certificate and key")
	n, err := makeClient(t, new(node.Pool), `{"url":"https://a","tls":{"ca":"/no/such/file"}}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Open(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "tls.ca: ") {
		t.Errorf("got %v", err)
	}
}

// TestHTTPReads is which requests change nothing.
func TestHTTPReads(t *testing.T) {
	for _, test := range []struct {
		config, payload string
		reads           bool
	}{
		{``, `null`, true}, {``, `5`, false}, {``, `{"path":"/a"}`, true}, {``, `{"method":"get","body":1}`, true}, {``, `{"method":"HEAD"}`, true},
		{``, `{"method":"OPTIONS"}`, false}, {``, `{"method":5}`, false}, {`,"method":"GET"`, `5`, true}, {`,"method":"GET"`, `{"method":"delete"}`, false}, {`,"method":"post"`, `null`, false},
	} {
		n := newService(t, `{"url":"http://127.0.0.1:1/a"`+test.config+`}`)
		if got := n.Reads(node.Packet{Payload: flowtest.Parse(t, test.payload)}); got != test.reads {
			t.Errorf("%s with %s: got %v", test.payload, test.config, got)
		}
	}
}
