package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/deadletter"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

// orders is a workflow that fails for orders without a positive n.
const orders = `
- kind: file_source
  name: orders
  paths: [DIR/in.ndjson]
  follow: true
  rescan: 20ms
  retry: {threshold: 0}
  ports: {out: check, error: dead}
- kind: snippet
  name: check
  language: cel
  code: 'self.body.n > 0 ? {"body": {"n": self.body.n, "token": self.body.token}} : self.none.none'
  ports: {out: good}
- {kind: file_sink, name: good, path: DIR/good.ndjson}
- {kind: file_sink, name: dead, path: DIR/dead.ndjson}
- {kind: nop, name: other}
`

// A shop is a running program with a source and a file of dead letters.
type shop struct {
	t   *testing.T
	s   *Server
	e   *uniflow.Engine
	dir string
	ids map[string]string

	requeue func(context.Context, string, [][]byte) ([]node.Requeued, error) // in place of the engine's, if it is set
}

func openShop(t *testing.T) *shop {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs("cel"), Grace: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
	p := &shop{t: t, e: e, dir: t.TempDir(), ids: make(map[string]string)}
	p.write("in.ndjson", "")
	document := strings.ReplaceAll(orders, "DIR", p.dir)
	if list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(document)}}}); err != nil || list.HasErrors() {
		t.Fatal(list, err)
	}
	p.s = start(t, Options{
		Token: "all", ViewToken: "look", Status: e.Status, Metrics: e.Metrics, Outline: e.Describe, Links: e.Links, Redact: e.Redact, RedactValue: e.RedactValue,
		Requeue: func(ctx context.Context, id string, letters [][]byte) ([]node.Requeued, error) {
			if p.requeue != nil {
				return p.requeue(ctx, id, letters)
			}
			return e.Requeue(ctx, id, letters)
		},
	})
	for _, ref := range e.Status().Nodes {
		p.ids[ref.Name] = ref.ID
	}
	return p
}

