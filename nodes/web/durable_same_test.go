package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/uniflow-labs/uniflow/test/httpbin"
)

// TestDurableSame sends requests to the same workflow with and without durability: the answers are the same, except for
// the id of the run.
func TestDurableSame(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/empty" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusAccepted)
			return
		}
		r.Header.Del("Accept-Encoding")
		httpbin.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(service.Close)
	document := func(durability string) string {
		return `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, durability: ` + durability + `, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes:
    - {method: GET, path: '/items/:item/*rest', port: 'out[0]'}
    - {method: '*', path: '/on/*', port: 'out[1]'}
    - {method: POST, path: /mirror, port: 'out[2]'}
    - {method: GET, path: /empty, port: 'out[3]'}
  ports: {'out[0]': [{name: params}], 'out[1]': [{name: call}], 'out[2]': [{name: same}], 'out[3]': [{name: empty}]}
- {kind: snippet, name: params, language: cel, code: '{"body": [params.item, params.rest, header, query, host != "", remote, protocol]}'}
- {kind: http, name: call, url: "` + service.URL + `/echo"}
- {kind: nop, name: same}
- {kind: http, name: empty, url: "` + service.URL + `"}
`
	}
	plain, _ := serveDurable(t, new(held), document("none"))
	kept, _ := serveDurable(t, new(held), document(`{level: checkpoint, strip: []}`))
	for _, c := range []struct {
		method, target, body string
		header               []string
	}{
		{method: "GET", target: "/items/a%2Fb/c%2Fd"},
		{method: "GET", target: "/items/%FF/caf%C3%A9?a&b=&a=1&%FF=%FE"},
		{method: "GET", target: "/items/a/b?%zz"},
		{method: "GET", target: "/items/a/b", header: []string{"X-A", "caf\xe9", "X-Empty", ""}},
		{method: "POST", target: "/on/a%2Fb", body: "\x1f\x8b", header: []string{"Content-Type", "application/octet-stream", "Connection", "X-Hop", "X-Hop", "1"}},
		{method: "POST", target: "/on/a", body: `{"q": 1}`, header: []string{"Content-Type", "application/json"}},
		{method: "POST", target: "/mirror", body: `{"q":  1}`, header: []string{"Content-Type", "application/json", "X-Secret", "s"}},
		{method: "POST", target: "/mirror", body: `a=1&a=2&b`, header: []string{"Content-Type", "application/x-www-form-urlencoded"}},
		{method: "POST", target: "/mirror", header: []string{"X-Secret", "s"}},
		{method: "GET", target: "/empty"},
		{method: "PUT", target: "/mirror"},
		{method: "OPTIONS", target: "/mirror"},
	} {
		t.Run(c.method+" "+c.target, func(t *testing.T) {
			want, got := plain.Request(c.method, c.target, c.body, c.header...), kept.Request(c.method, c.target, c.body, c.header...)
			for _, h := range []http.Header{want.Header, got.Header} {
				for _, name := range []string{"Uniflow-Run", "Date", "X-Request-Id", "Content-Length"} {
					h.Del(name)
				}
			}
			if got.Status != want.Status || withoutRun(got.Body) != withoutRun(want.Body) {
				t.Errorf("got %d %s, without durability %d %s", got.Status, got.Body, want.Status, want.Body)
			}
			if g, w := mustJSON(t, got.Header), mustJSON(t, want.Header); g != w {
				t.Errorf("got headers %s, without durability %s", g, w)
			}
		})
	}
}

// withoutRun removes what differs from one call of the service to the next.
func withoutRun(body string) string {
	var echo map[string]any
	if json.Unmarshal([]byte(body), &echo) != nil {
		return body
	}
	if h, ok := echo["header"].(map[string]any); ok {
		delete(h, "Idempotency-Key") // of the run
		delete(h, "Traceparent")
	}
	delete(echo, "host")
	data, err := json.Marshal(echo)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func mustJSON(t *testing.T, v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
