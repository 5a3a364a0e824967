package suite

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/value"
)

// A Mock replaces a node by code, or by what the node has sent in an earlier run. Make
// one with [NewMock].
type Mock struct {
	Node    string
	File    string       // empty for code in a document
	Pos     diag.Pos     // of the name in the document of the test that has the mock; zero for others
	program lang.Program // nil for a recording
	records bool         // the node is not replaced: what it sends is recorded
	redact  func(string) string

	entered *node.Key[*entry] // of a sub-graph that is recorded

	mu        sync.Mutex
	exchanges map[string]exchange // by the payload: see key
	unclear   bool                // it is not known which payload made a sub-graph send
}

// An exchange is a line of a recording.
type exchange struct {
	in  value.Value
	out value.Value // the error if it is one
}

// NewMock reads a mock. The extension of the file is the language of the code; what a
// constant, such as JSON, says is what the node always sends. A file .jsonl is a
// recording.
func NewMock(name, file string, text []byte, languages *lang.Set) (*Mock, error) {
	m := &Mock{Node: name, File: file, redact: unchanged, entered: node.NewKey[*entry]("entered " + name)}
	if IsRecording(file) {
		return m, m.read(text)
	}
	lines := make([]diag.Pos, 1+strings.Count(string(text), "\n"))
	for i := range lines {
		lines[i] = diag.Pos{File: file, Line: i + 1, Col: 1}
	}
	return m, m.compile(lang.OfExtension(filepath.Ext(file)), diag.NewText(string(text), file, lines[0], lines), languages)
}

// NewInlineMock returns the mock of a test that has its code in the document.
func NewInlineMock(of node.TestMock, languages *lang.Set) (*Mock, error) {
	m := &Mock{Node: of.Node, Pos: of.Pos, redact: unchanged}
	return m, m.compile(of.Language, of.Code, languages)
}

func (m *Mock) compile(language string, code diag.Text, languages *lang.Set) (err error) {
	m.program, err = languages.Compile(language, code, lang.Options{Timeout: 10 * time.Second})
	return err
}

// IsRecording reports whether a file is a recording, by its name.
func IsRecording(file string) bool { return strings.EqualFold(filepath.Ext(file), ".jsonl") }

// read reads the lines of a recording: {"in": …, "out": …}, or "error" in place of out.
func (m *Mock) read(text []byte) error {
	m.exchanges = make(map[string]exchange)
	number := 0
	for line := range bytes.Lines(text) {
		number++
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		v, err := value.ParseJSON(bytes.TrimSpace(line))
		in, _ := v.Get("in")
		out, ok := v.Get("out")
		if failed, found := v.Get("error"); found && err == nil {
			out, ok = value.Error(recordedError(failed)), true
		}
		if err == nil && !ok {
			err = errors.New(`a line must be {"in": …, "out": …} or {"in": …, "error": {"message": …}}`)
		}
		if err != nil {
			return diag.Errorf(diag.CodeSyntax, "%w", err).At(diag.Pos{File: m.File, Line: number, Col: 1}, "")
		}
		m.exchanges[key(in, unchanged)] = exchange{in, out}
	}
	return nil
}

// key returns what a recording finds a payload by. Secrets are hidden in it, as they
// are in the recording.
func key(v value.Value, redact func(string) string) string { return redact(canonical(v)) }

func unchanged(text string) string { return text }

func recordedError(v value.Value) error {
	text := func(name string) string {
		field, _ := v.Get(name)
		s, _ := field.AsString()
		return s
	}
	e := &node.Error{Err: errors.New(text("message")), Code: text("code")}
	status, _ := v.Get("status")
	n, _ := status.AsInt()
	e.Status = int(n)
	return e
}

// Record lets the node run, and records what it sends in place of what is recorded, or
// in addition to it.
func (m *Mock) Record(keep bool) {
	m.records = true
	if !keep {
		clear(m.exchanges)
	}
}

// Records reports whether the node runs, as [Mock.Record] was called.
func (m *Mock) Records() bool { return m.records }

// Recording returns the lines of the recording, sorted by payload.
func (m *Mock) Recording() ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.unclear {
		return nil, fmt.Errorf("record sub-graph %s: several packets of a process are in it at a time, or it forks, so it is not known which of them makes it send: record the nodes in it, by --mock %s/NAME=FILE.jsonl", m.Node, m.Node)
	}
	var b []byte
	for _, key := range slices.Sorted(maps.Keys(m.exchanges)) {
		x := m.exchanges[key]
		name, out := "out", x.out
		if out.IsError() {
			e := node.Describe(out.AsError())
			fields := []value.Field{{Name: "message", Value: value.String(node.Message(e))}}
			if e.Status != 0 {
				fields = append(fields, value.Field{Name: "status", Value: value.Int(int64(e.Status))})
			}
			if e.Code != "" {
				fields = append(fields, value.Field{Name: "code", Value: value.String(e.Code)})
			}
			name, out = "error", value.UniqueMap(fields)
		}
		line, err := value.UniqueMap([]value.Field{{Name: "in", Value: sorted(x.in)}, {Name: name, Value: sorted(out)}}).AppendJSON(nil)
		if err != nil {
			return nil, fmt.Errorf("record node %s: a payload is not JSON: %w", m.Node, err)
		}
		line = []byte(m.redact(string(line)))
		if _, err := value.ParseJSON(line); err != nil {
			return nil, fmt.Errorf("record node %s: a payload has a secret that is not text", m.Node)
		}
		b = append(append(b, line...), '\n')
	}
	return b, nil
}

// Replaces reports whether the mock is for a node. It names the node, with its
// namespace or without.
func (m *Mock) Replaces(ref node.Ref) bool {
	return named(ref, m.Node)
}

// sent records what the node has sent because of a payload. The last one counts.
func (m *Mock) sent(p observe.Packet) {
	if p.Port <= 0 {
		m.record(p.Cause, p.Payload)
	}
}

func (m *Mock) record(cause, sent value.Value) {
	m.mu.Lock()
	defer m.mu.Unlock()
	cause = value.ErrorMap(cause)
	m.exchanges[key(cause, m.redact)] = exchange{cause, sent}
}

// node returns a node that sends what the mock makes of a payload on the first out-port, or
// answers it if there is none. called gets each payload.
func (m *Mock) node(init *node.Init, def *node.Def, called func(value.Value)) node.Node {
	out := firstOut(def)
	sends := len(def.Out) > 0 && len(init.OutLinks) > out
	return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
		payload := value.ErrorMap(pkt.Payload)
		called(payload)
		made, err := m.eval(p, payload)
		switch {
		case err != nil:
			return node.Fail(err)
		case sends:
			return node.Send(out, made)
		}
		return node.Answer(made)
	})
}

func (m *Mock) eval(p node.Process, in value.Value) (value.Value, error) {
	if m.program != nil {
		return m.program.Eval(p.Context(), in)
	}
	x, ok := m.exchanges[key(in, m.redact)] // nothing writes, as it does not record
	if !ok {
		return value.Value{}, fmt.Errorf("%s has no answer to %s: uniflow test --update records it", m.File, shown(in, m.redact))
	}
	if err := x.out.AsError(); err != nil {
		return value.Value{}, err
	}
	return x.out, nil
}
