package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A lab is where measurements are made: a temporary folder, the programs to
// start, and how long to measure. It is used by one goroutine.
type lab struct {
	config
	dir    string // removed at the end
	self   string // this program, which is the baseline servers too
	binary string // ours
	log    io.Writer
	start  time.Time
	tests  map[string]string // test binaries by package
}

func newLab(c config, log io.Writer) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(c.binary)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(binary); err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	dir, err := os.MkdirTemp("", "uniflow-bench-")
	if err != nil {
		return nil, err
	}
	return &lab{config: c, dir: dir, self: self, binary: binary, log: log, start: time.Now(), tests: make(map[string]string)}, nil
}

func (l *lab) close() error { return os.RemoveAll(l.dir) }

func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(l.log, "%6.1fs %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// span returns how long to load a server in one round.
func (l *lab) span() time.Duration {
	if l.quick {
		return 2 * time.Second
	}
	return 5 * time.Second
}

// rounds returns how many rounds to make.
func (l *lab) rounds() int {
	if l.quick {
		return min(l.runs, 3)
	}
	return l.runs
}

// turns calls each side once a round, in an order that turns round, so that what
// changes on the machine changes for all. It returns what each side got.
func (l *lab) turns(ctx context.Context, rounds int, sides ...func(context.Context) (float64, error)) ([][]float64, error) {
	got := make([][]float64, len(sides))
	for round := range rounds {
		for i := range sides {
			side := (i + round) % len(sides)
			v, err := sides[side](ctx)
			if err != nil {
				return nil, err
			}
			got[side] = append(got[side], v)
		}
	}
	return got, nil
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	if len(v) == 0 {
		return 0
	}
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// ratios shows a side against another, round by round.
func ratios(ours, baseline []float64) string {
	var b strings.Builder
	b.WriteString("rounds:")
	for i := range ours {
		fmt.Fprintf(&b, " %.3f", ours[i]/baseline[i])
	}
	return b.String()
}

// A server is a process that answers HTTP requests.
type server struct {
	name   string
	addr   string // 127.0.0.1:port
	cmd    *exec.Cmd
	stderr string // the file
	reaper sync.WaitGroup
	exited chan struct{} // closed by the reaper
	err    error         // of the process, once it has exited
}

// freeAddr returns an address that nobody listens on.
func freeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// ours starts a workflow, which graph writes for a port.
func (l *lab) ours(ctx context.Context, name string, graph func(port string) string, flags ...string) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	file := l.file(name + ".yaml")
	if err := os.WriteFile(file, []byte(graph(port)), 0o600); err != nil {
		return nil, err
	}
	return l.serve(ctx, name, addr, l.binary, append([]string{"start", "--from-specs", file}, flags...)...)
}

// baseline starts the hand-written server.
func (l *lab) baseline(ctx context.Context) (*server, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	return l.serve(ctx, "nethttp", addr, l.self, "-serve", "nethttp", "-addr", addr)
}

func (l *lab) file(name string) string { return filepath.Join(l.dir, name) }

// ready is how long a server may take until it answers.
const ready = 60 * time.Second

// serve starts a server and waits until it answers.
func (l *lab) serve(ctx context.Context, name, addr, program string, args ...string) (*server, error) {
	s := &server{name: name, addr: addr, stderr: l.file(name + ".log"), exited: make(chan struct{})}
	log, err := os.Create(s.stderr)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own handle
	// Not bound to the context: it is stop that ends a server, as it is to drain.
	s.cmd = exec.Command(program, args...)
	s.cmd.Stdout, s.cmd.Stderr = log, log
	s.cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(runtime.NumCPU()))
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.reaper.Go(func() {
		defer close(s.exited)
		s.err = s.cmd.Wait()
	})
	if err := s.await(ctx, ready); err != nil {
		return nil, errors.Join(err, s.stop())
	}
	return s, nil
}

// get asks for /ping over a connection of its own.
func (s *server) get(ctx context.Context) (*http.Response, []byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url(), nil)
	if err != nil {
		return nil, nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(resp.Body)
	return resp, body, errors.Join(err, resp.Body.Close())
}

func (s *server) url() string { return "http://" + s.addr + "/ping" }

// await waits until the server answers with 200.
func (s *server) await(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, body, err := s.get(ctx)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %.200q", resp.Status, body)
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s exited (%v): %s", s.name, s.err, s.said())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", s.name, err, s.said())
		case <-tick.C:
		}
	}
}

// said returns the end of what the server wrote.
func (s *server) said() string {
	data, err := os.ReadFile(s.stderr)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[max(0, len(data)-2000):])
}

// stop ends the server as an operator would, and waits.
func (s *server) stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	late := time.NewTimer(20 * time.Second)
	defer late.Stop()
	select {
	case <-s.exited:
	case <-late.C:
		if err := s.cmd.Process.Kill(); err != nil {
			return err
		}
		<-s.exited
		return fmt.Errorf("%s did not end within 20 s of SIGTERM", s.name)
	}
	if s.err != nil {
		return fmt.Errorf("%s: %w: %s", s.name, s.err, s.said())
	}
	return nil
}

// clockTick is the unit of the times that /proc shows, for all of Linux's
// architectures that Go runs on.
const clockTick = 10 * time.Millisecond

// busy returns what the server has used of the processors, itself and in the
// kernel; 0 where there is no /proc.
func (s *server) busy() time.Duration {
	// What precedes the last parenthesis is a name, which may have spaces.
	_, rest, ok := cutLast(content(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid)), ")")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 13 {
		return 0
	}
	user, err1 := strconv.ParseInt(fields[11], 10, 64)
	system, err2 := strconv.ParseInt(fields[12], 10, 64)
	if err1 != nil || err2 != nil {
		return 0
	}
	return time.Duration(user+system) * clockTick
}

// resident returns the resident memory of the server in MB (10^6 bytes).
func (s *server) resident() (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			return kb * 1024 / 1e6, err
		}
	}
	return 0, errors.New("/proc: no VmRSS")
}

// stopInto stops a server in a defer.
func stopInto(err *error, s *server) { *err = errors.Join(*err, s.stop()) }

// wait waits, unless the context is done.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C:
		return nil
	}
}
