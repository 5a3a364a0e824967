package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// shown is a workflow whose packets have a secret of the program, and credentials of a client.
const shown = `
- kind: snippet
  name: first
  language: cel
  env: {KEY: {name: KEY}}
  code: '{"key": "{{ .KEY }}", "got": self, "password": "swordfish"}'
  ports: {out: second}
- kind: snippet
  name: second
  language: cel
  code: 'self.got.n == 3 ? self.none : self'
- {kind: retry, name: third, ports: {out: second}}
`

// serve starts an engine with the workflow, and serves what it does.
func serve(t *testing.T) (*Server, *uniflow.Engine, map[string]string) {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	source := uniflow.Source{
		Documents: []spec.Document{{File: "flow.yaml", Data: []byte(shown)}},
		Variables: []spec.Document{{File: "values.yaml", Data: []byte("- {name: KEY, data: opensesame, secret: true}")}},
	}
	if list, err := e.Apply(t.Context(), source); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	service := debug.New(debug.Options{Attach: e.Debug, Redact: e.RedactValue, Compile: func(code string) (debug.Condition, error) {
		return func(_ context.Context, v value.Value) (bool, error) { return strings.Contains(v.String(), code), nil }, nil
	}})
	t.Cleanup(service.Close)
	s := start(t, Options{
		Debug: service,
		Token: "all", ViewToken: "look", Status: e.Status, Metrics: e.Metrics, Waiting: e.Waiting, Outline: e.Describe,
		Redact: e.Redact, RedactValue: e.RedactValue, Watch: e.Watch, Send: e.Send,
	})
	ids := make(map[string]string)
	for _, ref := range e.Status().Nodes {
		ids[ref.Name] = ref.ID
	}
	return s, e, ids
}

// asked asks with a token, empty for none, and reads the answer as JSON.
func asked(t *testing.T, s *Server, token, method, path, body string, into any) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Addr().String()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err == nil && into != nil && resp.StatusCode == http.StatusOK {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(data)
}

// TestRecent shows processes that have ended and packets of a node: without secrets, and payloads only to
// those who may inspect.
func TestRecent(t *testing.T) {
	s, e, ids := serve(t)
	var list api.Processes
	var packets api.NodePackets
	asked(t, s, "look", "GET", "/api/v1/processes", "", &list)
	asked(t, s, "all", "GET", "/api/v1/nodes/"+ids["second"]+"/packets", "", &packets)
	for i := range 4 {
		payload, err := value.ParseJSON(fmt.Appendf(nil, `{"n": %d, "header": {"Authorization": ["Bearer hunter2"], "Set-Cookie": "hunter2"}}`, i))
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = e.Run(t.Context(), "first", payload); (err != nil) != (i == 3) {
			t.Fatal(i, err)
		}
	}
	asked(t, s, "look", "GET", "/api/v1/processes", "", &list)
	if len(list.Ended) != 4 || !list.Ended[0].Failed || list.Ended[0].Outcome != "failed" || list.Ended[1].Spans != 2 {
		t.Fatalf("got %+v", list.Ended)
	}
	asked(t, s, "look", "GET", "/api/v1/processes?only=failed", "", &list)
	if len(list.Ended) != 1 || !strings.Contains(list.Ended[0].Error, "no such key") {
		t.Errorf("got %+v, want the one that failed", list.Ended)
	}
	if status, _ := asked(t, s, "look", "GET", "/api/v1/processes?only=fast", "", nil); status != 400 {
		t.Errorf("only=fast: got %d", status)
	}
	if status, _ := asked(t, s, "look", "GET", "/api/v1/processes/none", "", nil); status != 404 {
		t.Errorf("a process that is not there: got %d", status)
	}

	id := list.Ended[0].ID
	var all, some api.Timeline
	_, text := asked(t, s, "all", "GET", "/api/v1/processes/"+id, "", &all)
	_, less := asked(t, s, "look", "GET", "/api/v1/processes/"+id, "", &some)
	if len(all.Packets) != 2 || all.Packets[1].Parent != 0 || all.Packets[1].Error == "" || all.Packets[1].Payload == nil || !strings.Contains(all.Packets[1].Payload.Text, `"n": 3`) {
		t.Errorf("got %s", text)
	}
	if strings.Contains(less, `"n"`) || some.Packets[0].Payload != nil || some.Response != nil || all.First != nil {
		t.Errorf("a viewer gets payloads: %s", less)
	}
	_, tapped := asked(t, s, "all", "GET", "/api/v1/nodes/"+ids["second"]+"/packets", "", &packets)
	directions := make(map[string]int)
	for _, p := range packets.List {
		directions[p.Direction]++
	}
	if directions["received"] != 4 || directions["sent"] != 4 || directions["answered"] != 4 || packets.List[11].Direction != "received" {
		t.Errorf("got %s, want four packets, what was sent, and the answers", tapped)
	}
	for _, secret := range []string{"opensesame", "hunter2", "swordfish"} {
		if strings.Contains(text+less+tapped, secret) {
			t.Errorf("%s is shown: %s", secret, text+less+tapped)
		}
	}
	if status, _ := asked(t, s, "all", "GET", "/api/v1/nodes/none/packets", "", nil); status != 404 {
		t.Errorf("packets of a node that is not there: got %d", status)
	}
}

