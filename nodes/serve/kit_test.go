package serve_test

import (
	"context"
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

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/internal/ground/syncbuffer"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/spec"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A world is an engine with a listener.
type world struct {
	t      testing.TB
	engine *uniflow.Engine
	addr   string
	client *http.Client
	log    *syncbuffer.Buffer
}

var listening = regexp.MustCompile(`msg=listening .*address=(\S+)`)

// serve runs a document whose listener has port 0.
func serve(t testing.TB, document string) *world {
	t.Helper()
	w := &world{t: t, log: &syncbuffer.Buffer{}}
	engine, err := uniflow.New(uniflow.Options{Kinds: std.Defs(""), Log: slog.New(slog.NewTextHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	if err != nil {
		t.Fatal(err)
	}
	w.engine = engine
	transport := &http.Transport{DisableCompression: true}
	w.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		w.shutdown()
	})
	w.apply(document)
	found := listening.FindStringSubmatch(w.log.String())
	if found == nil {
		t.Fatalf("nothing listens:\n%s", w.log)
	}
	w.addr = found[1]
	return w
}

// shutdown waits until all has ended. It may be called again.
func (w *world) shutdown() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := w.engine.Shutdown(ctx); err != nil {
		w.t.Errorf("shutdown: %v", err)
	}
}

func (w *world) apply(document string) {
	w.t.Helper()
	list, err := w.engine.Apply(w.t.Context(), uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(document)}}})
	if err != nil || list.HasErrors() {
		w.t.Fatal(err, list)
	}
}

// An answer is one that was read.
type answer struct {
	status int
	header http.Header
	body   string
}

// do sends a request; header is alternating names and values.
func (w *world) do(method, path, body string, header ...string) answer {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.addr+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body == "" {
		r.Body = http.NoBody
	}
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Add(header[i], header[i+1])
		}
	}
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(data)}
}

// raw sends bytes and returns all that comes back, until the server closes the connection.
func (w *world) raw(text string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		w.t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	data, err := io.ReadAll(conn)
	if err != nil && len(data) == 0 {
		w.t.Fatal(err)
	}
	return string(data)
}

// long ago is when the files of the tests were changed.
var longAgo = time.Date(2024, time.March, 1, 12, 0, 0, 0, time.UTC)

// write writes files of a folder, alternating names and contents.
func write(t testing.TB, dir string, files ...string) {
	t.Helper()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, filepath.FromSlash(files[i]))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(files[i+1]), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, longAgo, longAgo); err != nil {
			t.Fatal(err)
		}
	}
}

func source(document string) uniflow.Source {
	return uniflow.Source{Documents: []spec.Document{{File: "test.yaml", Data: []byte(document)}}}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
