package answers_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/test/answers"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

var update = flag.Bool("update", false, "write the table of answers in docs/workflows.md")

// begin is [answers.Trigger.Begin].
type begin = func(w *answers.World) (specs string, send func(form string) (failure string))

// columns are the columns of the table. Triggers with one rule share a column.
var columns = []struct {
	doc, failure string
	triggers     []answers.Trigger
}{
	{"`listener`", "the status", []answers.Trigger{
		{Name: "listener", Processes: 1, Begin: web("", "form", overHTTP)},
	}},
	{"`listener`, in parts", "the connection is cut, events end with `error`", []answers.Trigger{
		{Name: "parts", Processes: 1, Failure: "cut", Begin: inParts("")},
		{Name: "events", Processes: 1, Failure: "cut", Begin: inParts("text/event-stream")},
	}},
	{"`call`, tests", "an error; a status as it is", []answers.Trigger{
		{Name: "call", Processes: 1, Passes: true, Failure: "error", Begin: run("form", "", value.String)},
	}},
	{"`websocket`, `mcp`, replies of sources", "`websocket` closes, others send an error", []answers.Trigger{
		{Name: "websocket", Processes: 2, Failure: "closed", Begin: web("- {kind: websocket, name: socket, ports: {out: [{name: form}]}}", "socket", overSocket)},
		{Name: "mcp", Processes: 2, Failure: "error", Begin: web("- {kind: mcp, name: tools, tools: [{name: run, description: Runs., input: {properties: {form: {type: string}}}}], ports: {out: [{name: form}]}}", "tools", overMCP)},
		{Name: "socket_source", Processes: 1, Failure: "error", Begin: overLines},
	}},
	{"`chat`", "an apology", []answers.Trigger{
		{Name: "chat", Processes: 2, Failure: "apology", Begin: web("- {kind: chat, name: desk, path: /, secret: 0123456789abcdef, ports: {out: [{name: form}]}}", "desk", overChat)},
	}},
	{"all others", "sources: a dead letter; `for`, `collect`: an error; `init`, `active`: no start; others: in the log", []answers.Trigger{
		{Name: "file_source", Processes: 1, Failure: "dead letter", Begin: inFile},
		{Name: "for", Processes: 1, Failure: "error", Begin: run("each", "- {kind: for, name: each, ports: {'out[0]': [{name: form}], 'out[1]': [{name: dead}]}}\n", func(form string) value.Value { return value.List(value.String(form)) })},
		{Name: "collect", Processes: 2, Failure: "error", Begin: run("collect", "- {kind: collect, name: collect, count: 1, ports: {out: [{name: first}]}}\n- {kind: snippet, name: first, language: cel, code: 'self[0]', ports: {out: [{name: form}]}}\n", value.String)},
		{Name: "fork", Processes: 2, Failure: "logged", Begin: inChild},
		{Name: "schedule", Processes: 1, Failure: "logged", Begin: onTime},
		start("init"), start("active"), end("deactive"), end("deinit"),
	}},
}

// inParts answers in parts, in a form that the client accepts.
func inParts(accept string) begin {
	return web("- {kind: snippet, name: first, language: text, code: part, ports: {out: [{name: part}]}}\n- {kind: emit, name: part}", "first}, {name: form", func(w *answers.World, port int, form string) string {
		resp := request(w.T.Context(), w, port, "text/plain", accept, form)
		defer resp.Body.Close()
		switch data, err := io.ReadAll(resp.Body); {
		case resp.StatusCode != http.StatusOK || !bytes.Contains(data, []byte("part")):
			w.T.Fatalf("%s: got %s %q", form, resp.Status, data)
		case err != nil || bytes.Contains(data, []byte("event: error\n")):
			return "cut"
		}
		return ""
	})
}

