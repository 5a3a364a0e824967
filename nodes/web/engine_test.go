package web_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/client"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/nodes/events"
	"github.com/uniflow-labs/uniflow/nodes/streams"
	"github.com/uniflow-labs/uniflow/nodes/web"
	"github.com/uniflow-labs/uniflow/observe"
)

// These tests run a whole engine between the request and the answer.

// kinds are those that the tests of this package use. With all kinds there are, the
// collector would have three times as much to do while benchmarks run.
func kinds() []*node.Def {
	languages := builtin.Languages()
	defs := core.Defs(core.Options{Languages: languages, Language: "cel"})
	defs = append(defs, events.Defs(stream.Options{Languages: languages, Language: "cel"})...)
	o := stream.Options{Languages: languages, Language: "cel"}
	return slices.Concat(defs, streams.Defs(o), web.Defs(o), client.Defs(o))
}

// serve starts a workflow.
func serve(t testing.TB, document string) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, append(kinds(), eventsDef)...)
	f.Serve(document)
	return f
}

// recorded is serve, and returns the timelines of the processes that have ended.
func recorded(t testing.TB, document string) (*flowtest.Flow, <-chan *observe.Timeline) {
	t.Helper()
	timelines := make(chan *observe.Timeline, 100)
	f := flowtest.New(t, kinds()...)
	f.Options.Recorders = []observe.Recorder{{Ended: func(t *observe.Timeline) { timelines <- t }}}
	f.Serve(document)
	return f, timelines
}

// ask returns "STATUS TYPE BODY", with "Allow: …" at the end if there is one.
func ask(f *flowtest.Flow, method, path, body string, header ...string) string {
	r := f.Request(method, path, body, header...)
	contentType, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";")
	got := fmt.Sprintf("%d %s %s", r.Status, contentType, r.Body)
	if allow := r.Header.Get("Allow"); allow != "" {
		got += " Allow: " + allow
	}
	return got
}

const api = `
- kind: listener
  name: web
  protocol: http
  host: 127.0.0.1
  port: 0
  ports:
    out: [{name: api, port: in}]
    error: [] # HANDLER
- kind: router
  name: api
  routes:
    - {method: GET, path: "/users/:id", port: "out[0]"}
    - {method: POST, path: /orders, port: "out[1]"}
    - {method: GET, path: /boom, port: "out[2]"}
    - {method: GET, path: /full, port: "out[3]"}
    - {method: GET, path: /odd, port: "out[4]"}
    - {method: GET, path: /nan, port: "out[5]"}
    - {method: "*", path: /any, port: "out[0]"}
  ports:
    out[0]: [{name: show, port: in}]
    out[1]: [{name: echo, port: in}]
    out[2]: [{name: boom, port: in}]
    out[3]: [{name: full, port: in}]
    out[4]: [{name: odd, port: in}]
    out[5]: [{name: nan, port: in}]
- {kind: snippet, name: show, language: text, code: shown}
- {kind: snippet, name: echo, language: cel, code: body}
- {kind: snippet, name: boom, language: cel, code: body.nothing}
- {kind: snippet, name: full, language: text, code: the disk is full, ports: {out: [{name: no}]}}
- {kind: throw, name: no, status: 507}
- {kind: snippet, name: odd, language: cel, code: '{"status": "404", "body": "x"}'}
- {kind: snippet, name: nan, language: cel, code: "0.0 / 0.0"}
`

// handled has one handler for all errors.
var handled = strings.Replace(api, "error: [] # HANDLER", "error: [{name: shared, port: in}]", 1) + `
- kind: snippet
  name: shared
  language: cel
  code: '{"status": has(self.status) ? self.status : 500, "body": {"error": message}}'
`