// write appends to a file.
func (p *shop) write(name, text string) {
	p.t.Helper()
	f, err := os.OpenFile(filepath.Join(p.dir, name), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = io.WriteString(f, text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *shop) path() string { return "/api/v1/queues/" + p.ids["orders"] + "/dead" }

// letters asks until there are so many letters.
func (p *shop) letters(n int) []api.DeadLetter {
	p.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); ; <-tick.C {
		var page api.DeadLetters
		if status, text := asked(p.t, p.s, "all", "GET", p.path(), "", &page); status != 200 {
			p.t.Fatal(status, text)
		}
		if len(page.Letters) == n {
			return page.Letters
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("got %+v, want %d letters", page, n)
		}
	}
}

// send sends letters again, with a payload if there is one, and returns how they ended.
func (p *shop) send(text string, letters ...api.DeadLetter) string {
	p.t.Helper()
	var body api.Requeue
	for _, l := range letters {
		wanted := api.RequeueLetter{At: l.At, Sum: l.Sum}
		if text != "" {
			wanted.Text = &text
		}
		body.Letters = append(body.Letters, wanted)
	}
	data, err := json.Marshal(body)
	if err != nil {
		p.t.Fatal(err)
	}
	var ended []api.Requeued
	status, answer := asked(p.t, p.s, "all", "POST", p.path(), string(data), &ended)
	if status != 200 {
		return fmt.Sprint(status, " ", answer)
	}
	var outcomes []string
	for _, e := range ended {
		outcomes = append(outcomes, e.Outcome+e.Error)
	}
	return strings.Join(outcomes, " ")
}

func (p *shop) good() string {
	p.t.Helper()
	data, err := os.ReadFile(filepath.Join(p.dir, "good.ndjson"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		p.t.Fatal(err)
	}
	return string(data)
}

// TestDeadLetters lists the letters of a source that runs, sends them again, and takes them out of the file.
func TestDeadLetters(t *testing.T) {
	p := openShop(t)
	p.letters(0)
	p.write("in.ndjson", `{"n": 0, "token": "hunter2"}`+"\n")
	p.letters(1) // what fails at the same time is written in any order
	p.write("in.ndjson", `{"n": -1, "token": "hunter2"}`+"\n"+`{"n": 1, "token": "hunter2"}`+"\n")
	all := p.letters(2)
	first := all[0]
	if first.Failed != "check" || !strings.HasPrefix(first.Place, "flow.yaml:12:") || !strings.Contains(first.Reason, "no such key") || first.Attempts != "1" || first.Time == "" ||
		!strings.Contains(first.Payload.Text, `"n": 0`) || strings.Contains(first.Payload.Text, "hunter2") {
		t.Errorf("got %+v, %+v", first, first.Payload)
	}
	var queues []api.Queue
	if asked(t, p.s, "look", "GET", "/api/v1/queues", "", &queues); len(queues) == 0 {
		t.Error("got no queues")
	}
	for _, q := range queues {
		if q.Dead != (q.Node.Name == "orders") {
			t.Errorf("%s: got dead %v", q.Node.Name, q.Dead)
		}
	}
	if _, text := asked(t, p.s, "look", "GET", p.path(), "", nil); strings.Contains(text, "payload") || !strings.Contains(text, "no such key") {
		t.Errorf("one who looks gets %s", text)
	}

	// One that fails again is another letter at the end, with an edited payload; the source appends meanwhile.
	p.write("in.ndjson", `{"n": -2, "token": "x"}`+"\n")
	if got := p.send(strings.Replace(first.Payload.Text, `"n": 0`, `"n": -7`, 1), first); got != "failed" {
		t.Errorf("got %s", got)
	}
	all = p.letters(3)
	if all[0].At <= first.At || p.send("", first) != "gone" {
		t.Errorf("the letter is still there: %+v", all)
	}
	var again api.DeadLetter
	for _, l := range all {
		if strings.Contains(l.Payload.Text, `"n": -7`) {
			again = l
		}
	}
	if again.Sum == "" {
		t.Fatalf("got %+v, want the edited one", all)
	}
	// What is hidden stays as it was.
	if got := p.send(strings.Replace(again.Payload.Text, `"n": -7`, `"n": 7`, 1), again); got != "answered" {
		t.Errorf("got %s", got)
	}
	if p.letters(2); !strings.Contains(p.good(), `{"n":7,"token":"hunter2"}`) {
		t.Errorf("got %s, want what was edited, with its token", p.good())
	}
	for _, text := range []string{`{`, `7`, `{"body": {"n": 1, "other": "[redacted]"}}`} {
		if got := p.send(text, p.letters(2)[1]); !strings.HasPrefix(got, "400") {
			t.Errorf("%s: got %s", text, got)
		}
	}
	if got := p.send("", p.letters(2)...); got != "failed failed" {
		t.Errorf("got %s", got)
	}
	p.letters(2)
	if names, err := filepath.Glob(filepath.Join(p.dir, "*.requeue")); err != nil || len(names) > 0 {
		t.Errorf("got %q, %v", names, err)
	}
}

// TestDeadLettersStay keeps a letter that was not settled: the sending fails, or the program ends between that
// and the change of the file.
func TestDeadLettersStay(t *testing.T) {
	p := openShop(t)
	p.write("in.ndjson", `{"n": 0, "token": "x"}`+"\n")
	letter := p.letters(1)[0]
	fixed := strings.Replace(letter.Payload.Text, `"n": 0`, `"n": 3`, 1)
	p.requeue = func(ctx context.Context, id string, letters [][]byte) ([]node.Requeued, error) {
		if _, err := p.e.Requeue(ctx, id, letters); err != nil {
			t.Error(err)
		}
		return nil, errors.New("killed after it was sent")
	}
	if got := p.send(fixed, letter); !strings.HasPrefix(got, "409") || !strings.Contains(p.good(), `"n":3`) {
		t.Errorf("got %s and %s", got, p.good())
	}
	if got := p.letters(1)[0]; got.Sum != letter.Sum {
		t.Errorf("got %+v, want the letter as it was", got)
	}
	p.requeue = func(context.Context, string, [][]byte) ([]node.Requeued, error) {
		return []node.Requeued{node.NotRequeued}, nil
	}
	if got := p.send("", letter); got != "kept" || p.letters(1)[0].Sum != letter.Sum {
		t.Errorf("got %s", got)
	}
	p.requeue = nil
	lock, err := deadletter.Lock(filepath.Join(p.dir, "dead.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.send(fixed, letter); !strings.HasPrefix(got, "409") {
		t.Errorf("while another program sends them: got %s", got)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if got := p.send(fixed, letter); got != "answered" {
		t.Errorf("got %s", got)
	}
	p.letters(0)
}

// TestDeadLettersRefused answers what cannot be asked for.
func TestDeadLettersRefused(t *testing.T) {
	p := openShop(t)
	for _, f := range []struct {
		token, method, path, body string
		status                    int
	}{
		{"look", "POST", p.path(), `{"letters": [{"at": 0, "sum": ""}]}`, 403},
		{"all", "POST", p.path(), `{"letters": []}`, 400},
		{"all", "POST", p.path(), `{"letters": [{"at": 0, "sum": ""}], "file": 1}`, 400},
		{"all", "POST", p.path(), `{"letters": [{"at": -1, "sum": ""}]}`, 200},
		{"all", "GET", p.path() + "?file=1", "", 400},
		{"all", "GET", p.path() + "?from=-1", "", 400},
		{"all", "GET", "/api/v1/queues/none/dead", "", 404},
		{"all", "GET", "/api/v1/queues/" + p.ids["other"] + "/dead", "", 404},
	} {
		if status, text := asked(t, p.s, f.token, f.method, f.path, f.body, nil); status != f.status {
			t.Errorf("%s %s %s: got %d %s, want %d", f.method, f.path, f.body, status, text, f.status)
		}
	}
}
