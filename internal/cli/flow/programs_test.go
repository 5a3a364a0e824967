package flow

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

// TestDraftsStartNothing expects that what comes over the admin server starts no program, although the files may, and
// although the client may change them.
func TestDraftsStartNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	const served = listenSpec + "- {kind: exec, name: there, command: [cat]}\n"
	apptest.Write(t, "f.yaml", served)
	s := serve(t, "--from-specs", "f.yaml", "--watch", "--admin", "127.0.0.1:0", "--admin-token", "all", "--edit", "--allow-exec")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await("msg=ready nodes=3")
	drafts := func(more string) []api.Document { return []api.Document{{File: "f.yaml", Text: served + more}} }
	for _, kind := range []string{
		"- {kind: exec, name: new, mode: each, command: [touch, started]}\n",
		"- {kind: exec, name: new, command: [touch, started]}\n",
		"- {kind: python, name: new, code: \"open('started', 'w')\\nhandle = print\"}\n",
		"- {kind: mcp_call, name: new, command: [touch, started], tool: t}\n",
		"- {kind: plugin, name: own, summary: Starts., run: exec, command: [touch, started]}\n- {kind: own, name: new}\n",
	} {
		var tried api.Tried
		if err := c.Send(t.Context(), http.MethodPost, api.Base+"try", api.Trial{Node: "new", Text: "null", Allow: []string{"new"}, Drafts: drafts(kind)}, &tried); err != nil {
			t.Fatal(err)
		}
		if len(tried.Findings) == 0 || !strings.Contains(tried.Findings[0].Message, "drafts never start programs") {
			t.Errorf("%s: tried: got %+v", kind, tried)
		}
		test := kind + "- {kind: test, name: works, ports: {'out[0]': new}}\n"
		var tests api.Tests
		if err := c.Send(t.Context(), http.MethodPost, api.Base+"tests", api.TestRun{Drafts: drafts(test)}, &tests); err != nil {
			t.Fatal(err)
		}
		if len(tests.Tests) != 1 || !strings.Contains(tests.Tests[0].Text, "drafts never start programs") {
			t.Errorf("%s: tested: got %+v", kind, tests)
		}
		var docs api.Documents
		if err := c.Get(t.Context(), api.DocumentsPath, &docs); err != nil {
			t.Fatal(err)
		}
		var done api.Applied
		if err := c.Send(t.Context(), http.MethodPost, api.Base+"apply", api.Apply{Revision: docs.Revision, Drafts: drafts(kind)}, &done); err != nil {
			t.Fatal(err)
		}
		if done.OK || !strings.Contains(done.Error, "came over the admin server") {
			t.Errorf("%s: applied: got %+v", kind, done)
		}
		if got, err := os.ReadFile("f.yaml"); err != nil || string(got) != served {
			t.Errorf("the file has %q, %v", got, err)
		}
	}
	if _, err := os.Stat("started"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a program was started")
	}
	var docs api.Documents
	if err := c.Get(t.Context(), api.DocumentsPath, &docs); err != nil {
		t.Fatal(err)
	}
	var done api.Applied
	err := c.Send(t.Context(), http.MethodPost, api.Base+"apply", api.Apply{Revision: docs.Revision, Drafts: drafts("- {kind: nop, name: more}\n")}, &done)
	if err != nil || !done.OK {
		t.Errorf("a change of other nodes: got %+v, %v", done, err)
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
}
