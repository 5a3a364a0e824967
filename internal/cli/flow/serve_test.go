package flow

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/internal/cli/app/apptest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// served is a program that serves in this process.
type served struct {
	t       *testing.T
	signals chan os.Signal
	cancel  context.CancelFunc
	code    chan int
	mu      struct {
		sync.Mutex
		log  bytes.Buffer
		more chan struct{} // closed at the next write, and replaced
	}
}

// Write takes what the program logs.
func (s *served) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.mu.more)
	s.mu.more = make(chan struct{})
	return s.mu.log.Write(p)
}

func serve(t *testing.T, args ...string) *served {
	t.Helper()
	return serveKinds(t, nil, args...)
}

// serveKinds is serve with kinds in addition to package std.
func serveKinds(t *testing.T, kinds []*node.Def, args ...string) *served {
	t.Helper()
	return launch(t, kinds, append([]string{"start"}, args...)...)
}

// own returns a host's kinds.
func own(kinds []*node.Def) []func(stream.Options) []*node.Def {
	return []func(stream.Options) []*node.Def{func(stream.Options) []*node.Def { return kinds }}
}

// launch runs a command line that a signal may end.
func launch(t *testing.T, kinds []*node.Def, args ...string) *served {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	s := &served{t: t, signals: make(chan os.Signal, 8), cancel: cancel, code: make(chan int, 1)}
	s.mu.more = make(chan struct{})
	m := apptest.Machine(s, s, nil)
	m.Kinds = own(kinds)
	m.Signals = func(...os.Signal) (<-chan os.Signal, func()) { return s.signals, func() {} }
	go func() { s.code <- app.Main(ctx, args, m, root) }()
	return s
}

// await waits for a line of the log, and returns what its groups match.
func (s *served) await(line string) (groups []string) {
	s.t.Helper()
	re := regexp.MustCompile(line)
	deadline := time.After(time.Minute)
	for {
		s.mu.Lock()
		text, more := s.mu.log.String(), s.mu.more
		s.mu.Unlock()
		if groups = re.FindStringSubmatch(text); groups != nil {
			return groups[1:]
		}
		select {
		case <-more:
		case <-deadline:
			s.t.Fatalf("no line %q in\n%s", line, text)
		}
	}
}

// text is what it has logged so far.
func (s *served) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.log.String()
}

func (s *served) ended(want int) {
	s.t.Helper()
	defer s.cancel()
	select {
	case got := <-s.code:
		if got != want {
			s.t.Errorf("got exit code %d, want %d:\n%s", got, want, s.mu.log.String())
		}
	case <-time.After(time.Minute):
		s.t.Fatal("it does not end")
	}
}

const listenSpec = "- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: pong, port: in}]}}\n- {kind: snippet, name: pong, language: text, code: pong}\n"

// loopSpec keeps the start waiting until its context ends.
const loopSpec = "- {kind: nop, name: a, ports: {init: [{name: loop, port: in}]}}\n- {kind: snippet, name: loop, language: javascript, code: 'export default () => { for (;;) {} }'}\n"

func TestServe(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	s := serve(t, "--from-specs", "f.yaml", "--watch", "--admin", "127.0.0.1:0")
	s.await("msg=ready nodes=2")
	apptest.Write(t, "f.yaml", listenSpec+"- {kind: nop, name: more}\n")
	s.await("generation=2 nodes=3")
	s.signals <- syscall.SIGHUP
	s.await("generation=3 nodes=3")
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

func TestServeEndsWithContext(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	s := serve(t, "--from-specs", "f.yaml", "--watch")
	s.await("msg=ready nodes=2")
	s.cancel()
	s.ended(0)
}

// TestSignalWhileStarting ends a start that waits for a workflow at init.
func TestSignalWhileStarting(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", loopSpec)
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0")
	s.await("admin server listening")
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

// TestSignalWhileReloading leaves a reload that does not come to its end.
func TestSignalWhileReloading(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	s := serve(t, "--from-specs", "f.yaml")
	s.await("msg=ready nodes=2")
	apptest.Write(t, "f.yaml", listenSpec+loopSpec)
	s.signals <- syscall.SIGHUP
	s.signals <- syscall.SIGINT
	s.ended(0)
}

// TestChangesWhileReloading makes several changes during one reload, which cause one
// more reload.
func TestChangesWhileReloading(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", listenSpec)
	s := serve(t, "--from-specs", "f.yaml")
	s.await("msg=ready nodes=2")
	for range 5 {
		s.signals <- syscall.SIGHUP
	}
	s.await("generation serves\" generation=2")
	apptest.Write(t, "f.yaml", listenSpec+"- {kind: nop, name: more}\n")
	s.signals <- syscall.SIGHUP
	s.await("nodes=3")
	s.signals <- syscall.SIGTERM
	s.ended(0)
}

func TestWatcherIgnoresOtherFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"a.yaml", "named", "app.log", ".a.yaml.swp", "a.yaml~", "lib.ts", "b.JSON"} {
		apptest.Write(t, name, "")
	}
	if err := os.Mkdir("sub", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a.yaml", "link"); err != nil {
		t.Fatal(err)
	}
	w := &watcher{paths: []string{"conf/named"}}
	f := func(name string, want bool) {
		t.Helper()
		if got := w.matters(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	f("a.yaml", true)
	f("b.JSON", true)
	f("lib.ts", true)
	f("named", true)
	f("sub", true)
	f("link", true)
	f("gone", true)
	f("app.log", false)
	f(".a.yaml.swp", false)
	f("a.yaml~", false)
}

// TestKeep has processes that ended before the first look.
func TestKeep(t *testing.T) {
	t.Chdir(t.TempDir())
	apptest.Write(t, "f.yaml", "- {kind: schedule, name: often, interval: 1ms, ports: {out: told}}\n- {kind: log, name: told, message: came, level: warn}\n")
	s := serve(t, "--from-specs", "f.yaml", "--admin", "127.0.0.1:0", "--admin-token", "all", "--keep", "1MiB")
	c := &api.Client{Address: s.await(`admin server listening" address=(\S+)`)[0], Token: "all"}
	s.await(`(?s)msg=came.*msg=came`) // so one has ended
	var got api.Processes
	if err := c.Get(t.Context(), api.Base+"processes", &got); err != nil || len(got.Ended) == 0 {
		t.Errorf("got %+v, %v; want what ended before", got, err)
	}
}
