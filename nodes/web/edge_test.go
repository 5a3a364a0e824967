package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

func TestCORS(t *testing.T) {
	s := start(t, `"cors":{"origins":["https://Shop.example","https://*.team.example","http://localhost:5173"],"expose":["X-Request-Id"],"credentials":true}`, always(value.String("tea")))
	admitted := func(origin string) {
		t.Helper()
		s.do("GET", "/", "", "Origin: "+origin).want(t, 200, "tea", "Access-Control-Allow-Origin: "+origin,
			"Access-Control-Allow-Credentials: true", "Access-Control-Expose-Headers: X-Request-Id", "Vary: Origin")
	}
	admitted("https://shop.example")
	admitted("https://a.team.example")
	admitted("https://b.a.team.example")
	admitted("http://localhost:5173")
	refused := func(origin string) {
		t.Helper()
		s.do("GET", "/", "", "Origin: "+origin).want(t, 200, "tea", "Access-Control-Allow-Origin: ", "Access-Control-Allow-Credentials: ", "Vary: Origin")
		s.do("OPTIONS", "/", "", "Origin: "+origin, "Access-Control-Request-Method: PUT").want(t, 403, "pages of this origin may not read the answers", "Access-Control-Allow-Origin: ")
	}
	refused("https://evil.example")
	refused("http://shop.example")
	refused("https://shop.example:8443")
	refused("https://shop.example.evil.example")
	refused("https://evilteam.example")
	refused("https://.team.example")
	refused("https://evil.example/.team.example")
	refused("https://evil.example:1#.team.example")
	refused("null")
	s.do("GET", "/", "").want(t, 200, "tea", "Access-Control-Allow-Origin: ", "Vary: Origin")
}

func TestPreflight(t *testing.T) {
	entered := 0
	s := start(t, `"cors":{"origins":["https://shop.example"],"max_age":"1m"},"secure":true`, func(context.Context, value.Value) node.Response {
		entered++
		return reply(value.Null())
	})
	const origin, asks = "Origin: https://shop.example", "Access-Control-Request-Method: PUT"
	s.do("OPTIONS", "/any", "", origin, asks, "Access-Control-Request-Headers: x-a").want(t, 204, "",
		"Access-Control-Allow-Origin: https://shop.example", "Access-Control-Allow-Methods: GET, HEAD, POST, PUT, PATCH, DELETE",
		"Access-Control-Allow-Headers: Authorization, Content-Type", "Access-Control-Max-Age: 60", "Vary: Origin", "X-Content-Type-Options: nosniff")
	if entered != 0 {
		t.Errorf("got %d processes, want none", entered)
	}
	s.do("OPTIONS", "/any", "", origin).want(t, 200, "null")
	s.do("OPTIONS", "/any", "", asks).want(t, 200, "null")
	if entered != 2 {
		t.Errorf("got %d processes, want those that are not a preflight", entered)
	}
	all := start(t, `"cors":{"origins":["*"],"headers":["*"]}`, always(value.Null()))
	all.do("OPTIONS", "/", "", origin, asks, "Access-Control-Request-Headers: x-a, x-b").want(t, 204, "", "Access-Control-Allow-Origin: *", "Access-Control-Allow-Headers: x-a, x-b", "Vary: Access-Control-Request-Headers")
	all.do("GET", "/", "", origin).want(t, 200, "null", "Access-Control-Allow-Origin: *", "Vary: ")
}

// TestCORSOfErrors lets pages read why a request failed, too.
func TestCORSOfErrors(t *testing.T) {
	s := start(t, `"cors":{"origins":["https://shop.example"]},"headers":{"X-Shop":"tea"}`, failing(errTest))
	s.do("GET", "/", "", "Origin: https://shop.example").want(t, 500, "Internal Server Error", "Access-Control-Allow-Origin: https://shop.example", "X-Shop: tea")
	own := start(t, `"cors":{"origins":["https://shop.example"]}`, always(flowtest.Parse(t, `{"header":{"access-control-allow-origin":"https://other.example"}}`)))
	own.do("GET", "/", "", "Origin: https://shop.example").want(t, 200, "", "Access-Control-Allow-Origin: https://other.example")
}

