package web_test

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
)

// newJudge returns what judges the answers of an API by its document.
func newJudge(t *testing.T, document []byte) validator.Validator {
	t.Helper()
	doc, err := libopenapi.NewDocument(document)
	if err != nil {
		t.Fatal(err)
	}
	judge, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	if ok, errs := judge.ValidateDocument(); !ok {
		t.Fatal(errs)
	}
	return judge
}

// A judged transport validates each answer of a host.
type judged struct {
	http.RoundTripper
	t     *testing.T
	judge validator.Validator
	host  string
	seen  map[string]bool // method, path and status
}

func (j *judged) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := j.RoundTripper.RoundTrip(r)
	if err != nil || r.URL.Host != j.host {
		return resp, err
	}
	var data []byte
	if resp.StatusCode != http.StatusSwitchingProtocols {
		data, err = io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
	}
	if err := resp.Body.Close(); err != nil {
		return nil, err
	}
	j.seen[r.Method+" "+r.URL.Path+" "+resp.Status[:3]] = true
	again := r.Clone(r.Context())
	again.Body = http.NoBody
	resp.Body = io.NopCloser(bytes.NewReader(data))
	if ok, errs := j.judge.ValidateHttpResponse(again, resp); !ok {
		j.t.Errorf("%s %s: %s %.200s: the answer is not described: %v", r.Method, r.URL.Path, resp.Status, data, errs)
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// TestLoginIsDescribed lets a judge look at each answer of a site with a login: its own
// pages, a WebSocket whose port open refuses, and a router whose port error is linked.
func TestLoginIsDescribed(t *testing.T) {
	s := newSite(t, "")
	head, _, _ := strings.Cut(s.document, "- {kind: snippet, name: who")
	s.document = strings.Replace(head, "name: who", "name: routes", 1) + `
- kind: router
  name: routes
  openapi: {}
  routes:
    - {method: GET, path: /, port: "out[0]"}
    - {method: POST, path: /, port: "out[0]"}
    - {method: GET, path: "/things/:id", port: "out[0]"}
    - {method: GET, path: /socket, port: "out[1]"}
  ports:
    out[0]: [{name: fine, port: in}]
    out[1]: [{name: socket, port: in}]
    error: [{name: lost, port: in}]
- {kind: snippet, name: fine, language: text, code: fine}
- {kind: snippet, name: lost, language: json, code: '{"status": 410, "body": {"lost": true}}'}
- {kind: websocket, name: socket, ports: {open: [{name: paid, port: in}], out: [{name: fine, port: in}]}}
- {kind: if, name: paid, when: 'has(self.query.paid)', ports: {"out[0]": [{name: fine, port: in}], "out[1]": [{name: due, port: in}]}}
- {kind: throw, name: due, status: 402}
`
	s.apply()
	b := s.browser()
	s.login(b, "/")
	_, doc, _ := b.get(s.url + "/openapi.json")
	here, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	j := &judged{t: t, judge: newJudge(t, []byte(doc)), host: here.Host, seen: make(map[string]bool)}
	f := func(method, path string, want int, header ...string) {
		t.Helper()
		if status, body, _ := b.do(request(t, method, s.url+path), header...); status != want {
			t.Errorf("%s %s: got %d %s, want %d", method, path, status, body, want)
		}
	}
	b = s.browser()
	j.RoundTripper, b.Transport = b.Transport, j
	f("GET", "/", 401, "Accept", "application/json")
	f("POST", "/", 401)
	f("GET", "/auth/callback", 403)
	if status, body := s.login(b, "/auth/login?return_to=/things/1"); status != 200 {
		t.Errorf("got %d %s, want a session", status, body)
	}
	f("POST", "/", 403, "Sec-Fetch-Site", "cross-site")
	f("GET", "/things/", 410)
	const upgrade, version, key = "Upgrade", "Sec-Websocket-Version", "Sec-Websocket-Key"
	f("GET", "/socket", 426)
	f("GET", "/socket", 402, "Connection", upgrade, upgrade, "websocket", version, "13", key, "dGhlIHNhbXBsZSBub25jZQ==")
	f("GET", "/socket?paid=1", 101, "Connection", upgrade, upgrade, "websocket", version, "13", key, "dGhlIHNhbXBsZSBub25jZQ==")
	f("GET", "/auth/logout", 403, "Sec-Fetch-Site", "cross-site")
	s.down.Store(true)
	s.clock.ahead.Add(int64(6 * time.Minute))
	f("GET", "/", 503)
	s.down.Store(false)
	b.do(request(t, "POST", s.url+"/auth/logout"))
	b.get(s.url + "/")
	for range 20 {
		b.get(s.url + "/auth/login")
	}
	for _, want := range []string{
		"GET / 302", "GET /auth/login 302", "GET /auth/login 403", "GET /auth/callback 303", "POST /auth/logout 303",
	} {
		if !j.seen[want] {
			t.Errorf("there was no %s among %v", want, j.seen)
		}
	}
}

func request(t *testing.T, method, target string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
