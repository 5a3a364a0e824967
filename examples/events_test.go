package examples

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/loader"
)

// load runs a loader on a port, until stop.
func load(t *testing.T, dir, port string) (stop func()) {
	t.Helper()
	l, err := loader.Open(loader.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	at, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	server := l.Server()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.Serve(at); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	return func() {
		t.Helper()
		if err := errors.Join(server.Shutdown(t.Context()), l.Close()); err != nil {
			t.Error(err)
		}
		serving.Wait()
	}
}

// TestEvents is the whole road: from a request to a line in the loader's file,
// over an outage of the loader.
func TestEvents(t *testing.T) {
	example, err := filepath.Abs("events.yaml")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	f := func(request func(method, path, body string) string, body, want string) {
		t.Helper()
		if got := request("POST", "/events", body); got != want {
			t.Errorf("%s: got %q, want %q", body, got, want)
		}
	}
	var files []string
	t.Cleanup(func() { // the workflow has ended, and has shipped everything before
		if len(files) == 0 {
			return
		}
		got, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		want := "" +
			`{"user":"ann","event":"signup"}` + "\n" +
			`{"user":"ann","event":"view"}` + "\n" +
			`{"user":"ann","event":"buy"}` + "\n"
		if string(got) != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
	stop := func() {} // until there is a loader
	t.Cleanup(func() {
		stop()
		files, err = filepath.Glob("events/*.ndjson")
		if err != nil || len(files) != 1 {
			t.Errorf("got files %v, %v", files, err)
		}
	})
	port := strconv.Itoa(freeport.Port(t))
	request := serve(t, example, "127.0.0.1:8090", "127.0.0.1:"+port) // the loader does not run yet
	f(request, `{"user": "ann", "event": "signup"}`, "202 ")
	f(request, `{"user": "ann"}`, "422 an event has a user and an event")
	f(request, `[{"user": "ann", "event": "view"}, 7]`, "422 an event has a user and an event")
	stop = load(t, "events", port)
	f(request, `[{"user": "ann", "event": "view"}, {"user": "ann", "event": "buy"}]`, "202 ")
}
