package flow

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

// tried is a draft with nodes that change something outside, and that read a secret.
const tried = `- {kind: listener, name: front, port: 0, ports: {out: read}}
- {kind: snippet, name: read, language: cel, code: '["insert into orders values (?)", self.path]', ports: {out: seen}}
- {kind: log, name: seen, message: "came ${self[1]}", level: warn, ports: {out: keep}}
- {kind: sql, name: keep, driver: sqlite, source: orders.db, ports: {init: [{name: table, port: in}]}}
- {kind: snippet, name: table, language: json, code: '"create table orders (path text)"', ports: {out: keep}}
- {kind: http, name: call, url: URL}
- {kind: snippet, name: key, language: cel, env: {KEY: {name: KEY}}, code: '"{{.KEY}}".startsWith("open")'}
- {kind: snippet, name: tell, language: cel, env: {KEY: {name: KEY}}, code: '"it is opensesame"'}
- {kind: for, name: each, ports: {"out[0]": part}}
- {kind: emit, name: part}
- {kind: snippet, name: pin, language: cel, env: {PIN: {name: PIN}}, code: '{{.PIN.code}} + 1'}
- {kind: http, url: URL, id: "00000000-0000-0000-0000-00000000000a"}
- {kind: snippet, name: nameless, language: cel, code: self, ports: {out: [{id: "00000000-0000-0000-0000-00000000000a", port: in}]}}
- {kind: schedule, name: tick, interval: 1h, ports: {out: [{name: read, port: in}]}}
- {kind: schedule, name: alone, interval: 1h}
`

func TestTry(t *testing.T) {
	var calls atomic.Int32
	peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { calls.Add(1); w.WriteHeader(http.StatusNoContent) }))
	t.Cleanup(peer.Close)
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	apptest.Write(t, "values.yaml", "- {name: KEY, data: opensesame, secret: true}\n- {name: PIN, data: {code: 4815, of: [true]}, secret: true}\n")
	s := serve(t, "--from-specs", "f.yaml", "--from-values", "values.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all", "--edit")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await("msg=ready nodes=2")
	draft := strings.ReplaceAll(tried, "URL", peer.URL)
	for _, test := range []struct {
		name    string
		trial   api.Trial
		answer  string   // its text; none if it failed
		failure string   // a part of the message, hint and place of the first finding
		steps   []string // FROM.OUT -> TO
		calls   int32
	}{
		{name: "trigger", trial: api.Trial{Node: "front", Text: "null"}, failure: "sql is not run, as it may change something in a try: pin what keep answers, or allow it by its name; f.yaml:4",
			steps: []string{".out -> read.in", "read.out -> seen.in", "seen.out -> keep.in", "keep.error -> "}},
		{name: "namespace", trial: api.Trial{Node: "default/tick", Text: `{"path": "/x"}`, Pins: []api.Pin{{Node: "keep", Text: `{"rows": 1}`}}}, answer: "{\n  \"rows\": 1\n}"},
		{name: "pin", trial: api.Trial{Node: "front", Text: `{"path": "/a?b=1"}`, Pins: []api.Pin{{Node: "seen", Text: `"pinned"`}, {Node: "keep", Text: "[]"}}}, answer: "[]",
			steps: []string{".out -> read.in", "read.out -> seen.in", "seen.out -> keep.in", "keep.out -> "}},
		{name: "effects", trial: api.Trial{Node: "call", Text: "null"}, failure: "http is not run"},
		{name: "allowed", trial: api.Trial{Node: "call", Text: "null", Allow: []string{"default/call"}}, answer: "*", calls: 1},
		{name: "secret", trial: api.Trial{Node: "key", Text: "null"}, answer: "false"},
		{name: "echo", trial: api.Trial{Node: "tell", Text: "null"}, answer: `"it is [redacted]"`},
		{name: "secret number", trial: api.Trial{Node: "pin", Text: "null"}, answer: "1"},
		{name: "without a name", trial: api.Trial{Node: "nameless", Text: "null"}, failure: "http is not run, as it may change something in a try: give the node a name"},
		{name: "parts", trial: api.Trial{Node: "each", Text: `[1, 2]`}, answer: "*", steps: []string{".out -> each.in", "each.out[0] -> part.in", "each.out[0] -> part.in", "each.out[1] -> "}},
		{name: "misspelled", trial: api.Trial{Node: "raed", Text: "null"}, failure: `there is no node "raed"; did you mean read?`},
		{name: "no target", trial: api.Trial{Node: "alone", Text: "null"}, failure: "schedule alone starts processes itself, and leads to no node with a name; name the node that it leads to"},
		{name: "unknown pin", trial: api.Trial{Node: "read", Text: "null", Pins: []api.Pin{{Node: "kep", Text: "1"}}}, failure: `there is no node "kep"; did you mean keep?`},
		{name: "no request", trial: api.Trial{Node: "front", Text: `{"path": 1}`}, failure: "path"},
	} {
		t.Run(test.name, func(t *testing.T) {
			calls.Store(0)
			var got api.Tried
			test.trial.Drafts = []api.Document{{File: "f.yaml", Text: draft}}
			if err := c.Send(t.Context(), http.MethodPost, api.Base+"try", test.trial, &got); err != nil {
				t.Fatal(err)
			}
			found := ""
			for _, f := range got.Findings {
				found += f.Message + "; " + f.Hint
				if f.Line > 0 {
					found += f.File + ":" + string(rune('0'+f.Line))
				}
			}
			var steps []string
			for _, step := range got.Steps {
				steps = append(steps, step.From+"."+step.Out+" -> "+strings.Join(step.To, " "))
			}
			switch {
			case got.Failed != (test.answer == ""), !strings.Contains(found, test.failure):
				t.Errorf("failed %v: %q; want %q", got.Failed, found, test.failure)
			case test.answer != "*" && got.Answer.Text != test.answer:
				t.Errorf("the answer is %q; want %q", got.Answer.Text, test.answer)
			case test.steps != nil && !slices.Equal(steps, test.steps):
				t.Errorf("the steps are %q; want %q", steps, test.steps)
			}
			if calls.Load() != test.calls {
				t.Errorf("the service was called %d times", calls.Load())
			}
			if _, err := os.Stat("orders.db"); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the database: %v", err)
			}
		})
	}
	var got api.Tried
	if err := c.Send(t.Context(), http.MethodPost, api.Base+"try", api.Trial{Node: "front", Text: "null", Drafts: []api.Document{{File: "f.yaml", Text: "- {kind: nope}\n"}}}, &got); err != nil || len(got.Findings) != 1 || got.Findings[0].File != "f.yaml" {
		t.Errorf("a draft with an error: %+v, %v", got, err)
	}
	if err := c.Send(t.Context(), http.MethodPost, api.Base+"try", api.Trial{Node: "front", Text: "{"}, &got); err == nil || !strings.HasPrefix(err.Error(), "400") {
		t.Errorf("a payload that is not JSON: %v", err)
	}
	if got, err := os.ReadFile("f.yaml"); err != nil || string(got) != listenSpec {
		t.Errorf("the file has %q, %v", got, err)
	}
}