func TestFixedHeaders(t *testing.T) {
	const config = `"secure":true,"headers":{"cache-control":"no-store","Referrer-Policy":"no-referrer","X-List":["a","b"]}`
	want := []string{"Cache-Control: no-store", "Referrer-Policy: no-referrer", "X-List: a | b", "X-Content-Type-Options: nosniff",
		"Content-Security-Policy: frame-ancestors 'self'", "Strict-Transport-Security: "}
	start(t, config, always(value.String("tea"))).do("GET", "/", "").want(t, 200, "tea", want...)
	start(t, config, failing(errTest)).do("GET", "/", "").want(t, 500, "Internal Server Error", want...)
	own := start(t, config, always(flowtest.Parse(t, `{"header":{"Cache-Control":"max-age=5"},"body":"tea"}`)))
	own.do("GET", "/", "").want(t, 200, "tea", append([]string{"Cache-Control: max-age=5"}, want[1:]...)...)
	proxied := start(t, config+`,"trusted_proxies":["127.0.0.1"]`, always(value.String("tea")))
	proxied.do("GET", "/", "", "X-Forwarded-Proto: https").want(t, 200, "tea", "Strict-Transport-Security: max-age=63072000")
	handed := startParts(t, config, func(ctx context.Context, _ value.Value) node.Response {
		handover.Leave(ctx, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-List", "own")
			fmt.Fprint(w, "file")
		}))
		return node.Response{None: true}
	})
	handed.do("GET", "/", "", "X-Request-Id: r").want(t, 200, "file", "X-List: own", "X-Content-Type-Options: nosniff", "X-Request-Id: r")
	parts := startParts(t, config, emit(reply(value.Null()), value.String("a")))
	parts.do("GET", "/", "", "X-Request-Id: r").want(t, 200, "anull\n", "X-Content-Type-Options: nosniff", "X-Request-Id: r", "Cache-Control: no-store")
}

// TestFixedVary adds what all answers depend on to what one depends on.
func TestFixedVary(t *testing.T) {
	const config = `"headers":{"Vary":"Cookie"},"cors":{"origins":["https://shop.example"]}`
	start(t, config, always(value.String("tea"))).do("GET", "/", "").want(t, 200, "tea", "Vary: Accept | Cookie | Origin")
	start(t, config, always(value.String("tea"))).do("GET", "/", "", "Accept: application/json").want(t, 200, `"tea"`, "Vary: Accept | Cookie | Origin")
	failed := start(t, config, failing(errTest))
	for range 2 { // nothing is added to what answers share
		failed.do("GET", "/", "").want(t, 500, "Internal Server Error", "Vary: Accept | Cookie | Origin")
	}
}

// TestSecureNull leaves out what the workflow says is not to be there.
func TestSecureNull(t *testing.T) {
	s := start(t, `"secure":true,"headers":{"content-security-policy":null,"Strict-Transport-Security":null},"trusted_proxies":["127.0.0.1"]`, always(value.String("tea")))
	s.do("GET", "/", "", "X-Forwarded-Proto: https").want(t, 200, "tea", "Content-Security-Policy: ", "Strict-Transport-Security: ", "X-Content-Type-Options: nosniff")
}

func TestCompress(t *testing.T) {
	long := strings.Repeat("tea ", 512)
	f := func(config, contentType, body, want string) {
		t.Helper()
		s := start(t, config, always(value.Map(
			value.Field{Name: "header", Value: value.Map(value.Field{Name: "Content-Type", Value: value.String(contentType)})},
			value.Field{Name: "body", Value: value.String(body)})))
		got := s.do("GET", "/", "", "Accept-Encoding: gzip")
		if enc := got.header.Get("Content-Encoding"); enc != want {
			t.Errorf("%s, %s, %d bytes: got %q, want %q", config, contentType, len(body), enc, want)
		}
	}
	f(`"secure":false`, "text/plain", long, "gzip")
	f(`"compress":{"level":"none"}`, "text/plain", long, "")
	f(`"compress":{"min_bytes":"4KiB"}`, "text/plain", long, "")
	f(`"compress":{"min_bytes":1}`, "text/plain", "tea", "gzip")
	f(`"compress":{"types":["application/pdf"]}`, "text/plain", long, "")
	f(`"compress":{"types":["Application/PDF"]}`, "application/pdf", long, "gzip")
	f(`"compress":{"types":["text/*"]}`, "text/css; charset=utf-8", long, "gzip")
	f(`"compress":{"types":["*/*"]}`, "x/y", long, "gzip")
	sizes := map[string]int{}
	codings := []string{"zstd", "br", "gzip", "deflate"}
	for _, level := range []string{"fast", "default", "best"} {
		for _, coding := range codings {
			s := start(t, `"compress":{"level":"`+level+`"}`, always(flowtest.Parse(t, "["+strings.Repeat(`{"sku":"a-173","count":2},`, 400)+"1]")))
			got := s.do("GET", "/", "", "Accept-Encoding: "+coding)
			if got.header.Get("Content-Encoding") != coding {
				t.Errorf("%s %s: got %q", coding, level, got.header.Get("Content-Encoding"))
			}
			sizes[coding+" "+level] = len(got.body)
		}
	}
	for _, coding := range codings {
		if sizes[coding+" best"] > sizes[coding+" fast"] {
			t.Errorf("%s: got sizes %v, want the best no larger", coding, sizes)
		}
	}
}

