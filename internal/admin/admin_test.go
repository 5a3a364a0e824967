package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/console"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

func TestCheckAddress(t *testing.T) {
	f := func(address, token string, ok, wantsToken bool) {
		t.Helper()
		err := CheckAddress(address, token)
		if (err == nil) != ok || errors.Is(err, ErrNoToken) != wantsToken {
			t.Errorf("%q with token %q: got %v, want ok %v, token needed %v", address, token, err, ok, wantsToken)
		}
	}
	f("127.0.0.1:0", "", true, false)
	f("127.9.9.9:9000", "", true, false)
	f("localhost:9000", "", true, false)
	f("[::1]:9000", "", true, false)
	f("[::ffff:127.0.0.1]:9000", "", true, false)
	f(":9000", "", false, true)
	f("0.0.0.0:9000", "", false, true)
	f("[::]:9000", "", false, true)
	f("10.0.0.1:9000", "", false, true)
	f("example.com:9000", "", false, true)
	f("localhost.example.com:9000", "", false, true)
	f("0.0.0.0:9000", "secret", true, false)
	f("9000", "", false, false)
	f("127.0.0.1", "secret", false, false)
	f("127.0.0.1:http", "", false, false)
	f("127.0.0.1:65536", "", false, false)
	f("127.0.0.1:-1", "", false, false)
}

// start serves until the test ends.
func start(t *testing.T, opts Options) *Server {
	t.Helper()
	opts.Address = "127.0.0.1:0"
	if opts.Status == nil {
		opts.Status = func() uniflow.Status { return uniflow.Status{} }
	}
	if opts.Metrics == nil {
		opts.Metrics = func() observe.Metrics { return observe.Metrics{} }
	}
	if opts.Label == nil {
		opts.Label = func() func() { return func() {} }
	}
	s, err := Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// get asks a server, with headers as pairs; "Host" is the host.
func get(t *testing.T, s *Server, method, path string, headers ...string) (status int, body string) {
	t.Helper()
	resp, body := ask(t, s, method, path, headers...)
	return resp.StatusCode, body
}

// ask is get with the whole response.
func ask(t *testing.T, s *Server, method, path string, headers ...string) (resp *http.Response, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err = (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(data)
}

func TestHealth(t *testing.T) {
	s := start(t, Options{})
	f := func(path string, want int) {
		t.Helper()
		if got, body := get(t, s, "GET", path); got != want {
			t.Errorf("%s: got %d %q, want %d", path, got, body, want)
		}
	}
	f("/healthz", 200)
	f("/readyz", 503)
	s.SetReady(true)
	f("/readyz", 200)
	s.SetReady(false)
	f("/readyz", 503)
	f("/healthz", 200)
	f("/", 200)
	f("/api/v1/", 200)
	f("/nothing", 404)
	f("/api/v1/nothing", 404)
	f("/debug/pprof/", 200)
	f("/debug/pprof/goroutine?debug=1", 200)
	f("/debug/pprof/heap", 200)
	f("/debug/pprof/cmdline", 200)
	for _, path := range []string{"profile", "trace", "heap"} {
		for _, seconds := range []string{"99999999999", "3601", "-1", "NaN", "x"} {
			f("/debug/pprof/"+path+"?seconds="+seconds, 400)
		}
	}
	for method, want := range map[string]int{"GET": 404, "POST": 405} {
		path := map[string]string{"GET": "/api/v1/nothing", "POST": "/healthz"}[method]
		if got, body := get(t, s, method, path); got != want || !strings.HasPrefix(body, `{"message":`) {
			t.Errorf("%s %s: got %d %s, want %d as JSON", method, path, got, body, want)
		}
	}
}

// TestMetrics shows what the engine says at each scrape.
func TestMetrics(t *testing.T) {
	var generation atomic.Int64
	s := start(t, Options{Metrics: func() observe.Metrics { return observe.Metrics{Generation: int(generation.Add(1))} }})
	for _, want := range []string{"\nuniflow_generation 1\n", "\nuniflow_generation 2\n"} {
		if got, body := get(t, s, "GET", "/metrics"); got != 200 || !strings.Contains(body, want) {
			t.Errorf("got %d without %q:\n%.1000s", got, want, body)
		}
	}
}

// TestLabel labels goroutines for the time of a CPU profile, and no longer, and not
// for one that is to be without.
func TestLabel(t *testing.T) {
	var labels, most atomic.Int64
	s := start(t, Options{Label: func() func() {
		most.Add(1)
		labels.Add(1)
		return func() { labels.Add(-1) }
	}})
	if got, body := get(t, s, "GET", "/debug/pprof/profile?seconds=1"); got != 200 || len(body) == 0 {
		t.Fatalf("got %d, %d bytes", got, len(body))
	}
	if got, body := get(t, s, "GET", "/debug/pprof/profile?seconds=1&labels=0"); got != 200 || len(body) == 0 {
		t.Fatalf("got %d, %d bytes", got, len(body))
	}
	if labels.Load() != 0 || most.Load() != 1 {
		t.Errorf("got %d labels left of %d, want 0 of 1", labels.Load(), most.Load())
	}
}

// TestSlow serves what is kept below its path, if anything is.
func TestSlow(t *testing.T) {
	if got, _ := get(t, start(t, Options{}), "GET", api.SlowPath); got != 404 {
		t.Errorf("got %d, want 404 where nothing is kept", got)
	}
	s := start(t, Options{Slow: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(w, "path "+r.URL.Path); err != nil {
			t.Error(err)
		}
	})})
	if got, body := get(t, s, "GET", api.SlowPath+"a.trace"); got != 200 || body != "path a.trace" {
		t.Errorf("got %d %q", got, body)
	}
}

