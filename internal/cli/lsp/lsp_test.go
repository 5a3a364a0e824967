package lsp

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/creachadair/jrpc2"
	"github.com/creachadair/jrpc2/channel"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/language"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestPositions(t *testing.T) {
	for _, text := range []string{"", "a", "a\nb", "a\r\nb\r\n", "a\rb", "é🙂x\ny", "\n\n", "x\u2028y\nz"} {
		l := linesOf("a.yaml", text)
		for offset := 0; offset <= len(text); offset++ {
			if offset < len(text) && text[offset]&0xc0 == 0x80 || offset > 0 && offset < len(text) && text[offset-1:offset+1] == "\r\n" {
				continue // inside of a character, or of a line break
			}
			p := l.position(offset)
			if got := l.offset(p); got != offset {
				t.Errorf("%q: byte %d is at %v, which is byte %d", text, offset, p, got)
			}
			at := l.place(p)
			if got := l.src.Offset(at.Line, at.Col); got != offset {
				t.Errorf("%q: byte %d is at %v, which is byte %d", text, offset, at, got)
			}
		}
		if got := l.offset(position{99, 99}); got != len(text) {
			t.Errorf("%q: past the end is byte %d", text, got)
		}
	}
	if got := linesOf("", "ab\ncd").offset(position{0, 99}); got != 2 {
		t.Errorf("past the end of a line is byte %d, want 2", got)
	}
	if p := linesOf("", "é🙂x").position(len("é🙂")); p != (position{0, 3}) {
		t.Errorf("got %v", p)
	}
}

