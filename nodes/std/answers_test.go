package std_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

var updateAnswers = flag.Bool("update", false, "write the table of answers in docs/workflows.md")

// forms are the answers of a process, as an expression in JavaScript.
var forms = []struct{ name, doc, code string }{
	{"text", "`\"ok\"`", `"ok"`},
	{"map", "`{done: true}`", `({done: true})`},
	{"created", "`{status: 201, body}`", `({status: 201, body: "ok"})`},
	{"none", "nothing, as from `nop`", ``},
	{"conflict", "`{status: 409, body}`", `({status: 409, body: "no"})`},
	{"request", "the request, with `status: 409`", `({method: "POST", scheme: "http", host: "h", path: "/", query: {}, protocol: "HTTP/1.1", header: {}, body: "x", remote: "1.2.3.4", id: "7", status: 409})`},
	{"record", "`{remote, status: 409, body}`, a log record", `({remote: "1.2.3.4", status: 409, body: "x"})`},
	{"quoted", "`{status: \"409\", body}`", `({status: "409", body: "no"})`},
	{"zero", "`{status: 0}`", `({status: 0})`},
	{"informational", "`{status: 100, body}`", `({status: 100, body: "no"})`},
	{"null", "`{status: null, body}`", `({status: null, body: "no"})`},
	{"name", "a header whose name has a space", `({header: {"a b": "c"}, body: "ok"})`},
	{"injection", "a header with a line break", `({header: {a: "b\r\nc: d"}, body: "ok"})`},
	{"nan", "`{share: NaN}`", `({share: NaN})`},
	{"error", "an error", ``},
	{"missing", "an error with `status: 404`", ``},
}

// answersDocument has one flow behind each trigger. It marks a key, has a session and a
// transaction, and then answers in the form that the message names.
const answersDocument = `
- {kind: listener, name: web, host: 127.0.0.1, port: %[1]d, ports: {out: [{name: routes}]}}
- kind: router
  name: routes
  routes: [{method: POST, path: /, port: 'out[0]'}, {method: GET, path: /ws, port: 'out[1]'}, {method: POST, path: /mcp, port: 'out[2]'}, {method: POST, path: /messages, port: 'out[3]'}]
  ports: {'out[0]': [{name: form}], 'out[1]': [{name: socket}], 'out[2]': [{name: tools}], 'out[3]': [{name: desk}]}
- {kind: websocket, name: socket, ports: {out: [{name: form}]}}
- {kind: mcp, name: tools, tools: [{name: run, description: Runs., input: {properties: {form: {type: string}}}}], ports: {out: [{name: form}]}}
- {kind: chat, name: desk, path: /, secret: 0123456789abcdef, ports: {out: [{name: form}]}}
- {kind: socket_source, name: lines, address: '127.0.0.1:%[2]d', decode: text, reply: true, order: key, retry: {threshold: 0}, ports: {out: [{name: form}], error: [{name: dead}]}}
- {kind: file_source, name: file, paths: ['%[3]s/in.txt'], format: lines, follow: true, retry: {threshold: 0}, ports: {out: [{name: form}], error: [{name: dead}]}}
- {kind: snippet, name: dead, language: text, code: dead}
- {kind: fork, name: fork, ports: {out: [{name: form}]}}
- {kind: collect, name: collect, count: 1, ports: {out: [{name: first}]}}
- {kind: snippet, name: first, language: cel, code: 'self[0]', ports: {out: [{name: form}]}}

- {kind: snippet, name: form, language: javascript, code: 'export default (p) => typeof p === "string" ? p : (p.form ?? p.text ?? p.body).trim()', ports: {out: [{name: once}]}}
- {kind: dedupe, name: once, key: self, ports: {out: [{name: keep}], duplicate: [{name: duplicate}]}}
- {kind: snippet, name: duplicate, language: text, code: duplicate}
- {kind: session, name: keep, key: '"all"', ports: {out: [{name: note}]}}
- {kind: remember, name: note, append: {seen: '${self}'}, ports: {out: [{name: statement}]}}
- {kind: snippet, name: statement, language: cel, code: '["INSERT INTO done VALUES (?) RETURNING form", [self]]', ports: {out: [{name: insert}]}}
- {kind: sql, name: insert, driver: sqlite, source: '%[3]s/answers.db', ports: {active: [{name: table}], out: [{name: kind}]}}
- {kind: snippet, name: table, language: text, code: 'CREATE TABLE IF NOT EXISTS done (form TEXT)', ports: {out: [{name: look}]}}
- kind: switch
  name: kind
  matches: [{when: 'self[0].form == "none"', port: 'out[0]'}, {when: 'self[0].form == "error"', port: 'out[1]'}, {when: 'self[0].form == "missing"', port: 'out[2]'}, {when: 'true', port: 'out[3]'}]
  ports: {'out[0]': [{name: nothing}], 'out[1]': [{name: fails}], 'out[2]': [{name: lacks}], 'out[3]': [{name: answer}]}
- {kind: nop, name: nothing}
- {kind: throw, name: fails}
- {kind: throw, name: lacks, status: 404}
- kind: snippet
  name: answer
  language: javascript
  code: |
    const forms = {%[4]s}
    export default (rows) => forms[rows[0].form]()

- {kind: sql, name: look, driver: sqlite, source: '%[3]s/answers.db'}
- {kind: session, name: again, key: '"all"', ports: {out: [{name: load}]}}
- {kind: recall, name: load, ports: {out: [{name: seen}]}}
- {kind: snippet, name: seen, language: cel, code: 'has(session.seen) ? session.seen : []'}
`