func TestToken(t *testing.T) {
	s := start(t, Options{Token: "secret", Hosts: []string{"flows.example.com"}})
	f := func(want int, headers ...string) {
		t.Helper()
		for _, path := range []string{"/healthz", "/api/v1/nodes", "/debug/pprof/cmdline", "/nothing"} {
			wanted := want
			if path == "/nothing" && want == 200 {
				wanted = 404
			}
			got, body := get(t, s, "GET", path, headers...)
			if got != wanted || want == 401 && strings.Contains(body, "secret") {
				t.Errorf("%s with %q: got %d %q, want %d", path, headers, got, body, wanted)
			}
		}
	}
	f(401)
	f(401, "Authorization", "secret")
	f(401, "Authorization", "Basic secret")
	f(401, "Authorization", "Bearer")
	f(401, "Authorization", "Bearer secre")
	f(401, "Authorization", "Bearer secrets")
	f(200, "Authorization", "Bearer secret")
	f(200, "Authorization", "bearer secret")
	f(200, "Authorization", "Bearer secret", "Host", "anything.example.com")
	page := func(want int, host string) {
		t.Helper()
		if got, _ := get(t, s, "GET", "/", "Host", host); got != want {
			t.Errorf("the page under %s: got %d, want %d", host, got, want)
		}
	}
	page(200, "10.1.2.3:9000")
	page(200, "flows.example.com")
	page(403, "evil.example.com")
}

// TestRebinding asks under a name that resolves to this machine, as a page in a
// browser could.
func TestRebinding(t *testing.T) {
	s := start(t, Options{})
	f := func(host string, want int) {
		t.Helper()
		if got, body := get(t, s, "GET", "/debug/pprof/cmdline", "Host", host); got != want {
			t.Errorf("%s: got %d %q, want %d", host, got, body, want)
		}
	}
	f("evil.example.com", 403)
	f("evil.example.com:80", 403)
	f("localhost", 200)
	f("localhost:80", 200)
	f("[::1]", 200)
	f("[::1]:80", 200)
}

// TestCrossSite refuses what a page of another site asks for: it could not read the
// answer, but have the program work for it.
func TestCrossSite(t *testing.T) {
	s := start(t, Options{})
	f := func(want int, headers ...string) {
		t.Helper()
		if got, body := get(t, s, "GET", "/debug/pprof/cmdline", headers...); got != want {
			t.Errorf("%s: got %d %q, want %d", headers, got, body, want)
		}
	}
	f(200)
	f(200, "Sec-Fetch-Site", "none")
	f(200, "Sec-Fetch-Site", "same-origin", "Origin", "http://"+s.Addr().String())
	f(403, "Sec-Fetch-Site", "cross-site")
	f(403, "Sec-Fetch-Site", "same-site") // another port of this machine
	f(403, "Origin", "http://evil.example.com")
	f(403, "Origin", "http://127.0.0.1:1")
	f(403, "Origin", "null")
}

