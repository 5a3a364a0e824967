package flow

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
)

// TestEdit changes the documents of a program that watches them, over its admin server.
func TestEdit(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	apptest.Write(t, "values.yaml", "- {name: KEY, data: opensesame, secret: true}\n")
	if err := os.Chmod("f.yaml", 0o640); err != nil {
		t.Fatal(err)
	}
	s := serve(t, "--from-specs", "f.yaml", "--from-values", "values.yaml", "--watch", "--admin", "127.0.0.1:0", "--admin-token", "all", "--edit")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await("msg=ready nodes=2")
	read := func() (docs api.Documents) {
		t.Helper()
		if err := c.Get(t.Context(), api.DocumentsPath, &docs); err != nil {
			t.Fatal(err)
		}
		return docs
	}
	apply := func(revision, text string) (done api.Applied, err error) {
		err = c.Send(t.Context(), http.MethodPost, api.Base+"apply", api.Apply{Revision: revision, Drafts: []api.Document{{File: "f.yaml", Text: text}}, Why: "a test"}, &done)
		return done, err
	}
	on := func(text string) {
		t.Helper()
		if got, err := os.ReadFile("f.yaml"); err != nil || string(got) != text {
			t.Errorf("the file has %q, %v; want %q", got, err, text)
		}
	}
	docs := read()
	if !docs.Editable || len(docs.Documents) != 1 || docs.Documents[0].Text != listenSpec {
		t.Fatalf("got %+v", docs)
	}

	more := listenSpec + "- {kind: nop, name: more, env: {KEY: {name: KEY}}}\n"
	done, err := apply(docs.Revision, more)
	if err != nil || !done.OK || done.Generation != 2 {
		t.Fatalf("got %+v, %v", done, err)
	}
	on(more)
	if info, err := os.Stat("f.yaml"); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has the mode %v, %v", info.Mode(), err)
	}
	if _, err = apply(docs.Revision, listenSpec); err == nil || !strings.HasPrefix(err.Error(), "409") {
		t.Errorf("with an older revision: %v", err)
	}

	// What has errors, or cannot be started, leaves all as it was.
	docs = read()
	if done, err = apply(docs.Revision, "- {kind: nope}\n"); err != nil || done.OK || len(done.Findings) == 0 || done.Generation != 2 {
		t.Errorf("with errors: %+v, %v", done, err)
	}
	on(more)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { err = errors.Join(err, taken.Close()) }()
	_, port, _ := net.SplitHostPort(taken.Addr().String())
	if done, err = apply(docs.Revision, strings.Replace(more, "port: 0", "port: "+port, 1)); err != nil || done.OK || !strings.Contains(done.Error, "address already in use") {
		t.Errorf("with a port that is taken: %+v, %v", done, err)
	}
	on(more)
	if read().Revision != docs.Revision {
		t.Error("a change that failed is another revision")
	}
	var status api.Status
	if err := c.Get(t.Context(), api.StatusPath, &status); err != nil || status.Generation != 2 || status.Reload == nil || !status.Reload.Successful {
		t.Errorf("the status is %+v, %v", status, err)
	}

	var revisions []api.Revision
	if err := c.Get(t.Context(), api.Base+"revisions", &revisions); err != nil || len(revisions) != 2 || revisions[0].Why != "a test" {
		t.Fatalf("the revisions are %+v, %v", revisions, err)
	}
	if err := c.Send(t.Context(), http.MethodPost, api.Base+"revisions/"+revisions[1].ID, struct{}{}, &done); err != nil || !done.OK || done.Generation != 3 {
		t.Errorf("back to the first: %+v, %v", done, err)
	}
	on(listenSpec)
	s.signals <- syscall.SIGTERM
	s.ended(0)
	if strings.Contains(s.text(), "reload will be tried again") || strings.Contains(s.text(), "not reloaded") {
		t.Errorf("a change that failed counts as a reload:\n%s", s.text())
	}
}

// TestReadOnly shows what is served, without secrets, and refuses to change it.
func TestReadOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	const secret = "- {kind: auth, name: who, any: [{type: key, keys: [{id: a, secret: opensesameopensesame}]}]}\n"
	apptest.Write(t, "f.yaml", listenSpec+secret)
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await("msg=ready nodes=3")
	apptest.Write(t, "f.yaml", listenSpec+strings.Replace(secret, "opensesameopensesame", "anotheranotheranother", 1))
	var docs api.Documents
	if err := c.Get(t.Context(), api.DocumentsPath, &docs); err != nil || docs.Editable || !strings.Contains(docs.Documents[0].Text, "[redacted]") || strings.Contains(docs.Documents[0].Text, "another") {
		t.Errorf("got %+v, %v", docs, err)
	}
	err := c.Send(t.Context(), http.MethodPost, api.Base+"apply", api.Apply{Revision: docs.Revision, Drafts: docs.Documents}, new(api.Applied))
	if err == nil || !strings.HasPrefix(err.Error(), "403") || !strings.Contains(err.Error(), "--edit") {
		t.Errorf("got %v", err)
	}
	s.signals <- syscall.SIGTERM
	s.ended(0)
}