// TestEdgeMistakes has the field and a hint for each.
func TestEdgeMistakes(t *testing.T) {
	f := func(config, path, want string) {
		t.Helper()
		def := listenerDef(stream.Options{})
		_, err := def.New(&node.Init{Config: decodeConfig(t, def, flowtest.Parse(t, `{"port":0,`+config+`}`)), Pool: new(node.Pool)})
		var d *diag.Diagnostic
		if !errors.As(err, &d) || !strings.Contains(d.Msg, want) || d.Path != path {
			t.Errorf("%s: got %v, want %s at %s", config, err, want, path)
		}
	}
	f(`"trusted_proxies":["10.0.0.0/40"]`, "trusted_proxies", "neither an address nor a range")
	f(`"trusted_proxies":["::ffff:10.0.0.0/95"]`, "trusted_proxies", "neither an address nor a range")
	f(`"trusted_proxies":["proxy.example"]`, "trusted_proxies", "neither an address nor a range")
	f(`"cors":{"origins":["*"],"credentials":true}`, "cors.credentials", "credentials cannot go to all origins")
	f(`"cors":{"origins":["shop.example"]}`, "cors.origins", "is not an origin")
	f(`"cors":{"origins":["https://shop.example/"]}`, "cors.origins", "want nothing after the host")
	f(`"cors":{"origins":["https://*.example"]}`, "cors.origins", "at least two more labels")
	f(`"cors":{"origins":["https://*shop.example"]}`, "cors.origins", "want a scheme and a host")
	f(`"cors":{"origins":["https://shop.example:443"]}`, "cors.origins", "want no port")
	f(`"cors":{"origins":["http://shop.example:80"]}`, "cors.origins", "want no port")
	f(`"cors":{"origins":["null"]}`, "cors.origins", "want a scheme and a host")
	f(`"cors":{"origins":["https://a.example"],"headers":["a b"]}`, "cors.headers", "is not the name of a header")
	f(`"cors":{"origins":["https://a.example"],"expose":["*"],"credentials":true}`, "cors.expose", "with credentials")
	f(`"headers":{"a b":"c"}`, "headers", "not a valid header name")
	f(`"headers":{"a":"b\r\nc: d"}`, "headers", "control characters")
	f(`"headers":"a"`, "headers", "want a map")
	f(`"http3":true`, "http3", "HTTP/3 takes TLS")
	f(`"tls":{}`, "tls", "there is no certificate")
	f(`"tls":{"cert":"a.pem"}`, "tls", "there is no certificate")
	f(`"tls":{"cert":"a.pem","key":"a.key","acme":{"domains":["a.example"],"storage":"s"}}`, "tls.acme", "there is a certificate already")
	f(`"tls":{"acme":{"domains":["*.a.example"],"storage":"s"}}`, "tls.acme.domains", "takes a challenge by DNS")
	f(`"tls":{"acme":{"domains":["https://a.example"],"storage":"s"}}`, "tls.acme.domains", "is not the name of a host")
	f(`"tls":{"acme":{"domains":["a.example"],"storage":"s","directory":"http://ca.example/dir"}}`, "tls.acme.directory", "is not a URL of https")
	f(`"tls":{"acme":{"domains":["a.example"],"storage":"s","eab":{"key_id":"k","hmac":"a+b/"}}}`, "tls.acme.eab.hmac", "is not base64url")
	f(`"tls":{"acme":{"domains":["a.example"],"storage":"s","eab":{"key_id":"k","hmac":"="}}}`, "tls.acme.eab.hmac", "is not base64url")
	f(`"compress":{"types":["json"]}`, "compress.types", "is not a media type")
}