// web serves a node, and sends it requests.
func web(specs, target string, send func(w *answers.World, port int, form string) string) begin {
	return func(w *answers.World) (string, func(string) string) {
		port := freeport.Port(w.T)
		return fmt.Sprintf("- {kind: listener, name: web, host: 127.0.0.1, port: %d, ports: {out: [{name: %s}]}}\n%s\n", port, target, specs),
			func(form string) string { return send(w, port, form) }
	}
}

func request(ctx context.Context, w *answers.World, port int, contentType, accept, body string) *http.Response {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("http://127.0.0.1:%d/messages", port), strings.NewReader(body))
	if err != nil {
		w.T.Fatal(err)
	}
	req.Header.Set("Content-Type", contentType)
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		w.T.Fatal(err)
	}
	return resp
}

// post sends a request, and returns the status and the body.
func post(w *answers.World, port int, contentType, accept, body string) string {
	resp := request(w.T.Context(), w, port, contentType, accept, body)
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return fmt.Sprintf("%d %s", resp.StatusCode, data)
}

func overHTTP(w *answers.World, port int, form string) string {
	if got := post(w, port, "text/plain", "", form); got[0] >= '4' {
		return got[:3]
	}
	return ""
}

func overMCP(w *answers.World, port int, form string) string {
	if strings.Contains(post(w, port, "application/json", "application/json, text/event-stream", `{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "run", "arguments": {"form": "`+form+`"}}}`), `"isError":true`) {
		return "error"
	}
	return ""
}

func overChat(w *answers.World, port int, form string) string {
	if strings.Contains(post(w, port, "application/json", "", `{"text": "`+form+`", "wait": true}`), `"failed":true`) {
		return "apology"
	}
	return ""
}

// run calls a node.
func run(name, specs string, payload func(form string) value.Value) begin {
	return func(w *answers.World) (string, func(string) string) {
		return specs, func(form string) string {
			if _, err := w.Run(name, payload(form)); err != nil {
				return "error"
			}
			return ""
		}
	}
}

