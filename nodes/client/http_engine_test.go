package client_test

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/client"
	"github.com/uniflow-labs/uniflow/nodes/core"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/test/httpbin"
	"github.com/uniflow-labs/uniflow/value"
)

// kinds are those that the tests of this package use.
func kinds() []*node.Def {
	o := stream.Options{Languages: builtin.Languages(), Language: "cel"}
	return slices.Concat(core.Defs(core.Options{Languages: o.Languages, Language: o.Language}), client.Defs(o))
}

// TestHTTPSecrets makes calls fail in each way, with secrets wherever a workflow may
// have them, and looks for these in errors, logs, metrics and timelines. The secret is
// not a secret variable, so the engine does not know that it is one.
func TestHTTPSecrets(t *testing.T) {
	s := httptest.NewServer(httpbin.Handler())
	t.Cleanup(s.Close)
	var mu sync.Mutex
	var seen []string
	f := flowtest.New(t, kinds()...)
	f.Options.Clock, f.Options.Metrics = node.SystemClock{}, true
	f.Options.Recorders = []observe.Recorder{{Ended: func(line *observe.Timeline) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%+v", line))
	}}}
	f.Environment = map[string]string{"SECRET": "hunter2"}
	const call = `
- kind: http
  name: %s
  url: "%s?key={{ .SECRET }}"
  timeout: 500ms
  header: {X-Key: "{{ .SECRET }}"}
  auth: {user: ann, password: "{{ .SECRET }}"}
  %s
  env: {SECRET: {data: "{{ .SECRET }}"}}
  ports: {out: []}
`
	var doc strings.Builder
	names := make([]string, 0, 20)
	add := func(url, more string) {
		name := fmt.Sprintf("n%d", len(names))
		names = append(names, name)
		fmt.Fprintf(&doc, call, name, url, more)
	}
	for _, path := range []string{"/slow-header", "/slow-body", "/early-close", "/no-answer", "/garbage", "/bad-json", "/unknown-coding", "/loop", "/huge", "/{{ .SECRET }}", "/to"} {
		add(s.URL+path, "limits: {body_bytes: 1KiB}")
	}
	add("http://name.invalid/{{ .SECRET }}", "")
	add("http://127.0.0.1:1/{{ .SECRET }}", "")
	add("http://localhost/{{ .SECRET }}", "egress: public")
	add("https://example.invalid/", `proxy: "http://127.0.0.1:1"
  proxy_auth: {user: ann, password: "{{ .SECRET }}"}`)
	add(strings.Replace(s.URL, "http:", "https:", 1), "")
	f.Load(doc.String())
	for _, name := range names {
		for _, payload := range []value.Value{value.Null(), value.Map(value.Field{Name: "path", Value: value.String("..")})} {
			if r := f.Send(name, payload); r.IsError() {
				seen = append(seen, r.Payload.AsError().Error())
			}
		}
	}
	for _, figure := range f.Engine().Metrics().Figures {
		seen = append(seen, fmt.Sprintf("%+v", figure))
	}
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(seen, "\n") + f.Log()
	for i, line := range strings.Split(all, "\n") {
		if strings.Contains(line, "hunter2") || strings.Contains(line, "YW5uOmh1bnRlcjI") { // also as basic authentication
			t.Errorf("line %d has the secret: %s", i, line)
		}
	}
	for _, code := range []string{"[timeout]", "[answer]", "[body]", "[redirect]", "[too_large]", "[connect]", "[egress]", "[request]", "[tls]"} {
		if !strings.Contains(all, code) {
			t.Errorf("no call has failed with %s", code)
		}
	}
}

// TestInitBeforeOpen sends to a client that has not opened.
func TestInitBeforeOpen(t *testing.T) {
	f := flowtest.New(t, kinds()...)
	list, err := f.Apply(`
- {kind: http, name: n, url: 'http://127.0.0.1:1', ports: {init: [{name: warm, port: in}]}}
- {kind: snippet, name: warm, language: text, code: hi, ports: {out: [{name: n, port: in}]}}
`)
	if err == nil || !strings.Contains(err.Error(), node.ErrNotOpen.Error()) {
		t.Errorf("got %v, %v", list, err)
	}
}