// TestCmdline shows the command line of the options, not of the process.
func TestCmdline(t *testing.T) {
	s := start(t, Options{Cmdline: []string{"uniflow", "start"}})
	if got, body := get(t, s, "GET", "/debug/pprof/cmdline"); got != 200 || body != "uniflow\x00start" {
		t.Errorf("got %d %q", got, body)
	}
}

// TestIndex leads to everything that there is.
func TestIndex(t *testing.T) {
	s := start(t, Options{Slow: http.NotFoundHandler(), Logs: new(console.Logs), Again: func() {}})
	_, body := get(t, s, "GET", "/api/v1/")
	for _, path := range []string{
		"/healthz", "/readyz", "/metrics", "/api/v1/status", "/api/v1/nodes", "/api/v1/graph", "/api/v1/kinds", "/api/v1/events",
		"/api/v1/logs", "/api/v1/reload", api.SlowPath, "/debug/pprof/",
	} {
		if !strings.Contains(body, `"`+path+`"`) {
			t.Errorf("%s: got %s", path, body)
		}
	}
	if _, body := get(t, start(t, Options{}), "GET", "/api/v1/"); strings.Contains(body, api.SlowPath) || strings.Contains(body, "/reload") {
		t.Errorf("got %s, want only what is served", body)
	}
	if status, body := get(t, s, "GET", "/api/v1/openapi.json"); status != 200 || !strings.Contains(body, `"openapi": "3.1.0"`) {
		t.Errorf("got %d %.200s", status, body)
	}
	resp, page := ask(t, s, "GET", "/", "Accept-Encoding", "identity")
	if resp.StatusCode != 200 || !strings.Contains(page, "<title>uniflow</title>") || !strings.Contains(resp.Header.Get("Content-Security-Policy"), "require-trusted-types-for 'script'") {
		t.Errorf("got %d %v %s", resp.StatusCode, resp.Header, page)
	}
}

func TestGraph(t *testing.T) {
	generation := 1
	s := start(t, Options{
		Status:    func() uniflow.Status { return uniflow.Status{Generation: generation} },
		Namespace: "shop",
		Redact:    func(text string) string { return strings.ReplaceAll(text, "letmein", "[redacted]") },
		Outline: func() uniflow.Outline {
			a, b := node.Ref{ID: "1", Kind: "nop", Namespace: "shop", Name: "letmein"}, node.Ref{ID: "2", Kind: "nop", Namespace: "other", Name: "b"}
			return uniflow.Outline{Nodes: []node.Ref{a, b}, Vertices: make([]node.Vertex, 2), Outer: []int{-1, -1}}
		},
	})
	f := func(path string, status int, want ...string) {
		t.Helper()
		got, body := get(t, s, "GET", "/api/v1/graph"+path)
		if got != status || strings.Contains(body, "letmein") {
			t.Errorf("%s: got %d, %s", path, got, body)
		}
		for _, text := range want {
			if !strings.Contains(body, text) {
				t.Errorf("%s: got %s, want %s", path, body, text)
			}
		}
	}
	f("", 200, `"generation": 1`, `"id": "1"`, `"name": "[redacted]"`, `"width": 200`, `"links": []`)
	f("?namespace=other", 200, `"id": "2"`)
	f("?namespace=none", 404, `namespace \"none\" has no nodes`)
	f("?as=svg", 200, "<svg", "<title>shop, generation 1</title>", ">[redacted]<")
	f("?as=mermaid&namespace=other", 200, `n0["b<br>nop"]`)
	f("?as=png", 400, "want json, svg or mermaid")
	f("?closed=yes", 400, "want true or false")

	head := func(tag string) (int, string) {
		t.Helper()
		resp, _ := ask(t, s, "GET", "/api/v1/graph", "If-None-Match", tag)
		return resp.StatusCode, resp.Header.Get("ETag")
	}
	status, tag := head("")
	if again, _ := head(tag); status != 200 || again != 304 {
		t.Errorf("got %d, and %d for the same tag", status, again)
	}
	generation = 2
	if status, other := head(tag); status != 200 || other == tag {
		t.Errorf("got %d with the tag %s after a reload", status, other)
	}
}

