package before_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

// unpack copies what a package has of revision 4d86ea6.
func unpack(t *testing.T, of string) (folder string) {
	return vfstest.Unpack(t, filepath.Join("..", "..", of, "testdata", "4d86ea6.tar.gz"))
}

// serve serves a document until the test ends.
func serve(t *testing.T, document string) *uniflow.Engine {
	t.Helper()
	e, err := uniflow.New(uniflow.Options{Kinds: std.Defs(""), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	list, err := e.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "t.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		t.Fatal(err, list)
	}
	return e
}

// finish waits until the only source has ended.
func finish(t *testing.T, e *uniflow.Engine) {
	t.Helper()
	select {
	case <-e.Triggers()[0].Finished:
	case <-time.After(20 * time.Second):
		t.Fatal("the source does not end")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestSessionsOf4d86ea6 loads sessions from a table, and changes one.
func TestSessionsOf4d86ea6(t *testing.T) {
	dir := unpack(t, "nodes/dialogue")
	e := serve(t, `
- {kind: session, name: talk, key: self.user, ttl: 0s, store: {driver: sqlite, source: '`+dir+`/sessions.db'}, ports: {out: [{name: load}]}}
- {kind: recall, name: load, ports: {out: [{name: count}]}}
- {kind: remember, name: count, set: {visits: '${session.visits + 1}'}, ports: {out: [{name: show}]}}
- {kind: snippet, name: show, language: cel, code: session}
`)
	for _, c := range [][2]string{
		{"ann", `{"visits":2,"list":[1,2.5,null,"é"],"last":"ann"}`},
		{"bob", `{"visits":1,"list":[1,2.5,null,"é"],"last":"bob"}`},
		{"ann", `{"visits":3,"list":[1,2.5,null,"é"],"last":"ann"}`},
	} {
		got, _, err := e.Run(t.Context(), "talk", value.Map(value.Field{Name: "user", Value: value.String(c[0])}))
		if want, _ := value.ParseJSON([]byte(c[1])); err != nil || !got.Equal(want) {
			t.Errorf("%s: got %s, %v, want %s", c[0], got, err, c[1])
		}
	}
}

// TestSQLCheckpointOf4d86ea6 goes on after row 10, which a file and a table say was the last.
func TestSQLCheckpointOf4d86ea6(t *testing.T) {
	for name, keep := range map[string]string{"file": "checkpoint: {file: 'DIR/orders.pos'}", "track": "track: positions"} {
		dir := unpack(t, "nodes/data")
		db := serve(t, "- {kind: sql, name: db, driver: sqlite, source: '"+dir+"/orders.db'}")
		if _, _, err := db.Run(t.Context(), "db", value.String("INSERT INTO orders VALUES (11, 1), (12, 2)")); err != nil {
			t.Fatal(err)
		}
		finish(t, serve(t, strings.ReplaceAll(`
- {kind: sql_source, name: `+name+`, driver: sqlite, source: 'DIR/orders.db', table: orders, cursor: id, ends: true, `+keep+`, ports: {out: [{name: id}]}}
- {kind: snippet, name: id, language: cel, code: self.body.id, ports: {out: [{name: out}]}}
- {kind: file_sink, name: out, path: 'DIR/out.ndjson'}
`, "DIR", dir)))
		if got := read(t, dir+"/out.ndjson"); got != "11\n12\n" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// TestFileCheckpointOf4d86ea6 reads what was appended to a file, and nothing of one that is
// compressed and has not changed. The files have other numbers on this disk.
func TestFileCheckpointOf4d86ea6(t *testing.T) {
	dir := unpack(t, "nodes/files")
	positions := read(t, dir+"/files.pos")
	for _, name := range []string{"plain.ndjson", "packed.ndjson.gz"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		s := info.Sys().(*syscall.Stat_t)
		positions = strings.ReplaceAll(positions, read(t, filepath.Join(dir, name+".id")), fmt.Sprintf("%x-%x", s.Dev, s.Ino))
	}
	if err := os.WriteFile(dir+"/files.pos", []byte(positions), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/plain.ndjson", []byte(read(t, dir+"/plain.ndjson")+"{\"n\":40}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	finish(t, serve(t, strings.ReplaceAll(`
- {kind: file_source, name: in, paths: ['DIR/plain.ndjson', 'DIR/packed.ndjson.gz'], checkpoint: {file: 'DIR/files.pos'}, ports: {out: [{name: body}]}}
- {kind: snippet, name: body, language: cel, code: self.body, ports: {out: [{name: out}]}}
- {kind: file_sink, name: out, path: 'DIR/out.ndjson'}
`, "DIR", dir)))
	if got := read(t, dir+"/out.ndjson"); got != "{\"n\":40}\n" {
		t.Errorf("got %q", got)
	}
}

// TestSSECheckpointOf4d86ea6 asks for what comes after the event that was read last.
func TestSSECheckpointOf4d86ea6(t *testing.T) {
	dir := unpack(t, "nodes/web")
	last := make(chan string, 100)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { last <- r.Header.Get("Last-Event-ID") }))
	defer s.Close()
	serve(t, "- {kind: sse_source, name: in, url: '"+s.URL+"', checkpoint: {file: '"+dir+"/events.pos'}, ports: {out: [{name: out}]}}\n- {kind: nop, name: out}\n")
	if got := <-last; got != "e3" {
		t.Errorf("got %q, want e3", got)
	}
}

// TestFolderOf4d86ea6 knows the keys of the batches that a loader has taken, and appends.
func TestFolderOf4d86ea6(t *testing.T) {
	dir := filepath.Join(unpack(t, "internal/loader"), "events")
	l, err := loader.Open(loader.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	before := read(t, dir+"/events-000001.ndjson")
	for key, want := range map[string]string{"own/0": `"duplicate":true`, "own/2": `"duplicate":true`, "own/3": `"duplicate":false`} {
		r := httptest.NewRequest("POST", "/batch", strings.NewReader("{\"own\":7}\nnot JSON\n{\"own\":8}\n"))
		r.Header.Set("Content-Type", "application/x-ndjson")
		r.Header.Set("Idempotency-Key", key)
		w := httptest.NewRecorder()
		l.Handler().ServeHTTP(w, r)
		if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, want) || !strings.Contains(got, `"accepted":2`) {
			t.Errorf("%s: got %d %s, want %s", key, w.Code, got, want)
		}
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if got := read(t, dir+"/events-000001.ndjson"); !strings.HasPrefix(got, before) || strings.Count(got, `"own":7`) != 1 {
		t.Errorf("got %d bytes of events after %d", len(got), len(before))
	}
}
