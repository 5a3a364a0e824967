//go:build linux && !race

package hostile

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

var full = flag.Bool("full", false, "run the attacks at full length")

func TestMain(m *testing.M) { leak.Main(m) }

// program is the file that is attacked.
var program string

// build makes the program.
func build(t *testing.T, tags string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "uniflow")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-tags", tags, "-o", file, "../../cmd/uniflow")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v: %s", err, out)
	}
	return file
}

func TestHostile(t *testing.T) {
	if program = os.Getenv("UNIFLOW"); program == "" {
		program = build(t, "")
	}
	for _, attack := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"answers", answers}, {"bodies", bodies}, {"scripts", scripts}, {"expressions", expressions},
		{"documents", documents}, {"receivers", receivers}, {"operation", operation}, {"apis", apis}, {"memory", memory},
	} {
		t.Run(attack.name, attack.run)
	}
	program = build(t, "nethttp") // whose listeners serve all requests by net/http
	t.Run("nethttp/bodies", bodies)
	t.Run("nethttp/apis", apis)
}

// scale chooses between a figure of the short form and one of the full form.
func scale(short, long int) int {
	if *full {
		return long
	}
	return short
}

// A target is a program under attack.
type target struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string // of its listener
	log  string // the file with what it wrote
	done chan struct{}
	err  error // of the process, once done
}

const mib = 1 << 20

// launch starts the program with a limit on its memory, in bytes. Like the limit of a
// container, RLIMIT_DATA ends a program that takes more.
func launch(t *testing.T, memory int, args ...string) *target {
	t.Helper()
	dir := t.TempDir()
	s := &target{t: t, log: filepath.Join(dir, "log"), done: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = limited(context.Background(), memory, args...)
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = dir, log, log
	s.start()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return s
}

// start starts the command, and ends it with the test.
func (s *target) start() {
	s.t.Helper()
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	var reaper sync.WaitGroup
	reaper.Go(func() {
		s.err = s.cmd.Wait()
		close(s.done)
	})
	s.t.Cleanup(func() {
		if err := s.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			s.t.Error(err)
		}
		reaper.Wait()
	})
}

// limited is a command of the program under a limit of memory.
func limited(ctx context.Context, memory int, args ...string) *exec.Cmd {
	shell := fmt.Sprintf(`ulimit -d %d; exec "$@"`, memory/1024)
	return exec.CommandContext(ctx, "sh", append([]string{"-c", shell, "sh", program}, args...)...)
}

// serve starts a workflow, in which PORT stands for a free port, and waits until
// GET /small answers.
func serve(t *testing.T, memory int, document string, args ...string) *target {
	t.Helper()
	addr := freeport.Addr(t)
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(document, "PORT", port)), 0o600); err != nil {
		t.Fatal(err)
	}
	s := launch(t, memory, append([]string{"start", "--from-specs", file}, args...)...)
	s.addr = addr
	s.await("the workflow", 30*time.Second, func() error { return s.small(time.Second) })
	return s
}

// await polls until f returns nil, and fails the test after the limit or when the
// program has ended.
func (s *target) await(what string, limit time.Duration, f func() error) {
	s.t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil {
			return
		}
		select {
		case <-s.done:
			s.t.Fatalf("%s: the program has ended: %v\n%s", what, s.err, s.output())
		case <-late.C:
			s.t.Fatalf("%s: not within %v: %v\n%s", what, limit, err, s.output())
		case <-tick.C:
		}
	}
}

// output returns the end of what the program wrote.
func (s *target) output() string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	return string(data[max(0, len(data)-4000):])
}

// written returns how much the program has written.
func (s *target) written() int64 {
	info, err := os.Stat(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return info.Size()
}

// alive fails the test if the program has ended or does not answer others.
func (s *target) alive() {
	s.t.Helper()
	select {
	case <-s.done:
		s.t.Fatalf("the program has ended: %v\n%s", s.err, s.output())
	default:
	}
	s.await("an answer for others", 20*time.Second, func() error { return s.small(2 * time.Second) })
}

// small is a request of another client: GET /small over a connection of its own.
func (s *target) small(timeout time.Duration) error {
	status, body, err := s.ask(timeout, http.MethodGet, "/small", nil, nil)
	if err == nil && (status != http.StatusOK || string(body) != "ok") {
		err = fmt.Errorf("status %d, body %.100q", status, body)
	}
	return err
}

// ask sends a request over a connection of its own and returns the answer.
func (s *target) ask(timeout time.Duration, method, path string, header map[string]string, body []byte) (int, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.addr+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 64*mib))
	return resp.StatusCode, answer, errors.Join(err, resp.Body.Close())
}

// dial opens a connection that is closed when the test ends.
func (s *target) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() }) //nolint:errcheck // the server may have closed it
	return conn
}

// status reads a figure of /proc in bytes: VmHWM is the most that was resident.
func (s *target) status(name string) int {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kb, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")))
			if err != nil {
				s.t.Fatal(err)
			}
			return kb * 1024
		}
	}
	s.t.Fatalf("no %s in /proc", name)
	return 0
}

// peak checks and prints the most memory that was resident.
func (s *target) peak(limit int) {
	s.t.Helper()
	got := s.status("VmHWM")
	s.t.Logf("peak %d MiB resident", got/mib)
	if got > limit {
		s.t.Errorf("got a peak of %d MiB, want at most %d", got/mib, limit/mib)
	}
}

// busy returns the CPU time that the program has used.
func (s *target) busy() time.Duration {
	s.t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	fields := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:]))
	user, err1 := strconv.Atoi(fields[11])
	system, err2 := strconv.Atoi(fields[12])
	if err := errors.Join(err1, err2); err != nil {
		s.t.Fatal(err)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}

// idle waits until the program uses less than a quarter of a processor, so that
// nothing of an attack goes on.
func (s *target) idle() {
	s.t.Helper()
	last, at := s.busy(), time.Now()
	s.await("the program to be idle", 30*time.Second, func() error {
		if time.Since(at) < 400*time.Millisecond {
			return errors.New("measuring")
		}
		used, span := s.busy()-last, time.Since(at)
		last, at = s.busy(), time.Now()
		if used*4 > span {
			return fmt.Errorf("%v of CPU in %v", used, span)
		}
		return nil
	})
}

// terminate sends SIGTERM, and returns the exit code and how long that took.
func (s *target) terminate(limit time.Duration) (code int, took time.Duration) {
	s.t.Helper()
	began := time.Now()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-s.done:
	case <-late.C:
		s.t.Fatalf("the program did not end within %v of SIGTERM\n%s", limit, s.output())
	}
	return s.cmd.ProcessState.ExitCode(), time.Since(began)
}