func overSocket(w *answers.World, port int, form string) string {
	_, before := w.Ended()
	c, _, err := websocket.Dial(w.T.Context(), fmt.Sprintf("ws://127.0.0.1:%d/", port), nil)
	if err != nil {
		w.T.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(w.T.Context(), websocket.MessageText, []byte(`"`+form+`"`)); err != nil {
		w.T.Fatal(err)
	}
	if form == "none" { // a client that vanishes ends its process
		w.Settle(func() bool { _, all := w.Ended(); return all >= before+2 })
		return ""
	}
	if _, _, err = c.Read(w.T.Context()); websocket.CloseStatus(err) == websocket.StatusInternalError {
		return "closed"
	} else if err != nil {
		w.T.Fatal(err)
	}
	return ""
}

func overLines(w *answers.World) (string, func(string) string) {
	port := freeport.Port(w.T)
	return fmt.Sprintf("- {kind: socket_source, name: source, address: '127.0.0.1:%d', decode: text, reply: true, order: key, retry: {threshold: 0}, ports: {out: [{name: form}], error: [{name: dead}]}}\n", port),
		func(form string) string {
			c, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", port))
			if err != nil {
				w.T.Fatal(err)
			}
			defer c.Close()
			if _, err := io.WriteString(c, form+"\n"); err != nil {
				w.T.Fatal(err)
			}
			if form == "none" {
				return ""
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err != nil {
				w.T.Fatal(err)
			}
			if strings.HasPrefix(line, `{"error"`) {
				return "error"
			}
			return ""
		}
}

func inFile(w *answers.World) (string, func(string) string) {
	path := filepath.Join(w.Folder, "in.txt")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		w.T.Fatal(err)
	}
	return "- {kind: file_source, name: source, paths: ['" + path + "'], format: lines, follow: true, retry: {threshold: 0}, ports: {out: [{name: form}], error: [{name: dead}]}}\n",
		func(form string) string {
			return w.Letter(func() {
				f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
				if err != nil {
					w.T.Fatal(err)
				}
				_, err = io.WriteString(f, form+"\n")
				if err = errors.Join(err, f.Close()); err != nil {
					w.T.Fatal(err)
				}
			})
		}
}

func inChild(w *answers.World) (string, func(string) string) {
	return "- {kind: fork, name: fork, ports: {out: [{name: form}]}}\n", func(form string) string {
		return w.Logged(func() {
			_, all := w.Ended()
			if _, err := w.Run("fork", value.String(form)); err != nil {
				w.T.Fatal(err)
			}
			w.Settle(func() bool { _, now := w.Ended(); return now == all+2 })
		})
	}
}

func onTime(w *answers.World) (string, func(string) string) {
	return "", func(form string) string {
		return w.Logged(func() {
			apply(w, "- {kind: schedule, name: tick, interval: 20ms, payload: '"+form+"', ports: {out: [{name: form}]}}")
			_, all := w.Ended() // with the workflow at the port active
			w.Settle(func() bool { _, now := w.Ended(); return now > all })
			apply(w, "")
		})
	}
}

func apply(w *answers.World, more string) {
	if err := w.Apply(more); err != nil {
		w.T.Fatal(err)
	}
}

// starts runs the workflow at a lifecycle port of a node that one more generation has. It
// returns why that does not start.
func starts(w *answers.World, port, form string) error {
	return w.Apply(fmt.Sprintf("- {kind: nop, name: starts, ports: {%s: [{name: which}]}}\n- {kind: snippet, name: which, language: text, code: '%s', ports: {out: [{name: form}]}}\n", port, form))
}

func start(port string) answers.Trigger {
	return answers.Trigger{Name: port, Processes: 1, Failure: "no start", Begin: func(w *answers.World) (string, func(string) string) {
		return "", func(form string) string {
			if starts(w, port, form) != nil {
				return "no start"
			}
			apply(w, "")
			return ""
		}
	}}
}

func end(port string) answers.Trigger {
	return answers.Trigger{Name: port, Processes: 1, Failure: "logged", Begin: func(w *answers.World) (string, func(string) string) {
		return "", func(form string) string {
			return w.Logged(func() {
				if err := starts(w, port, form); err != nil {
					w.T.Fatal(err)
				}
				apply(w, "")
			})
		}
	}}
}

// TestAnswers sends each form of an answer through each trigger. What was sent, committed,
// saved, marked, acknowledged and counted must agree with each other, and with the table of
// docs/workflows.md.
func TestAnswers(t *testing.T) {
	var all []answers.Column
	for _, c := range columns {
		column := answers.Column{Doc: c.doc, Failure: c.failure}
		for _, trigger := range c.triggers {
			t.Run(trigger.Name, func(t *testing.T) {
				cells := answers.Cells(t, trigger)
				if column.Cells == nil {
					column.Cells = cells
				}
				if !slices.Equal(cells, column.Cells) {
					t.Errorf("got %q, and from %s %q", cells, c.triggers[0].Name, column.Cells)
				}
			})
		}
		all = append(all, column)
	}
	if !t.Failed() {
		answers.Check(t, all, *update)
	}
}

// TestAnswerWithoutClient has a client that leaves while an answer is sent in parts.
func TestAnswerWithoutClient(t *testing.T) {
	leaves := answers.Trigger{Processes: 1}
	leaves.Begin = web("", "form", func(w *answers.World, port int, form string) string {
		ctx, leave := context.WithCancel(w.T.Context())
		defer leave()
		resp := request(ctx, w, port, "text/plain", "", form)
		defer resp.Body.Close()
		if part, err := bufio.NewReader(resp.Body).ReadString('}'); err != nil {
			w.T.Errorf("got %q and %v, want a part with the row", part, err)
		}
		return "left"
	})
	if got := answers.NewWorld(t, leaves).Send(leaves, "left"); got != "undone, left" {
		t.Errorf("got %q, want the process undone", got)
	}
}