// TestErrorContract sends errors of all origins to one handler, and to none.
func TestErrorContract(t *testing.T) {
	j := []string{"Content-Type", "application/json"}
	w := serve(t, handled)
	f := func(method, path, body, want string, header ...string) {
		t.Helper()
		if got := ask(w, method, path, body, header...); !strings.HasPrefix(got, want) {
			t.Errorf("%s %s: got %s, want %s", method, path, got, want)
		}
	}
	f("GET", "/users/7", "", "200 text/plain shown")
	f("PURGE", "/any", "", "200 text/plain shown")
	f("GET", "/nothing", "", `404 application/json {"error":"Not Found"}`)
	f("PUT", "/orders", "{}", `405 application/json {"error":"Method Not Allowed"} Allow: OPTIONS, POST`, j...)
	f("OPTIONS", "/orders", "", "204   Allow: OPTIONS, POST")
	f("POST", "/orders", "{", `400 application/json {"error":"body: JSON, line 1`, j...)
	f("GET", "/boom", "", `500 application/json {"error":`)
	f("GET", "/full", "", `507 application/json {"error":"the disk is full"}`)
	f("GET", "/odd", "", "500 text/plain Internal Server Error")
	logs := w.Log()
	for _, want := range []string{
		`level=ERROR msg="request answered with an error" .*process=[0-9a-f-]{36} status=507 method=GET path=/full error="node \\"no\\" \(test.yaml:\d+:\d+\): the disk is full"`,
		`level=ERROR msg="request answered with an error" .*process=[0-9a-f-]{36} status=500 method=GET path=/boom error="node \\"boom\\"`,
		`level=ERROR msg="request answered with an error" .*process=[0-9a-f-]{36} status=500 method=GET path=/odd error="answer: status \\"?404`,
		`level=DEBUG msg="request answered with an error" .*process=[0-9a-f-]{36} status=400 method=POST path=/orders`,
		`level=DEBUG msg="request answered with an error" .*process=[0-9a-f-]{36} status=404 method=GET path=/nothing`,
	} {
		if !regexp.MustCompile(want).MatchString(logs) {
			t.Errorf("log: got %s, want %s", logs, want)
		}
	}

	w = serve(t, api)
	f("GET", "/nothing", "", "404 text/plain Not Found")
	f("PUT", "/orders", "{}", "405 text/plain Method Not Allowed Allow: OPTIONS, POST", j...)
	f("GET", "/full", "", "507 text/plain Insufficient Storage")
	for _, accept := range []string{"application/json", "application/problem+json"} {
		accepted := []string{"Accept", accept, "Content-Type", "application/json"}
		f("GET", "/nothing", "", `404 application/problem+json {"type":"about:blank","title":"Not Found","status":404,"instance":"urn:uuid:`, accepted...)
		f("PUT", "/orders", "{}", `405 application/problem+json {"type":"about:blank","title":"Method Not Allowed","status":405,"instance":"urn:uuid:`, accepted...)
		f("POST", "/orders", "{", `400 application/problem+json {"type":"about:blank","title":"Bad Request","status":400,"detail":"body: JSON`, accepted...)
		f("GET", "/boom", "", `500 application/problem+json {"type":"about:blank","title":"Internal Server Error","status":500,"instance":"urn:uuid:`, accepted...)
	}
}

// TestUnwantedBody refuses requests without a route before their bodies have come.
func TestUnwantedBody(t *testing.T) {
	w := serve(t, handled)
	f := func(request string, status int) {
		t.Helper()
		c, err := net.Dial("tcp", w.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n", request)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != status {
			t.Errorf("%s: got %s, want %d", request, resp.Status, status)
		}
	}
	f("POST /nothing", 404)
	f("PUT /orders", 405)
	if got := ask(w, "POST", "/orders", `{"a":1}`, "Content-Type", "application/json"); got != `200 application/json {"a":1}` {
		t.Errorf("got %s", got)
	}
}