// TestReload says why the last reload failed, while what was served goes on.
func TestReload(t *testing.T) {
	last := Reload{}
	s := start(t, Options{Reload: func() Reload { return last }})
	s.SetReady(true)
	if got, body := get(t, s, "GET", "/readyz"); got != 200 || body != "ready\n" {
		t.Errorf("got %d %q", got, body)
	}
	last = Reload{
		Time:     time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Err:      errors.New("too many open files"),
		Findings: diag.List{diag.Errorf(diag.CodeUnknownKind, "unknown kind").At(diag.Pos{File: "f.yaml", Line: 1, Col: 3}, "")},
	}
	want := "ready\nlast reload failed at 2026-01-02T03:04:05Z\ntoo many open files\nf.yaml:1:3: unknown kind [F2006]\n"
	if got, body := get(t, s, "GET", "/readyz"); got != 200 || body != want {
		t.Errorf("got %d %q, want %q", got, body, want)
	}
	_, body := get(t, s, "GET", "/api/v1/status")
	var status struct {
		Reload struct {
			Time       time.Time
			Successful bool
			Error      string
			Findings   []struct {
				Code, File, Message string
				Line                int
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		t.Fatal(err)
	}
	r := status.Reload
	if r.Successful || r.Error != "too many open files" || !r.Time.Equal(last.Time) || len(r.Findings) != 1 ||
		r.Findings[0].Code != "F2006" || r.Findings[0].Line != 1 || r.Findings[0].Message != "unknown kind" {
		t.Errorf("got %+v in %s", r, body)
	}
}

func TestAPI(t *testing.T) {
	now := uniflow.Status{}
	s := start(t, Options{
		Status:  func() uniflow.Status { return now },
		Kinds:   []*node.Def{{Kind: "nop", Summary: "Does nothing."}},
		Version: "v1",
		Links: func() []uniflow.Link {
			return []uniflow.Link{{From: node.Ref{ID: "1"}, To: node.Ref{ID: "2", Name: "b"}, Out: "out[0]", In: "in"}}
		},
	})
	ask := func(path string) string {
		t.Helper()
		status, body := get(t, s, "GET", path)
		if status != 200 {
			t.Errorf("%s: got %d, want 200", path, status)
		}
		var answer any
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			t.Fatalf("%s: %v: %s", path, err, body)
		}
		if m, ok := answer.(map[string]any); ok {
			delete(m, "started")
		}
		compact, err := json.Marshal(answer)
		if err != nil {
			t.Fatal(err)
		}
		return string(compact)
	}
	f := func(path, want string) {
		t.Helper()
		if got := ask(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	f("/api/v1/status", `{"generation":0,"in_flight":0,"namespaces":[],"nodes":0,"ready":false,"scope":"view","version":"v1"}`)
	f("/api/v1/nodes", `[]`)
	f("/api/v1/kinds", `[{"kind":"nop","summary":"Does nothing."}]`)
	now = uniflow.Status{
		Generation: 3, Since: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), InFlight: 2,
		Nodes: []node.Ref{{ID: "1", Kind: "nop", Namespace: "default", Name: "a", Pos: diag.Pos{File: "f.yaml", Line: 1, Col: 3}}},
	}
	s.SetReady(true)
	f("/api/v1/status", `{"generation":3,"in_flight":2,"namespaces":["default"],"nodes":1,"ready":true,"scope":"view","since":"2026-01-02T03:04:05Z","version":"v1"}`)
	f("/api/v1/nodes", `[{"col":3,"file":"f.yaml","id":"1","kind":"nop","line":1,"links":[{"in":"in","name":"b","port":"out[0]","to":"2"}],`+
		`"name":"a","namespace":"default"}]`)
}

func TestAddressInUse(t *testing.T) {
	s := start(t, Options{})
	_, err := Start(t.Context(), Options{Address: s.Addr().String()})
	if err == nil || !strings.Contains(err.Error(), "admin server: ") {
		t.Errorf("got %v, want an error of the admin server", err)
	}
}

// TestWaiting answers 503 with the reasons while nodes are not ready.
func TestWaiting(t *testing.T) {
	var reasons []error
	s := start(t, Options{
		Status: func() uniflow.Status { return uniflow.Status{Generation: 1} },
		Ready:  func() []error { return reasons },
	})
	f := func(wantStatus int, want, wantAPI string) {
		t.Helper()
		if status, body := get(t, s, "GET", "/readyz"); status != wantStatus || body != want {
			t.Errorf("got %d %q, want %d %q", status, body, wantStatus, want)
		}
		if _, body := get(t, s, "GET", "/api/v1/status"); !strings.Contains(body, wantAPI) {
			t.Errorf("got no %s in %s", wantAPI, body)
		}
	}
	f(503, "not ready\n", `"ready": false`)
	s.SetReady(true)
	f(200, "ready\n", `"ready": true`)
	reasons = []error{errors.New("no broker"), errors.New("no database")}
	f(503, "not ready\nno broker\nno database\n", `"waiting_for": [
    "no broker",
    "no database"
  ]`)
}

// TestQueues shows what nodes report of themselves, and why they are not ready, without secrets.
func TestQueues(t *testing.T) {
	ship, read := node.Ref{ID: "1", Kind: "kafka_sink", Namespace: "default", Name: "ship"}, node.Ref{ID: "2", Kind: "kafka_source", Namespace: "default", Name: "read"}
	s := start(t, Options{
		Metrics: func() observe.Metrics {
			return observe.Metrics{Figures: []observe.Figure{
				{Node: ship, Metric: node.Metric{Name: "sink_seconds", Help: "How long.", Type: node.MetricHistogram, Counts: []uint64{1, 3}, Sum: 2}},
				{Node: ship, Metric: node.Metric{Name: "sink_records_total", Help: "Sent.", Type: node.MetricCounter, Value: 7, Labels: []node.Label{{Name: "outcome", Value: "letmein"}}}},
				{Node: ship, Metric: node.Metric{Name: "sink_queued", Help: "Waiting.", Value: 3}},
			}}
		},
		Ready:  func() []error { return []error{&uniflow.ReadyError{Node: read, Err: errors.New("no letmein broker")}} },
		Redact: func(text string) string { return strings.ReplaceAll(text, "letmein", "[redacted]") },
	})
	_, body := get(t, s, "GET", "/api/v1/queues")
	var queues []api.Queue
	if err := json.Unmarshal([]byte(body), &queues); err != nil {
		t.Fatal(err)
	}
	want := []api.Queue{
		{ID: "2", Node: api.MetricsOf{Kind: "kafka_source", Namespace: "default", Name: "read"}, Waiting: "no [redacted] broker", Figures: []api.Figure{}},
		{ID: "1", Node: api.MetricsOf{Kind: "kafka_sink", Namespace: "default", Name: "ship"}, Figures: []api.Figure{
			{Name: "sink_queued", Help: "Waiting.", Type: "gauge", Value: 3},
			{Name: "sink_records_total", Help: "Sent.", Type: "counter", Value: 7, Labels: map[string]string{"outcome": "[redacted]"}},
			{Name: "sink_seconds", Help: "How long.", Type: "histogram", Value: 4, Mean: 0.5},
		}},
	}
	if !reflect.DeepEqual(queues, want) {
		t.Errorf("got %s", body)
	}
}

// TestProcesses lists the processes that wait, up to a number.
func TestProcesses(t *testing.T) {
	web, shop := node.Ref{ID: "1", Kind: "listener", Namespace: "default", Name: "web"}, node.Ref{ID: "2", Kind: "sql", Namespace: "default", Name: "letmein"}
	s := start(t, Options{
		Status: func() uniflow.Status { return uniflow.Status{InFlight: 300} },
		Waiting: func() (all []uniflow.Waiting) {
			for i := range 250 {
				all = append(all, uniflow.Waiting{ID: fmt.Sprintf("%03d", 249-i), Trigger: web, At: []node.Ref{shop}})
			}
			return all
		},
		Redact: func(text string) string { return strings.ReplaceAll(text, "letmein", "[redacted]") },
	})
	_, body := get(t, s, "GET", "/api/v1/processes")
	var got api.Processes
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	first := api.Process{ID: "000", Trigger: api.ProcessNode{ID: "1", Kind: "listener", Namespace: "default", Name: "web"}, At: []api.ProcessNode{{ID: "2", Kind: "sql", Namespace: "default", Name: "[redacted]"}}}
	if got.InFlight != 300 || got.Waiting != 250 || len(got.List) != api.MaxProcesses || !reflect.DeepEqual(got.List[0], first) {
		t.Errorf("got %d, %d, %d, %+v", got.InFlight, got.Waiting, len(got.List), got.List[:1])
	}
}