// TestNode shows the config of a node, and sends it packets.
func TestNode(t *testing.T) {
	s, _, ids := serve(t)
	var detail api.NodeDetail
	_, text := asked(t, s, "look", "GET", "/api/v1/nodes/"+ids["first"], "", &detail)
	settings := make(map[string]api.Setting)
	for _, set := range detail.Settings {
		settings[set.Path] = set
	}
	if settings["language"].Text != `"cel"` || !settings["language"].Given || !settings["code"].Hidden || strings.Contains(text, "opensesame") {
		t.Errorf("got %s", text)
	}
	asked(t, s, "look", "GET", "/api/v1/nodes/"+ids["third"], "", &detail)
	if len(detail.Settings) == 0 || detail.Settings[0].Given || detail.In != 1 {
		t.Errorf("got %+v, want defaults", detail)
	}
	if status, _ := asked(t, s, "look", "GET", "/api/v1/nodes/none", "", nil); status != 404 {
		t.Errorf("a node that is not there: got %d", status)
	}

	path := "/api/v1/nodes/" + ids["second"] + "/packets"
	for _, c := range []struct {
		body   string
		status int
		failed bool
		want   string
	}{
		{`{"text": "{\"got\": {\"n\": 1}, \"token\": \"hunter2\"}"}`, 200, false, "[redacted]"},
		{`{"text": "{\"got\": {\"n\": 3}}"}`, 200, true, "no such key"},
		{`{"text": "{"}`, 400, false, "the payload must be JSON"},
		{`{"text": "1", "port": 7}`, 200, true, "1 in-ports"},
		{`{"texts": "1"}`, 400, false, "texts"},
		{strings.Repeat("x", 10), 400, false, "JSON"},
		{`{"text": "` + strings.Repeat("x", api.MaxBody) + `"}`, 413, false, "bytes"},
	} {
		var sent api.Sent
		status, text := asked(t, s, "all", "POST", path, c.body, &sent)
		if status != c.status || sent.Failed != c.failed || !strings.Contains(text, c.want) || strings.Contains(text, "hunter2") {
			t.Errorf("%.60s: got %d %s, want %d with %q", c.body, status, text, c.status, c.want)
		}
	}
	if status, _ := asked(t, s, "look", "POST", path, `{"text": "1"}`, nil); status != 403 {
		t.Errorf("a viewer may send: %d", status)
	}
	status, text := 0, ""
	for n := 0; n < 1000 && status != 429; n++ {
		status, text = asked(t, s, "all", "POST", path, `{"text": "1"}`, nil)
	}
	if status != 429 || !strings.Contains(text, "at most 10 packets") {
		t.Errorf("more than the limit: got %d %s", status, text)
	}
}

