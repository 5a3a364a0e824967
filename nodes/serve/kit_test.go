package serve_test

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/nodes/std"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A site is a workflow with a listener.
type site struct {
	*flowtest.Flow
	t testing.TB
}

// serve runs a document whose listener has port 0.
func serve(t testing.TB, document string) *site {
	t.Helper()
	f := flowtest.New(t, std.Defs("")...)
	f.Serve(document)
	return &site{f, t}
}

// raw sends bytes and returns all that comes back, until the server closes the connection.
func (w *site) raw(text string) string {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.Address())
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

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
