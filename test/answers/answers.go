// Package answers compares what follows from the answers of processes.
//
// [Forms] are the answers, and a [Trigger] is one way to start the process that gives them.
// [Cells] sends each form through a trigger: what was sent, committed, saved, marked,
// acknowledged and counted must agree. The package must not know any trigger, so that tests
// of other modules have triggers of their own.
package answers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// A Form is an answer of a process.
type Form struct{ Name, Doc, code string } // code is an expression in JavaScript

// Forms returns all of them.
func Forms() []Form { return slices.Clone(forms) }

var forms = []Form{
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
	{"commit", "any, if the commit breaks a constraint", `"ok"`},
}

// document has what each trigger sends to: the node form. It marks a key, has a session and a
// transaction, and then answers in the form that the message names.
const document = `
- {kind: snippet, name: form, language: javascript, code: 'export default (p) => typeof p === "string" ? p : (p.form ?? p.text ?? p.body).trim()', ports: {out: [{name: once}]}}
- {kind: dedupe, name: once, key: self, ports: {out: [{name: keep}], duplicate: [{name: duplicate}]}}
- {kind: snippet, name: duplicate, language: text, code: duplicate}
- {kind: session, name: keep, key: '"all"', ports: {out: [{name: note}]}}
- {kind: remember, name: note, append: {seen: '${self}'}, ports: {out: [{name: statement}]}}
- {kind: snippet, name: statement, language: cel, code: '["INSERT INTO done VALUES (?, ?) RETURNING form", [self, self == "commit" ? "nowhere" : null]]', ports: {out: [{name: insert}]}}
- {kind: sql, name: insert, driver: sqlite, source: '%[1]s/answers.db', ports: {active: [{name: table}], out: [{name: kind}]}}
- {kind: snippet, name: table, language: text, code: 'CREATE TABLE IF NOT EXISTS done (form TEXT PRIMARY KEY, after TEXT REFERENCES done DEFERRABLE INITIALLY DEFERRED)', ports: {out: [{name: look}]}}
- kind: switch
  name: kind
  matches: [{when: 'self[0].form == "none"', port: 'out[0]'}, {when: 'self[0].form == "error"', port: 'out[1]'}, {when: 'self[0].form == "missing"', port: 'out[2]'}, {when: 'self[0].form == "left"', port: 'out[3]'}, {when: 'true', port: 'out[4]'}]
  ports: {'out[0]': [{name: nothing}], 'out[1]': [{name: fails}], 'out[2]': [{name: lacks}], 'out[3]': [{name: inserted}, {name: waits}], 'out[4]': [{name: answer}]}
- {kind: nop, name: nothing}
- {kind: throw, name: fails}
- {kind: throw, name: lacks, status: 404}
- {kind: emit, name: inserted}
- {kind: sleep, name: waits, interval: 1h}
- kind: snippet
  name: answer
  language: javascript
  code: |
    const forms = {%[2]s}
    export default (rows) => forms[rows[0].form]()

- {kind: sql, name: look, driver: sqlite, source: '%[1]s/answers.db'}
- {kind: session, name: again, key: '"all"', ports: {out: [{name: load}]}}
- {kind: recall, name: load, ports: {out: [{name: seen}]}}
- {kind: snippet, name: seen, language: cel, code: 'has(session.seen) ? session.seen : []'}
- {kind: snippet, name: dead, language: text, code: dead}
`

// A Trigger is one way to start a process.
type Trigger struct {
	Name      string
	Processes uint64 // of a message, at least
	Passes    bool   // it gives an answer to its caller, whatever that is
	Failure   string // what send returns of each failure; if empty, that is part of the cell

	// Begin returns the specs of the trigger, which send to the node form. A source is
	// called source, and sends its dead letters to the node dead. send sends a form, and
	// returns how the client learned of a failure: "" if it got an answer, or nothing.
	Begin func(w *World) (specs string, send func(form string) (failure string))
}

// A World serves the document with one trigger.
type World struct {
	T      *testing.T
	Engine *uniflow.Engine
	Folder string
	Log    syncbuffer.Buffer

	text    string
	applied int // generations
	send    func(form string) string
}