func TestFiles(t *testing.T) {
	for text, want := range map[string]bool{
		"- kind: log\n":                     true,
		"- name: x\n  kind: log\n":          true,
		"- {kind: log}\n":                   true,
		"kind: log\n":                       true,
		"[{\"kind\": \"log\"}]":             true,
		"[\n  {\n    \"kind\": \"log\"\n}]": true,
		"apiVersion: v1\nkind: Pod\n":       false,
		"services: {}\n":                    false,
		"a:\n  b:\n    c:\n        kind: x": false,
		"":                                  false,
	} {
		if got := isWorkflow("x.yaml", []byte(text)); got != want {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if !isWorkflow("new.flow.yaml", nil) {
		t.Error("an empty file that is named so is a workflow")
	}
	dir := t.TempDir()
	for file, text := range map[string]string{
		"a.yaml": "- kind: log\n", "b/c.yml": "- kind: log\n", ".hidden/d.yaml": "- kind: log\n", "node_modules/e.yaml": "- kind: log\n", "f.txt": "- kind: log\n", "g.yaml": "x: y\n",
	} {
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	var found []string
	walk(dir, func(file string, _ []byte) {
		found = append(found, strings.TrimPrefix(filepath.ToSlash(file), filepath.ToSlash(dir)+"/"))
	})
	if want := []string{"a.yaml", "b/c.yml"}; !slices.Equal(found, want) {
		t.Errorf("found %q, want %q", found, want)
	}
	for _, file := range []string{"/a b/ü.yaml", "untitled:Untitled-1"} {
		if got := fileOf(uriOf(file)); got != file {
			t.Errorf("%q became %q", file, got)
		}
	}
}

// TestFrames reads messages, and refuses what is none.
func TestFrames(t *testing.T) {
	for in, want := range map[string]string{
		"Content-Length: 2\r\n\r\n{}": "{}", "content-length: 2\r\nContent-Type: x\r\n\r\n{}rest": "{}", "Content-Length: 0\r\n\r\n": "",
	} {
		if got, err := (&frames{in: bufio.NewReader(strings.NewReader(in))}).Recv(); err != nil || string(got) != want {
			t.Errorf("%q: got %q, %v", in, got, err)
		}
	}
	for in, want := range map[string]string{
		"": "EOF", "garbage\n\n": "want a header", "Content-Length: 99999999999\r\n\r\n": "want a number up to", "Content-Length: -1\r\n\r\n": "want a number",
		"Content-Length: 9\r\n\r\n{}": "EOF", "X: y\r\n\r\n": "want a number", "Content-Length: 2": "EOF",
	} {
		if got, err := (&frames{in: bufio.NewReader(strings.NewReader(in))}).Recv(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %q, %v, want an error with %q", in, got, err, want)
		}
	}
	var out strings.Builder
	if err := (&frames{out: &out}).Send([]byte("{}")); err != nil || out.String() != "Content-Length: 2\r\n\r\n{}" {
		t.Errorf("sent %q, %v", out.String(), err)
	}
}

// An editor speaks with a server.
type editor struct {
	*jrpc2.Client
	t        *testing.T
	reported chan publishDiagnosticsParams
	leave    func() error // closes its end
	ended    func() error // waits for the server
}

func newEditor(t *testing.T) *editor {
	t.Helper()
	kinds := std.Defs("cel")
	engine, err := uniflow.New(uniflow.Options{Kinds: kinds})
	if err != nil {
		t.Fatal(err)
	}
	w, err := language.New(language.Options{Kinds: kinds, Check: func(docs []spec.Document) diag.List {
		return engine.CheckAll(uniflow.Source{Documents: docs})
	}})
	if err != nil {
		t.Fatal(err)
	}
	fromServer, toEditor := io.Pipe()
	fromEditor, toServer := io.Pipe()
	e := &editor{t: t, reported: make(chan publishDiagnosticsParams, 100)}
	var serving sync.WaitGroup
	var served error
	serving.Go(func() {
		served = Serve(t.Context(), fromEditor, toEditor, Host{Workspace: w, Test: func(_ context.Context, files []string, name string) (string, error) {
			return strings.Join(files, " "), errors.New(name + " fails")
		}})
		_ = toEditor.Close() // it has no errors
	})
	e.Client = jrpc2.NewClient(channel.LSP(fromServer, toServer), &jrpc2.ClientOptions{OnNotify: func(r *jrpc2.Request) {
		var p publishDiagnosticsParams
		if r.Method() == "textDocument/publishDiagnostics" {
			if err := r.UnmarshalParams(&p); err != nil {
				t.Error(err)
			}
			e.reported <- p
		}
	}})
	e.leave = toServer.Close
	e.ended = func() error { serving.Wait(); return served }
	t.Cleanup(func() {
		_ = toServer.Close() // it has no errors
		serving.Wait()
		_ = e.Close() // the pipe is closed already
		if err := engine.Shutdown(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return e
}

func (e *editor) call(method string, params, result any) error {
	return e.CallResult(e.t.Context(), method, params, result)
}

func (e *editor) notify(method string, params any) {
	e.t.Helper()
	if err := e.Notify(e.t.Context(), method, params); err != nil {
		e.t.Fatal(err)
	}
}

type object = map[string]any

// TestSession is an editor without optional abilities, which leaves without a word.
func TestSession(t *testing.T) {
	e := newEditor(t)
	var able initializeResult
	if err := e.call("initialize", object{"rootUri": nil, "capabilities": object{}}, &able); err != nil {
		t.Fatal(err)
	}
	e.notify("initialized", object{})
	uri := uriOf(filepath.Join(t.TempDir(), "a.yaml"))
	doc := object{"uri": uri}
	e.notify("textDocument/didOpen", object{"textDocument": object{"uri": uri, "version": 1, "text": "- {kind: lo, name: x}\n"}})
	if p := <-e.reported; p.URI != uri || p.Version != 1 || len(p.Diagnostics) == 0 || p.Diagnostics[0].Code != string(diag.CodeUnknownKind) {
		t.Errorf("got %+v", p)
	}
	e.notify("textDocument/didChange", object{"textDocument": object{"uri": uri, "version": 2}, "contentChanges": []object{
		{"range": lspRange{position{0, 9}, position{0, 11}}, "text": "lo"}, {"range": lspRange{position{0, 11}, position{0, 11}}, "text": "g"},
	}})
	if p := <-e.reported; p.Version != 2 || len(p.Diagnostics) != 0 {
		t.Errorf("got %+v", p)
	}
	var items []completionItem
	if err := e.call("textDocument/completion", object{"textDocument": doc, "position": position{0, 20}}, &items); err != nil || len(items) != 0 {
		t.Errorf("completion of a name: %+v, %v", items, err)
	}
	for method, params := range map[string]any{
		"textDocument/hover": object{"textDocument": object{"uri": "untitled:none"}, "position": position{}}, "textDocument/codeLens": object{"textDocument": doc},
		"textDocument/codeAction": object{"textDocument": doc, "range": lspRange{}}, "textDocument/prepareRename": object{"textDocument": doc, "position": position{0, 0}},
		"textDocument/definition": object{"textDocument": doc, "position": position{0, 0}}, "textDocument/documentSymbol": object{"textDocument": object{"uri": "file:///none.yaml"}},
	} {
		if err := e.call(method, params, new(any)); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
	for method, params := range map[string]any{
		"textDocument/rename":      object{"textDocument": doc, "position": position{0, 0}, "newName": "y"},
		"workspace/executeCommand": object{"command": "other", "arguments": []string{}},
		"textDocument/none":        object{},
	} {
		if err := e.call(method, params, new(any)); err == nil {
			t.Errorf("%s: no error", method)
		}
	}
	e.notify("textDocument/didChange", object{"textDocument": object{"uri": "file:///not/open.yaml", "version": 2}, "contentChanges": []object{}})
	e.notify("textDocument/didClose", object{"textDocument": doc})
	if err := errors.Join(e.leave(), e.ended()); err != nil {
		t.Errorf("the editor left: %v", err)
	}
}

// TestExit ends the server although the editor keeps its end open.
func TestExit(t *testing.T) {
	e := newEditor(t)
	if err := e.call("initialize", object{}, new(any)); err != nil {
		t.Fatal(err)
	}
	if err := e.call("shutdown", nil, new(any)); err != nil {
		t.Fatal(err)
	}
	e.notify("exit", nil)
	if err := e.ended(); err != nil {
		t.Error(err)
	}
}