// TestDescribed checks that timelines describe their requests by the conventions of
// OpenTelemetry.
func TestDescribed(t *testing.T) {
	w, timelines := recorded(t, handled)
	f := func(method, path, body, name string, failed bool, want ...string) {
		t.Helper()
		ask(w, method, path, body, "Content-Type", "application/json")
		got := <-timelines
		if got.Name != name || got.Failed != failed {
			t.Errorf("%s %s: got name %q, failed %v, want %q, %v", method, path, got.Name, got.Failed, name, failed)
		}
		var attributes []string
		for _, a := range got.Attributes {
			if a.Text == "" {
				a.Text = fmt.Sprint(a.Number)
			}
			attributes = append(attributes, a.Key+"="+a.Text)
		}
		_, port, _ := net.SplitHostPort(w.Address())
		want = append(want, "http.request.method="+method, "url.path="+path, "url.scheme=http", "server.address=127.0.0.1", "server.port="+port, "network.protocol.version=1.1")
		for _, attribute := range want {
			if !slices.Contains(attributes, attribute) {
				t.Errorf("%s %s: got %q, want %s", method, path, attributes, attribute)
			}
		}
	}
	f("GET", "/users/7", "", "GET /users/:id", false, "http.route=/users/:id", "http.response.status_code=200")
	f("GET", "/nothing", "", "GET", false, "http.response.status_code=404")
	f("POST", "/orders", "{", "POST", false, "http.response.status_code=400")
	f("GET", "/full", "", "GET /full", true, "http.route=/full", "http.response.status_code=507", "error.type=507")
	f("GET", "/odd", "", "GET /odd", true, "http.response.status_code=500")
	ask(w, "BREW", "/any", "")
	if got := <-timelines; got.Name != "HTTP /any" {
		t.Errorf("an unknown method: got name %q, want HTTP /any", got.Name)
	}

	// An answer that cannot be made is logged under the id that the timeline has.
	ask(w, "GET", "/nan", "")
	if id := (<-timelines).Process; !strings.Contains(w.Log(), "process="+id+" status=500 method=GET path=/nan") {
		t.Errorf("log: got %s, want process %s", w.Log(), id)
	}
}

// TestCounts counts answers by route and status, through reloads.
func TestCounts(t *testing.T) {
	w := serve(t, handled)
	for i := range 3 {
		ask(w, "GET", fmt.Sprintf("/users/%d", i), "")
	}
	w.Load(strings.Replace(handled, "port: 0", "port: 0\n  limits: {idle_timeout: 60s}", 1)) // another server
	w.Client().CloseIdleConnections()
	ask(w, "GET", "/users/9", "")
	ask(w, "GET", "/full", "")
	ask(w, "GET", "/nothing/"+strings.Repeat("x", 1000), "")
	w.Client().CloseIdleConnections()
	f := func(name, want string) {
		t.Helper()
		var got []string
		for _, figure := range w.Engine().Metrics().Figures {
			m := figure.Metric
			if m.Name != name {
				continue
			}
			var b strings.Builder
			for _, l := range m.Labels {
				fmt.Fprintf(&b, "%s=%s ", l.Name, l.Value)
			}
			n := uint64(m.Value)
			for _, count := range m.Counts {
				n += count
			}
			if m.Type == node.MetricHistogram && (len(m.Counts) != len(m.Bounds)+1 || m.Sum <= 0) {
				t.Errorf("got %+v, want a histogram", m)
			}
			got = append(got, b.String()+fmt.Sprint(n))
		}
		if got := strings.Join(got, "\n"); got != want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
		}
	}
	f("http_answers_total", "method=GET route=/full status=5xx 1\nmethod=GET route=/users/:id status=2xx 4\nmethod= route= status=4xx 1")
	f("http_answer_duration_seconds", "method=GET route=/full 1\nmethod=GET route=/users/:id 4\nmethod= route= 1")
	f("http_requests_in_flight", "0")
	f("http_body_bytes", "0")
	f("http_answers_waiting", "0")
}
