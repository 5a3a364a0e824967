package loader

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A process is a loader in a process of its own; see child.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	url  string
	http *http.Client
}

// spawn starts a child. The error is the first line that it wrote, if that is no
// address.
func spawn(t *testing.T, dir string, attr *syscall.SysProcAttr, env ...string) (*process, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self), http: &http.Client{Transport: &http.Transport{}}}
	p.cmd.Env = append(os.Environ(), append(env, childDir+"="+dir, "GORACE=atexit_sleep_ms=0")...)
	p.cmd.SysProcAttr = attr
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.out = bufio.NewReader(out)
	line := p.line()
	if !strings.HasPrefix(line, "127.0.0.1:") {
		return nil, errors.Join(errors.New(line), p.in.Close(), p.cmd.Wait())
	}
	p.url = "http://" + line
	return p, nil
}

// line reads what the child says next.
func (p *process) line() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the child wrote %q: %v", line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// tell sends the child a command, and returns its answer.
func (p *process) tell(line string) string {
	p.t.Helper()
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	return p.line()
}

// kill ends the child as nothing else does.
func (p *process) kill() {
	p.t.Helper()
	if err := p.cmd.Process.Kill(); err != nil {
		p.t.Fatal(err)
	}
	_ = p.cmd.Wait() // it was killed, and says so
	p.http.CloseIdleConnections()
}

// end ends the child as SIGTERM does.
func (p *process) end() {
	p.t.Helper()
	if err := errors.Join(p.in.Close(), p.cmd.Wait()); err != nil {
		p.t.Error(err)
	}
	p.http.CloseIdleConnections()
}

// sender sends batches of its own, one after the other, each until it is answered.
type sender struct {
	name     int
	next     int // batch
	answered int // batches that were answered 200
	dups     int
	bad      error
}

// size is how many events a batch has.
func (s *sender) size() int { return 1 + (s.name+s.next*7)%40 }

// run sends until the loader was killed.
func (s *sender) run(p *process) {
	for {
		body := array(s.name*1_000_000+s.next*100, s.size())
		headers := []string{"Idempotency-Key", fmt.Sprintf("p%d/1/0/%d", s.name, s.next)}
		got, err := post(p.http, p.url, strings.NewReader(body), headers...)
		if err != nil {
			return // and it is sent again in the next round
		}
		if got.status != 200 || got.Accepted != s.size() {
			s.bad = fmt.Errorf("sender %d, batch %d: got %d %s", s.name, s.next, got.status, got.body)
			return
		}
		if got.Dup {
			s.dups++
		}
		s.answered++
		s.next++
	}
}

// TestKill kills the loader at random moments while eight senders send, and
// starts it again. In the end each event that was answered is in the files once,
// and each that was not at most once. UNIFLOW_KILL_ROUNDS=200 makes it longer.
func TestKill(t *testing.T) { killRounds(t, 20, readFiles) }

// TestKillStore is TestKill of a loader that keeps events in a store.
func TestKillStore(t *testing.T) { killRounds(t, 10, readStore, childStore+"=1") }

func killRounds(t *testing.T, rounds int, read func(dir string) ([]string, error), env ...string) {
	t.Helper()
	if text := os.Getenv("UNIFLOW_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	dir := t.TempDir()
	senders := make([]*sender, 8)
	for i := range senders {
		senders[i] = &sender{name: i}
	}
	for range rounds {
		p, err := spawn(t, dir, nil, env...)
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for _, s := range senders {
			wg.Go(func() { s.run(p) })
		}
		<-time.After(time.Duration(random.IntN(60_000)) * time.Microsecond)
		p.kill()
		wg.Wait()
		for _, s := range senders {
			if s.bad != nil {
				t.Fatal(s.bad)
			}
		}
	}
	// What is found now is what was promised: the batch that each sender has no
	// answer to may be there, too, and as a whole.
	p, err := spawn(t, dir, nil, env...)
	if err != nil {
		t.Fatal(err)
	}
	p.end()
	lines, err := read(dir)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]bool, len(lines))
	for _, line := range lines {
		if seen[line] {
			t.Errorf("got %s twice", line)
		}
		seen[line] = true
	}
	batches, dups, open := 0, 0, 0
	for _, s := range senders {
		batches, dups = batches+s.answered, dups+s.dups
		last := s.next
		for s.next = 0; s.next <= last; s.next++ {
			there := 0
			for i := range s.size() {
				line := fmt.Sprintf(`{"id":%d}`, s.name*1_000_000+s.next*100+i)
				if seen[line] {
					there++
					delete(seen, line)
				}
			}
			if there != s.size() && (s.next < last || there > 0) {
				t.Errorf("sender %d, batch %d of %d: got %d events of %d", s.name, s.next, last, there, s.size())
			}
			if s.next == last && there > 0 {
				open++
			}
		}
	}
	if len(seen) > 0 {
		t.Errorf("got %d events that no client sent", len(seen))
	}
	t.Logf("%d batches with %d events answered in %d rounds, %d of them were there when they were sent again, %d are there without an answer", batches, len(lines), rounds, dups, open)
	if batches == 0 {
		t.Error("no batch was answered: the test shows nothing")
	}
}