// TestDebug holds a process at a breakpoint, shows it without secrets, and lets it go on in each way.
func TestDebug(t *testing.T) {
	s, e, ids := serve(t)
	var state api.Debug
	ask := func(method, path, body string, want int) string {
		t.Helper()
		state = api.Debug{}
		status, text := asked(t, s, "all", method, "/api/v1/debug"+path, body, &state)
		if status != want {
			t.Errorf("%s %s %s: got %d %s, want %d", method, path, body, status, text, want)
		}
		return text
	}
	breakpoint := func(more string) string { return `{"list": [{"node": "` + ids["second"] + `"` + more + `}]}` }
	for _, more := range []string{`, "point": "between"`, `, "point": "in", "port": 1`, `, "point": "in", "after": -1`, `, "port": "x"`} {
		ask("PUT", "/breakpoints", breakpoint(more), 400)
	}
	ask("PUT", "/breakpoints", `{"list": [{"node": "none", "point": "in"}]}`, 400)
	for _, c := range []struct{ breakpoint, move, answer string }{
		{`, "point": "in"`, `{"do": "continue"}`, `"password":"swordfish"`},
		{`, "point": "in", "when": "opensesame"`, `{"do": "continue"}`, `"n":1`},
		{`, "point": "in"`, `{"do": "continue", "text": "{\"got\": {\"n\": 5}}"}`, `{"got":{"n":5}}`},
		{`, "point": "in"`, `{"do": "answer", "text": "7"}`, `7`},
		{`, "point": "in"`, `{"do": "fail", "text": "on purpose"}`, `on purpose`},
		{`, "point": "in"`, `{"do": "drop"}`, `null false`},
		{`, "point": "out", "port": 0`, `{"do": "continue", "text": "8"}`, `8`},
		{`, "point": "answer"`, `{"do": "continue", "text": "9"}`, `9`},
	} {
		ask("PUT", "/breakpoints", breakpoint(c.breakpoint), 200)
		answered := make(chan string, 1)
		go func() {
			answer, ok, err := e.Run(t.Context(), "first", value.Map(value.Field{Name: "n", Value: value.Int(1)}))
			answered <- fmt.Sprint(answer, ok, err)
		}()
		var text string
		for deadline := time.Now().Add(10 * time.Second); len(state.Held) == 0 && time.Now().Before(deadline); {
			text = ask("GET", "", "", 200)
			select {
			case got := <-answered: // the condition sees no secrets
				if !strings.Contains(c.breakpoint, "opensesame") || !strings.Contains(got, c.answer) {
					t.Fatalf("%v: it was not held, and answered %s", c, got)
				}
				answered <- got
				deadline = time.Time{}
			default:
			}
		}
		if strings.Contains(text, "opensesame") && !strings.Contains(c.breakpoint, "opensesame") || strings.Contains(text, "swordfish") {
			t.Errorf("%v: a secret is shown: %s", c, text)
		}
		if len(state.Held) > 0 {
			held := fmt.Sprint("/held/", state.Held[0].ID)
			ask("POST", held, `{"do": "jump"}`, 400)
			ask("POST", held, `{"do": "answer"}`, 400)
			ask("POST", held, `{"do": "continue", "text": "{"}`, 400)
			ask("POST", held, c.move, 200)
			if got := <-answered; !strings.Contains(got, c.answer) {
				t.Errorf("%v: answered %s", c, got)
			}
			ask("POST", held, c.move, 409)
		}
	}
	ask("POST", "/held/x", `{"do": "continue"}`, 404)
	ask("PUT", "/breakpoints", `{"list": []}`, 200)
}
