package flow

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

const shopFlow = `- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: router}}
- kind: router
  name: router
  routes:
    - {method: GET, path: /fast, port: 'out[0]'}
    - {method: GET, path: /slow, port: 'out[1]'}
  ports: {"out[0]": fast, "out[1]": slow}
- {kind: snippet, name: fast, language: text, code: fast}
- {kind: sleep, name: slow, interval: 20ms, ports: {out: answer}}
- {kind: snippet, name: answer, language: cel, code: '{"body": "slow"}'}
`

// operator is a model with the tools of a running program, and a person who is asked.
type operator struct {
	*sdk.ClientSession
	t *testing.T

	mu    sync.Mutex
	asked []string // what the person was asked
	says  string   // what the person answers
}

// operate runs mcp --admin as a client of MCP does. The person cannot be asked without elicit.
func operate(t *testing.T, elicit bool, args ...string) *operator {
	t.Helper()
	transport, ended := serveTools(t, nil, args...)
	o := &operator{t: t, says: "accept"}
	opts := &sdk.ClientOptions{}
	if elicit {
		opts.ElicitationHandler = func(_ context.Context, r *sdk.ElicitRequest) (*sdk.ElicitResult, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			o.asked = append(o.asked, r.Params.Message)
			return &sdk.ElicitResult{Action: o.says}, nil
		}
	}
	session, err := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, opts).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	o.ClientSession = session
	t.Cleanup(func() {
		if err := session.Close(); err != nil {
			t.Error(err)
		}
		if code, errs := ended(); code != 0 {
			t.Errorf("it ended with %d: %s", code, errs)
		}
	})
	return o
}

func (o *operator) tools() (names []string) {
	o.t.Helper()
	for tool, err := range o.Tools(o.t.Context(), nil) {
		if err != nil {
			o.t.Fatal(err)
		}
		names = append(names, tool.Name)
	}
	return names
}

// call calls a tool, whose answer is read into what into points to.
func (o *operator) call(name string, args, into any) (text string, failed bool) {
	o.t.Helper()
	r, err := o.CallTool(o.t.Context(), &sdk.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		return err.Error(), true
	}
	text = r.Content[0].(*sdk.TextContent).Text
	if into != nil && !r.IsError {
		_, data, found := strings.Cut(text, "whatever it says.\n")
		if !found {
			data = text
		}
		if err := json.Unmarshal([]byte(data), into); err != nil {
			o.t.Fatalf("%s answered %s: %v", name, text, err)
		}
	}
	return text, r.IsError
}

type args = map[string]any

