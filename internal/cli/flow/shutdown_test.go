package flow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/node"
)

func findingOf(err error) diag.List { return diag.List{diag.Errorf(diag.CodeRead, "%w", err)} }

// TestHungNode ends with 3, although a node does not obey its context.
func TestHungNode(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "- {kind: hung, name: a}\n")
	hung := &hungNode{letGo: make(chan struct{})}
	defer close(hung.letGo)
	s := serveKinds(t, []*node.Def{{
		Kind: "hung", Summary: "Hangs when it stops.",
		New: func(*node.Init) (node.Node, error) { return hung, nil },
	}}, "--from-specs", "f.yaml", "--grace", "10ms")
	s.await("msg=ready")
	s.signals <- syscall.SIGTERM
	s.ended(app.ExitFailure)
	s.await("something did not end and was abandoned")
}

type hungNode struct{ letGo chan struct{} }

func (*hungNode) Receive(node.Process, node.Packet) node.Result { return node.None() }
func (n *hungNode) Stop(context.Context) error                  { <-n.letGo; return nil }

// TestReloadTriedAgain starts a generation when what kept it from starting has gone,
// here another program on its port, without another edit.
func TestReloadTriedAgain(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0", "--debug")
	s.await("msg=ready nodes=2")
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	more := fmt.Sprintf("- {kind: listener, name: more, host: 127.0.0.1, port: %d, ports: {out: [{name: pong, port: in}]}}\n", other.Addr().(*net.TCPAddr).Port)
	apptest.Write(t, "f.yaml", listenSpec+more)
	s.signals <- syscall.SIGHUP
	s.await(`level=ERROR msg="not reloaded: .*address already in use`)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.await(`msg="generation serves" generation=2 nodes=3`)
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

// TestReloadTold has the admin server say why a reload failed, until what is read is
// what is served.
func TestReloadTold(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", goodSpec)
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0")
	address := s.await(`address=(\S+)`)[0]
	s.await("msg=ready nodes=1")
	get := func(path string) string {
		t.Helper()
		resp, err := http.Get("http://" + address + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: got %d, %v", path, resp.StatusCode, err)
		}
		return string(body)
	}
	f := func(path string, wants ...string) {
		t.Helper()
		body := get(path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: got no %q in\n%s", path, want, body)
			}
		}
	}
	defer http.DefaultClient.CloseIdleConnections()
	f("/metrics", "uniflow_last_reload_successful 1\n")
	apptest.Write(t, "f.yaml", wrongSpec)
	s.signals <- syscall.SIGHUP
	s.await("not reloaded")
	f("/metrics", "uniflow_last_reload_successful 0\n", "uniflow_reload_failures_total 1\n")
	f("/readyz", "ready\nlast reload failed at ", "f.yaml:4:1: node \"pong\": kode: unknown field [F2001]")
	f("/api/v1/status", `"successful": false`, `"code": "F2001"`)
	apptest.Write(t, "f.yaml", goodSpec)
	s.signals <- syscall.SIGHUP
	s.await("generation=2") // logged just before the admin server knows
	for deadline := time.Now().Add(time.Minute); strings.Contains(get("/readyz"), "failed") && time.Now().Before(deadline); {
	}
	f("/metrics", "uniflow_last_reload_successful 1\n")
	f("/api/v1/status", `"successful": true`)
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

// TestTransient distinguishes failures that may go away from others.
func TestTransient(t *testing.T) {
	f := func(want bool, r outcome) {
		t.Helper()
		if got := transient(r); got != want {
			t.Errorf("%+v: got %v, want %v", r, got, want)
		}
	}
	full := fmt.Errorf("open f.yaml: %w", syscall.EMFILE)
	f(true, outcome{asked: true, err: context.DeadlineExceeded})
	f(true, outcome{err: full})
	f(true, outcome{list: findingOf(full)})
	f(false, outcome{err: errBlank})
	f(false, outcome{asked: true, list: findingOf(fmt.Errorf("unknown kind"))})
}

// TestBackOff waits longer each time, and not at all when there is nothing to try.
func TestBackOff(t *testing.T) {
	s := &server{ready: true, log: slog.New(slog.DiscardHandler)}
	failed := outcome{asked: true, err: syscall.EADDRINUSE}
	var waits []time.Duration
	for range 8 {
		s.retry(failed)
		waits = append(waits, s.wait)
	}
	want := []time.Duration{1, 2, 4, 8, 16, 32, 60, 60}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(waits, want) {
		t.Errorf("got %v, want %v", waits, want)
	}
	again := s.again
	if s.retry(outcome{unchanged: true}); s.again != again {
		t.Error("a change of nothing has ended the tries")
	}
	if s.retry(outcome{asked: true}); s.again != nil || s.wait != 0 {
		t.Error("tried again although it went well")
	}
}

// TestCmdline hides what may be secret.
func TestCmdline(t *testing.T) {
	args := []string{
		"start", "-e", "KEY=hunter2", "-eKEY=hunter2", "-e=KEY=hunter2", "--environment", "KEY=hunter2", "--environment=KEY=hunter2",
		"--admin-token", "hunter2", "--admin-token=hunter2", "--otlp", "https://u:hunter2@example.com", "--admin", "127.0.0.1:0", "-n", "x",
	}
	a := commands{app.New(args, apptest.Machine(nil, nil, nil))}
	got := fmt.Sprintf("%q", a.cmdline())
	if strings.Contains(got, "hunter2") {
		t.Errorf("got %s", got)
	}
	for _, want := range []string{`"KEY=[redacted]"`, `"-eKEY=[redacted]"`, `"--admin" "127.0.0.1:0" "-n" "x"`, `"https://u:xxxxx@example.com"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
}
