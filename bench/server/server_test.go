package server

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// TestMain is the server when the tests start this binary as one.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "-serve" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(w, "%s of %s", r.URL.Path, os.Getenv("SERVER_NAME"))
		})))
		os.Exit(1)
	}
	leak.Main(m)
}

func TestStart(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr, err := FreeAddr()
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		Name: "tested", Addr: addr, Path: "/ping", Program: self, Args: []string{"-serve", addr},
		Env: append(os.Environ(), "SERVER_NAME=t"), Log: filepath.Join(t.TempDir(), "log"),
	}
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, body, err := s.Get(t.Context()); err != nil || string(body) != "/ping of t" {
		t.Errorf("got %q, %v, want the path and the environment", body, err)
	}
	if mb, err := s.Resident(); err != nil || mb < 1 || mb > 500 {
		t.Errorf("got %v MB, %v", mb, err)
	}
	if busy := s.Busy(); busy < 0 || busy > time.Minute {
		t.Errorf("got %v of CPU", busy)
	}

	o.Name, o.Log = "second", filepath.Join(t.TempDir(), "log")
	o.Args = []string{"-serve", "127.0.0.1:nowhere"}
	if o.Addr, err = FreeAddr(); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), o); err == nil || !strings.Contains(err.Error(), "second exited") || !strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v, want the output of the server", err)
	}
	// It knows nothing of SIGTERM, so that ends it with an error.
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "signal: terminated") {
		t.Errorf("got %v, want the signal", err)
	}
}

// TestPing checks the text. That it is a valid program is checked by the tests of
// bench, which may import the engine.
func TestPing(t *testing.T) {
	got := Ping("8123")
	for _, want := range []string{"port: 8123\n", "path: /ping\n", "code: pong\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("got %s, want %q once", got, want)
		}
	}
	if got := Answering("1", "pang"); !strings.Contains(got, "code: pang\n") {
		t.Errorf("got %s, want the answer", got)
	}
}
