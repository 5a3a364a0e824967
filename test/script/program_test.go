package script

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// limit bounds the time to wait for an event.
const limit = 20 * time.Second

// A world has the programs and requests of a script.
type world struct {
	programs map[string]*program
	held     map[string]*held
}

type worldKey struct{}

func newWorld() *world {
	return &world{programs: make(map[string]*program), held: make(map[string]*held)}
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// end kills the programs that still run.
func (w *world) end() {
	for _, h := range w.held {
		_ = h.conn.Close() // the script has failed, or does not care
	}
	for _, p := range w.programs {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
	}
}

// A program runs in the background.
type program struct {
	cmd   *exec.Cmd
	log   *log
	ended chan struct{}
}

// A log collects what a program writes, and signals more.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{} // closed at the next write, and replaced
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.text.Write(p)
}

func (l *log) read() (text string, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String(), l.more
}

func serve(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: serve NAME [COMMAND] ARG...")
	}
	line := args[1:]
	if len(line) == 0 || strings.HasPrefix(line[0], "-") {
		line = append([]string{"start"}, line...)
	}
	path := strings.Split(ts.Getenv("PATH"), string(filepath.ListSeparator))[0]
	p := &program{cmd: exec.Command(filepath.Join(path, command), line...), log: &log{more: make(chan struct{})}, ended: make(chan struct{})}
	p.cmd.Dir = ts.MkAbs(".")
	p.cmd.Stderr = p.log
	p.cmd.Env = []string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "GORACE", "UNIFLOW_ADMIN", "UNIFLOW_ADMIN_TOKEN", "UNIFLOW_NAMESPACE", "UNIFLOW_LOG_FORMAT", "TOKEN", "APP_REGION"} {
		p.cmd.Env = append(p.cmd.Env, name+"="+ts.Getenv(name))
	}
	if data, err := os.ReadFile(ts.MkAbs("stdin")); err == nil {
		p.cmd.Stdin = bytes.NewReader(data)
	}
	ts.Check(p.cmd.Start())
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the exit code is asked for by ended
	}()
	worldOf(ts).programs[args[0]] = p
}

func find(ts *testscript.TestScript, name string) *program {
	p, ok := worldOf(ts).programs[name]
	if !ok {
		ts.Fatalf("no program %q was started", name)
	}
	return p
}

func await(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await NAME REGEXP [VAR]...")
	}
	p := find(ts, args[0])
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	deadline := time.After(limit)
	for over := false; ; {
		text, more := p.log.read()
		if m := re.FindStringSubmatch(text); m != nil {
			for i, name := range args[2:] { // one for each group
				ts.Setenv(name, m[i+1])
			}
			return
		}
		if over {
			ts.Fatalf("%s has ended without a line %q:\n%s", args[0], args[1], text)
		}
		select {
		case <-more:
		case <-p.ended:
			over = true // look once more
		case <-deadline:
			ts.Fatalf("%s has no line %q:\n%s", args[0], args[1], text)
		}
	}
}

func send(ts *testscript.TestScript, neg bool, args []string) {
	signals := map[string]os.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP, "KILL": syscall.SIGKILL}
	if neg || len(args) != 2 || signals[args[1]] == nil {
		ts.Fatalf("usage: signal NAME TERM|INT|HUP|KILL")
	}
	ts.Check(find(ts, args[0]).cmd.Process.Signal(signals[args[1]]))
}

func ended(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ended NAME CODE")
	}
	want, err := strconv.Atoi(args[1])
	ts.Check(err)
	p := find(ts, args[0])
	select {
	case <-p.ended:
	case <-time.After(limit):
		text, _ := p.log.read()
		ts.Check(errors.Join(p.cmd.Process.Signal(syscall.SIGQUIT), errors.New(args[0]+" does not end:\n"+text)))
	}
	text, _ := p.log.read()
	_, err = ts.Stderr().Write([]byte(text))
	ts.Check(err)
	if got := p.cmd.ProcessState.ExitCode(); got != want {
		ts.Fatalf("%s: got exit code %d, want %d:\n%s", args[0], got, want, text)
	}
	if strings.Contains(text, "DATA RACE") {
		ts.Fatalf("%s", text)
	}
}