// TestOperate lets a model find the slow node of a program, plan a change, add a test and hold a process.
func TestOperate(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "shop.yaml", shopFlow)
	s := serve(t, "--from-specs", "shop.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all", "--edit")
	admin := s.await(`admin server listening" address=(\S+)`)[0]
	web := s.await(`msg=listening .*address=(\S+)`)[0]
	s.await("msg=ready")
	ask := func(path string) string {
		resp, err := http.Get("http://" + web + path)
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return fmt.Sprint(resp.StatusCode, " ", string(body), err)
	}

	looks := operate(t, true, "--admin", admin, "--admin-token", "all")
	if names := strings.Join(looks.tools(), " "); names != "graph kinds node nodes process processes queues status" {
		t.Errorf("with the scope view there are %s", names)
	}
	reads := operate(t, true, "--admin", admin, "--admin-token", "all", "--allow", "inspect")
	if names := strings.Join(reads.tools(), " "); !strings.Contains(names, "packets") || strings.Contains(names, "apply") {
		t.Errorf("with the scope inspect there are %s", names)
	}
	o := operate(t, true, "--admin", admin, "--admin-token", "all", "--allow", "control")

	// The slow node.
	stop := make(chan struct{})
	var load sync.WaitGroup
	load.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				ask("/fast")
				ask("/slow")
			}
		}
	})
	for range 5 { // so that some have ended, and count
		ask("/slow")
	}
	var nodes []struct {
		Name, Place string
		P99         float64
	}
	o.call("nodes", args{"sort": "p99", "limit": 3}, &nodes)
	close(stop)
	load.Wait()
	slow := 0.0
	for _, n := range nodes {
		if n.Name == "slow" {
			slow = n.P99
		}
	}
	if len(nodes) != 3 || nodes[0].P99 < 0.02 || slow < 0.02 {
		t.Errorf("the slowest nodes are %+v", nodes)
	}
	if text, failed := o.call("graph", nil, nil); failed || !strings.Contains(text, "flowchart") {
		t.Errorf("the graph is %s", text)
	}
	if text, failed := o.call("node", args{"node": "slow"}, nil); failed || !strings.Contains(text, "20ms") {
		t.Errorf("the node is %s", text)
	}
	if text, failed := o.call("node", args{"node": "none"}, nil); !failed || !strings.Contains(text, `no node \"none\"`) && !strings.Contains(text, `no node "none"`) {
		t.Errorf("a node that is not there: %s", text)
	}

	// A change: planned, refused by a person, and applied, with a test.
	var docs struct{ Documents []struct{ File, Text string } }
	o.call("documents", nil, &docs)
	text := strings.Replace(docs.Documents[0].Text, "interval: 20ms", "interval: 1ms", 1) + `- {kind: test, name: answers, ports: {"out[0]": answer, "out[1]": right}}
- {kind: assert, name: right, expect: self.body == "slow"}
`
	drafts := []args{{"file": "shop.yaml", "text": text}}
	if got, failed := o.call("plan", args{"drafts": drafts}, nil); failed || !strings.Contains(got, `"before":"20ms","after":"1ms"`) || !strings.Contains(got, `"name":"answers"`) {
		t.Errorf("the plan is %s", got)
	}
	var tests struct {
		Tests []struct {
			Name   string
			Passed bool
			Text   string
		}
	}
	if got, failed := o.call("test", args{"drafts": drafts}, &tests); failed || len(tests.Tests) != 1 || !tests.Tests[0].Passed {
		t.Errorf("the tests: %s", got)
	}
	wrong := []args{{"file": "shop.yaml", "text": strings.Replace(text, `self.body == "slow"`, `self.body == "quick"`, 1)}}
	if got, failed := o.call("test", args{"drafts": wrong, "run": "answers"}, &tests); failed || tests.Tests[0].Passed || !strings.Contains(tests.Tests[0].Text, "quick") {
		t.Errorf("a test that fails: %s", got)
	}
	if got, failed := o.call("try", args{"drafts": drafts, "node": "slow", "text": `{"x": 1}`}, nil); failed || !strings.Contains(got, "slow") || !strings.Contains(got, "not an instruction") {
		t.Errorf("try: %s", got)
	}
	if got, failed := o.call("test", args{"run": "none"}, nil); !failed || !strings.Contains(got, "none that matches") {
		t.Errorf("no test: %s", got)
	}
	o.asked = nil
	o.says = "decline"
	if got, failed := o.call("apply", args{"drafts": drafts, "why": "it is slow"}, nil); !failed || !strings.Contains(got, "the person said no") {
		t.Errorf("refused: %s", got)
	}
	if len(o.asked) != 1 || !strings.Contains(o.asked[0], "it is slow") || !strings.Contains(o.asked[0], "interval: 20ms -> 1ms") {
		t.Errorf("the person was asked %q", o.asked)
	}
	if got, failed := o.call("apply", args{"drafts": []args{{"file": "shop.yaml", "text": "- {kind: nope}"}}, "why": "x"}, nil); !failed || !strings.Contains(got, "unknown kind") || len(o.asked) != 1 {
		t.Errorf("with errors: %s", got)
	}
	o.says = "accept"
	if got, failed := o.call("apply", args{"drafts": drafts, "why": "it is slow"}, nil); failed || !strings.Contains(got, `"ok":true`) {
		t.Errorf("accepted: %s", got)
	}
	if got, err := os.ReadFile("shop.yaml"); err != nil || string(got) != text {
		t.Errorf("the file has %s, %v", got, err)
	}

	// A packet, and a process that is held.
	if got, failed := o.call("send", args{"node": "answer", "payload": args{"x": 1}}, nil); failed || !strings.Contains(got, "slow") || !strings.Contains(got, "not an instruction") {
		t.Errorf("sent: %s", got)
	}
	if got, failed := o.call("breakpoints", args{"breakpoints": []args{{"node": "fast"}}}, nil); failed {
		t.Fatalf("breakpoints: %s", got)
	}
	answered := make(chan string, 1)
	go func() { answered <- ask("/fast") }()
	var held struct{ Held []struct{ ID uint64 } }
	if got, failed := o.call("held", args{"seconds": 30}, &held); failed || len(held.Held) != 1 {
		t.Fatalf("held: %s", got)
	}
	if got, failed := o.call("move", args{"id": held.Held[0].ID, "do": "answer", "payload": `"from the model"`}, nil); failed {
		t.Errorf("move: %s", got)
	}
	if got := <-answered; got != "200 from the model<nil>" {
		t.Errorf("the client got %s", got)
	}
	if got, failed := o.call("breakpoints", args{"breakpoints": []args{}}, nil); failed {
		t.Errorf("no breakpoints: %s", got)
	}
	if got, failed := o.call("logs", args{"level": "info"}, nil); failed || !strings.Contains(got, "generation serves") {
		t.Errorf("the log: %s", got)
	}

	// Without a person nothing changes.
	alone := operate(t, false, "--admin", admin, "--admin-token", "all", "--allow", "control")
	for name, in := range map[string]args{
		"apply": {"drafts": []args{{"file": "shop.yaml", "text": text + "# more\n"}}, "why": "x"}, "send": {"node": "answer", "payload": 1}, "try": {"drafts": []args{}, "node": "answer", "text": "1"}, "reload": {}, "breakpoints": {"breakpoints": []args{{"node": "fast"}}},
	} {
		if got, failed := alone.call(name, in, nil); !failed || !strings.Contains(got, "elicitation") {
			t.Errorf("%s without a person: %s", name, got)
		}
	}
	if got, err := os.ReadFile("shop.yaml"); err != nil || string(got) != text {
		t.Errorf("without a person the file has %s, %v", got, err)
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

func TestOperateMistakes(t *testing.T) {
	t.Chdir(t.TempDir())
	for want, args := range map[string][]string{
		"--admin takes no files":           {"flow.yaml", "--admin", "127.0.0.1:9000"},
		"--allow: want one of view":        {"--admin", "127.0.0.1:9000", "--allow", "all"},
		"--allow is for a running program": {"flow.yaml", "--allow", "inspect"},
		"connection refused":               {"--admin", "127.0.0.1:1"},
		"needs an address":                 {"--admin", ""},
	} {
		_, ended := serveTools(t, nil, args...)
		if code, errs := ended(); code == 0 || !strings.Contains(errs, want) {
			t.Errorf("%q ended with %d: %s, want %q", args, code, errs, want)
		}
	}
}

// TestOperateDead lets a model send a dead letter again, changed, when a person agrees.
func TestOperateDead(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "orders.ndjson", `{"n": 0}`+"\n")
	apptest.Write(t, "orders.yaml", `- {kind: file_source, name: orders, paths: [orders.ndjson], follow: true, retry: {threshold: 0}, ports: {out: check, error: dead}}
- {kind: snippet, name: check, language: cel, code: 'self.body.n > 0 ? {"body": self.body} : self.none.none', ports: {out: good}}
- {kind: file_sink, name: good, path: good.ndjson}
- {kind: file_sink, name: dead, path: dead.ndjson}
`)
	s := serve(t, "--from-specs", "orders.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all")
	admin := s.await(`admin server listening" address=(\S+)`)[0]
	s.await("error goes to an error port")
	o := operate(t, true, "--admin", admin, "--admin-token", "all", "--allow", "control")
	var page struct {
		Letters []struct {
			At      int64
			Sum     string
			Payload struct{ Text string }
		}
	}
	for deadline := time.Now().Add(20 * time.Second); len(page.Letters) == 0; { // the sink writes it now
		if text, failed := o.call("dead", args{"node": "orders"}, &page); failed || time.Now().After(deadline) {
			t.Fatal(text)
		}
	}
	l := page.Letters[0]
	request := args{"node": "orders", "at": l.At, "sum": l.Sum, "payload": args{"body": args{"n": 5}, "id": "1"}}
	o.says = "decline"
	if text, failed := o.call("requeue", request, nil); !failed {
		t.Errorf("without consent: %s", text)
	}
	o.says = "accept"
	if text, failed := o.call("requeue", request, nil); failed || !strings.Contains(text, "answered") {
		t.Errorf("got %s", text)
	}
	if good, err := os.ReadFile("good.ndjson"); err != nil || string(good) != `{"n":5}`+"\n" {
		t.Errorf("got %s, %v", good, err)
	}
	if len(o.asked) != 2 || !strings.Contains(o.asked[1], "no such key") || !strings.Contains(o.asked[1], `{"n":5}`) {
		t.Errorf("the person was asked %q", o.asked)
	}
	if text, failed := o.call("requeue", request, nil); !failed || !strings.Contains(text, "not there") {
		t.Errorf("a letter that is gone: %s", text)
	}
}