// An answerWorld serves the document.
type answerWorld struct {
	t      *testing.T
	engine *uniflow.Engine
	web    int
	lines  int
	folder string
	client http.Client
}

func newAnswerWorld(t *testing.T) *answerWorld {
	w := &answerWorld{t: t, web: freeport.Port(t), lines: freeport.Port(t), folder: t.TempDir()}
	if err := os.WriteFile(filepath.Join(w.folder, "in.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for _, f := range forms {
		if f.code != "" {
			fmt.Fprintf(&code, "%s: () => %s, ", f.name, f.code)
		}
	}
	document := fmt.Sprintf(answersDocument, w.web, w.lines, w.folder, code.String())
	var err error
	if w.engine, err = uniflow.New(uniflow.Options{Kinds: std.Defs(""), Metrics: true, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	source := uniflow.Source{Documents: []spec.Document{{File: "answers.yaml", Data: []byte(document)}}}
	if list, err := w.engine.Apply(t.Context(), source); err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	t.Cleanup(func() {
		w.client.CloseIdleConnections()
		if err := w.engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// run runs a node by name.
func (w *answerWorld) run(name string, payload value.Value) (answer value.Value, err error) {
	answer, _, err = w.engine.Run(w.t.Context(), name, payload)
	return answer, err
}

// post sends a request and returns the status and the body.
func (w *answerWorld) post(path, contentType, body string) string {
	req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d%s", w.web, path), strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if path != "/" {
		req.Header.Set("Accept", "application/json, text/event-stream")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, data)
}

// ended returns how many processes have failed and ended.
func (w *answerWorld) ended() (failed, all uint64) {
	m := w.engine.Metrics()
	for outcome, n := range m.Ended {
		all += n
		if observe.Outcome(outcome) == observe.Failed {
			failed += n
		}
	}
	return failed, all
}

// settle waits until no process runs.
func (w *answerWorld) settle(until func() bool) {
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		if w.engine.Status().InFlight == 0 && until() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("the processes do not end: %v", w.engine.Metrics().Figures)
		}
	}
}

// A trigger sends a form, and returns "" if the client was told of a good end, or was told
// nothing; else how it was told of a failure.
type answerTrigger struct {
	name, doc string
	processes uint64 // of a message, at least
	send      func(w *answerWorld, form string) (told string)
}

var answerTriggers = []answerTrigger{
	{"listener", "`listener`", 1, func(w *answerWorld, form string) string {
		if got := w.post("/", "text/plain", form); got[0] >= '4' {
			return got[:3]
		}
		return ""
	}},
	{"call", "`call`, tests", 1, func(w *answerWorld, form string) string {
		if _, err := w.run("form", value.String(form)); err != nil {
			return "error"
		}
		return ""
	}},
	{"websocket", "`websocket`", 2, func(w *answerWorld, form string) string {
		_, before := w.ended()
		c, _, err := websocket.Dial(w.t.Context(), fmt.Sprintf("ws://127.0.0.1:%d/ws", w.web), nil)
		if err != nil {
			w.t.Fatal(err)
		}
		defer c.CloseNow()
		if err := c.Write(w.t.Context(), websocket.MessageText, []byte(`"`+form+`"`)); err != nil {
			w.t.Fatal(err)
		}
		if form == "none" { // a client that vanishes ends its process
			w.settle(func() bool { _, all := w.ended(); return all >= before+2 })
			return ""
		}
		if _, _, err = c.Read(w.t.Context()); websocket.CloseStatus(err) == websocket.StatusInternalError {
			return "closed"
		} else if err != nil {
			w.t.Fatal(err)
		}
		return ""
	}},
	{"mcp", "`mcp`", 2, func(w *answerWorld, form string) string {
		got := w.post("/mcp", "application/json", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"form": "`+form+`"}}}`)
		if strings.Contains(got, `"isError":true`) {
			return "error"
		}
		return ""
	}},
	{"chat", "`chat`", 2, func(w *answerWorld, form string) string {
		got := w.post("/messages", "application/json", `{"text": "`+form+`", "wait": true}`)
		if strings.Contains(got, `"failed":true`) {
			return "apology"
		}
		return ""
	}},
	{"socket", "`socket_source`", 1, func(w *answerWorld, form string) string {
		c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.lines))
		if err != nil {
			w.t.Fatal(err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, form+"\n"); err != nil {
			w.t.Fatal(err)
		}
		if form == "none" {
			return ""
		}
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil {
			w.t.Fatal(err)
		}
		if strings.HasPrefix(line, `{"error"`) {
			return "error"
		}
		return ""
	}},
	{"file", "`file_source`", 1, func(w *answerWorld, form string) string {
		acknowledged, letters := w.acknowledged()
		f, err := os.OpenFile(filepath.Join(w.folder, "in.txt"), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			w.t.Fatal(err)
		}
		_, err = io.WriteString(f, form+"\n")
		if err = errors.Join(err, f.Close()); err != nil {
			w.t.Fatal(err)
		}
		for {
			if a, l := w.acknowledged(); l > letters {
				return "dead letter"
			} else if a > acknowledged {
				return ""
			}
			w.settle(func() bool { a, l := w.acknowledged(); return a > acknowledged || l > letters })
		}
	}},
	{"fork", "`fork`", 2, func(w *answerWorld, form string) string {
		failed, all := w.ended()
		if _, err := w.run("fork", value.String(form)); err != nil {
			w.t.Fatal(err)
		}
		w.settle(func() bool { _, now := w.ended(); return now == all+2 })
		if now, _ := w.ended(); now > failed {
			return "logged"
		}
		return ""
	}},
	{"collect", "`collect`", 2, func(w *answerWorld, form string) string {
		if _, err := w.run("collect", value.String(form)); err != nil {
			return "error"
		}
		return ""
	}},
}

// acknowledged returns how many messages of the file were acknowledged, and how many were
// dead letters.
func (w *answerWorld) acknowledged() (good, letters float64) {
	for _, f := range w.engine.Metrics().Figures {
		if f.Node.Name != "file" {
			continue
		}
		switch f.Metric.Name {
		case "source_acknowledged_total":
			good += f.Metric.Value
		case "source_dead_letters_total":
			letters += f.Metric.Value
		}
	}
	return good, letters
}

// kept returns what a process has left: whether its row was committed, its session saved and
// its key marked.
func (w *answerWorld) kept(form string) (row, saved, marked bool) {
	rows, err := w.run("look", value.String("SELECT form FROM done"))
	if err != nil {
		w.t.Fatal(err)
	}
	seen, err := w.run("again", value.Null())
	if err != nil {
		w.t.Fatal(err)
	}
	has := func(list value.Value, of func(value.Value) value.Value) bool {
		for _, elem := range list.Elems() {
			if s, _ := of(elem).AsString(); s == form {
				return true
			}
		}
		return false
	}
	row = has(rows, func(v value.Value) value.Value { f, _ := v.Get("form"); return f })
	saved = has(seen, func(v value.Value) value.Value { return v })
	answer, _ := w.run("form", value.String(form)) // its error is that of the form
	text, _ := answer.AsString()
	return row, saved, text == "duplicate"
}

// TestAnswers sends each form of an answer through each trigger. What was committed, saved,
// marked and counted must agree with each other and with what the client was told, and with
// the table of docs/workflows.md.
func TestAnswers(t *testing.T) {
	cells := make(map[string][]string) // by form
	for _, trigger := range answerTriggers {
		t.Run(trigger.name, func(t *testing.T) {
			w := newAnswerWorld(t)
			for _, form := range forms {
				failed, before := w.ended()
				told := trigger.send(w, form.name)
				w.settle(func() bool { _, all := w.ended(); return all >= before+trigger.processes })
				now, _ := w.ended()
				row, saved, marked := w.kept(form.name)
				if row != saved || row != marked {
					t.Errorf("%s: committed %t, saved %t, marked %t", form.name, row, saved, marked)
				}
				if row == (now > failed) {
					t.Errorf("%s: committed %t, but %d processes were counted as failed", form.name, row, now-failed)
				}
				// An answer of a call is passed on, whatever it is.
				if told != "" && row || told == "" && !row && trigger.name != "call" {
					t.Errorf("%s: committed %t, but told %q", form.name, row, told)
				}
				cell := "kept"
				if !row {
					cell = "undone"
				}
				if told != "" && told != "error" {
					cell += ", " + told
				}
				cells[form.name] = append(cells[form.name], cell)
			}
		})
	}
	if t.Failed() {
		return
	}
	var table strings.Builder
	table.WriteString("| answer |")
	for _, trigger := range answerTriggers {
		table.WriteString(" " + trigger.doc + " |")
	}
	table.WriteString("\n|" + strings.Repeat(" --- |", len(answerTriggers)+1) + "\n")
	for _, form := range forms {
		table.WriteString("| " + form.doc + " | " + strings.Join(cells[form.name], " | ") + " |\n")
	}
	const page = "../../docs/workflows.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	place := regexp.MustCompile(`(?s)\| answer \| .*?\n\n`)
	if *updateAnswers {
		text = place.ReplaceAllLiteral(text, []byte(table.String()+"\n"))
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(place.Find(text)); got != table.String()+"\n" {
		t.Errorf("docs/workflows.md has another table: run go test ./nodes/std -run TestAnswers -update; got\n%s", table.String())
	}
}