// NewWorld serves a trigger.
func NewWorld(t *testing.T, trigger Trigger) *World {
	w := &World{T: t, Folder: t.TempDir()}
	var code strings.Builder
	for _, f := range forms {
		if f.code != "" {
			fmt.Fprintf(&code, "%s: () => %s, ", f.Name, f.code)
		}
	}
	specs, send := trigger.Begin(w)
	w.text, w.send = fmt.Sprintf(document, w.Folder, code.String())+specs, send
	var err error
	log := slog.New(slog.NewTextHandler(&w.Log, &slog.HandlerOptions{Level: slog.LevelInfo}))
	if w.Engine, err = uniflow.New(uniflow.Options{Kinds: std.Defs(""), Metrics: true, Log: log}); err != nil {
		t.Fatal(err)
	}
	if err := w.Apply(""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Engine.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// Apply serves the document with more specs, and waits until the generation before has ended.
func (w *World) Apply(more string) error {
	source := uniflow.Source{Documents: []spec.Document{{File: "answers.yaml", Data: []byte(w.text + more)}}}
	list, err := w.Engine.Apply(w.T.Context(), source)
	if list.HasErrors() {
		w.T.Fatal(list)
	}
	if err == nil {
		w.applied++
		w.Settle(func() bool { return strings.Count(w.Log.String(), "generation drained") >= w.applied-1 })
	}
	return err
}

// Run runs a node by name.
func (w *World) Run(name string, payload value.Value) (answer value.Value, err error) {
	answer, _, err = w.Engine.Run(w.T.Context(), name, payload)
	return answer, err
}

// Ended returns how many processes have failed and ended.
func (w *World) Ended() (failed, all uint64) {
	for outcome, n := range w.Engine.Metrics().Ended {
		all += n
		if o := observe.Outcome(outcome); o == observe.Failed || o == observe.Cancelled {
			failed += n
		}
	}
	return failed, all
}

// Settle waits until no process runs.
func (w *World) Settle(until func() bool) {
	w.T.Helper()
	deadline := time.Now().Add(time.Minute)
	for tick := time.NewTicker(time.Millisecond); ; <-tick.C {
		if w.Engine.Status().InFlight == 0 && until() {
			tick.Stop()
			return
		}
		if time.Now().After(deadline) {
			w.T.Fatalf("the processes do not end: %v", w.Engine.Metrics().Figures)
		}
	}
}

// Acknowledged returns how many messages of the source were acknowledged, and how many were
// dead letters; not ok without a source.
func (w *World) Acknowledged() (good, letters float64, ok bool) {
	for _, f := range w.Engine.Metrics().Figures {
		if f.Node.Name != "source" {
			continue
		}
		switch f.Metric.Name {
		case "source_acknowledged_total":
			good, ok = good+f.Metric.Value, true
		case "source_dead_letters_total":
			letters += f.Metric.Value
		}
	}
	return good, letters, ok
}

// Letter waits until the source has settled one more message than before, and returns
// "dead letter" if it became one.
func (w *World) Letter(send func()) (failure string) {
	good, letters, _ := w.Acknowledged()
	send()
	w.Settle(func() bool { g, l, _ := w.Acknowledged(); return g+l > good+letters })
	if _, now, _ := w.Acknowledged(); now > letters {
		return "dead letter"
	}
	return ""
}

// Logged returns "logged" if a process has failed in f, which must be in the log.
func (w *World) Logged(f func()) string {
	before, failures := len(w.Log.String()), func() uint64 { failed, _ := w.Ended(); return failed }
	failed := failures()
	if f(); failures() == failed {
		return ""
	}
	w.Settle(func() bool { return strings.Contains(w.Log.String()[before:], "level=ERROR") })
	return "logged"
}

// kept returns what a process has left: whether its row was committed, its session saved and
// its key marked.
func (w *World) kept(form string) (row, saved, marked bool) {
	rows, err := w.Run("look", value.String("SELECT form FROM done"))
	if err != nil {
		w.T.Fatal(err)
	}
	seen, err := w.Run("again", value.Null())
	if err != nil {
		w.T.Fatal(err)
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
	if form == "left" { // its client has gone, and gets no answer about a duplicate
		return row, saved, row
	}
	answer, _ := w.Run("form", value.String(form)) // its error is the answer to the form
	text, _ := answer.AsString()
	return row, saved, text == "duplicate"
}

// Send sends a form, and returns what followed, as the table has it. What was answered,
// committed, saved, marked, acknowledged and counted must agree.
func (w *World) Send(trigger Trigger, form string) string {
	t := w.T
	failed, before := w.Ended()
	good, letters, source := w.Acknowledged()
	failure := w.send(form)
	w.Settle(func() bool {
		_, all := w.Ended()
		g, l, _ := w.Acknowledged()
		return all >= before+trigger.Processes && (!source || g+l > good+letters)
	})
	now, _ := w.Ended()
	nowGood, nowLetters, _ := w.Acknowledged()
	row, saved, marked := w.kept(form)
	if row != saved || row != marked {
		t.Errorf("%s: committed %t, saved %t, marked %t", form, row, saved, marked)
	}
	if row == (now > failed) {
		t.Errorf("%s: committed %t, but %d processes were counted as failed", form, row, now-failed)
	}
	if source && (row != (nowGood == good+1) || row != (nowLetters == letters)) {
		t.Errorf("%s: committed %t, but %v messages were acknowledged, and %v dead letters", form, row, nowGood-good, nowLetters-letters)
	}
	if failure != "" && row || failure == "" && !row && !trigger.Passes {
		t.Errorf("%s: committed %t, but the failure is %q", form, row, failure)
	}
	switch {
	case row:
		return "kept"
	case trigger.Failure == "":
		return "undone, " + failure
	case failure != "" && failure != trigger.Failure:
		t.Errorf("%s: got the failure %q, want %q", form, failure, trigger.Failure)
	}
	return "undone"
}

// Cells returns what followed from each of [Forms].
func Cells(t *testing.T, trigger Trigger) (cells []string) {
	w := NewWorld(t, trigger)
	for _, form := range forms {
		cells = append(cells, w.Send(trigger, form.Name))
	}
	return cells
}

// page has the table of answers.
const page = "../../docs/workflows.md"

var table = regexp.MustCompile(`(?s)\| answer \| .*?\n\n`)

// A Column of the table has triggers with the same cells.
type Column struct {
	Doc     string
	Failure string // how the triggers report a failure
	Cells   []string
}

// Check compares the table with columns. With update, it writes the table of the page.
func Check(t *testing.T, columns []Column, update bool) {
	var b strings.Builder
	b.WriteString("| answer |")
	for _, c := range columns {
		b.WriteString(" " + c.Doc + " |")
	}
	b.WriteString("\n|" + strings.Repeat(" --- |", len(columns)+1) + "\n")
	for i, form := range forms {
		b.WriteString("| " + form.Doc + " |")
		for _, c := range columns {
			b.WriteString(" " + c.Cells[i] + " |")
		}
		b.WriteByte('\n')
	}
	b.WriteString("| *how a failure is reported* |")
	for _, c := range columns {
		b.WriteString(" " + c.Failure + " |")
	}
	b.WriteString("\n\n")
	text := read(t)
	if update {
		text = table.ReplaceAllLiteral(text, []byte(b.String()))
		if err := os.WriteFile(page, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(table.Find(text)); got != b.String() {
		t.Errorf("docs/workflows.md has another table: run go test ./test/answers -update; got\n%s", b.String())
	}
}

// Documented returns the cells of the column of the table whose heading has a text.
func Documented(t *testing.T, heading string) (cells []string) {
	lines := strings.Split(strings.TrimSpace(string(table.Find(read(t)))), "\n")
	at := slices.IndexFunc(strings.Split(lines[0], " | "), func(name string) bool { return strings.Contains(name, heading) })
	if at < 1 || len(lines) != len(forms)+3 {
		t.Fatalf("the table of docs/workflows.md has no column %q, or not all rows", heading)
	}
	for _, line := range lines[2 : len(lines)-1] {
		cells = append(cells, strings.TrimSuffix(strings.Split(line, " | ")[at], " |"))
	}
	return cells
}

func read(t *testing.T) []byte {
	text, err := os.ReadFile(filepath.FromSlash(page))
	if err != nil {
		t.Fatal(err)
	}
	return text
}
