// Package server starts HTTP servers as processes of their own, for measuring.
//
// [Start] runs a program and waits until it answers; [Workflow.Serve] does that
// with uniflow and a document, and [Workload.Run] loads it as well. graph.go writes
// the documents; the package does not import the engine. A [Server] reads from /proc what it uses of the
// processors and the memory. Everything listens on 127.0.0.1.
package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// Options are what to start. All but Args and Env are required.
type Options struct {
	Name    string // in errors
	Addr    string // 127.0.0.1:port
	Path    string // that the server answers with Status, as in /ping
	Status  int    // 200 if 0
	Program string
	Args    []string
	Env     []string // the whole environment; the environment of this process if nil
	Log     string   // the file that gets what the server writes
}

// A Server is a process that answers HTTP requests. It is for one goroutine.
type Server struct {
	Name string
	Addr string
	path string
	want int // status of path
	cmd  *exec.Cmd
	log  string

	reaper sync.WaitGroup
	exited chan struct{} // closed by the reaper
	err    error         // of the process, once it has exited
}

// Listen serves until the context is done, as the whole of a process that Start has started.
// There are no timeouts and no limits.
func Listen(ctx context.Context, addr string, h http.Handler) error {
	s := &http.Server{Addr: addr, Handler: h}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })() // the load is over
	if err := s.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ready is how long a server may take until it answers.
const ready = 60 * time.Second

// FreeAddr returns a free address on 127.0.0.1.
func FreeAddr() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// Start starts a server and waits until it answers. After that the context does
// not end it: Stop does, gracefully.
func Start(ctx context.Context, o Options) (*Server, error) {
	s := &Server{Name: o.Name, Addr: o.Addr, path: o.Path, want: cmp.Or(o.Status, http.StatusOK), log: o.Log, exited: make(chan struct{})}
	log, err := os.Create(s.log)
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the child has its own handle
	s.cmd = exec.Command(o.Program, o.Args...)
	s.cmd.Stdout, s.cmd.Stderr, s.cmd.Env = log, log, o.Env
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	s.reaper.Go(func() {
		defer close(s.exited)
		s.err = s.cmd.Wait()
	})
	if err := s.await(ctx, ready); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Get asks for the server's path over a connection of its own.
func (s *Server) Get(ctx context.Context) (*http.Response, []byte, error) {
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 5 * time.Second}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL(), nil)
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

// URL returns the address of the server's path.
func (s *Server) URL() string { return "http://" + s.Addr + s.path }

// await waits until the server answers with 200.
func (s *Server) await(ctx context.Context, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for {
		resp, body, err := s.Get(ctx)
		if err == nil && resp.StatusCode != s.want {
			err = fmt.Errorf("%s: %.200q", resp.Status, body)
		}
		if err == nil {
			return nil
		}
		select {
		case <-s.exited:
			return fmt.Errorf("%s exited (%v): %s", s.Name, s.err, s.Output())
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %s", s.Name, err, s.Output())
		case <-tick.C:
		}
	}
}

// Output returns the end of the server's output.
func (s *Server) Output() string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		return err.Error()
	}
	data = bytes.TrimSpace(data)
	return string(data[max(0, len(data)-2000):])
}

// Stop sends SIGTERM and waits. A server that has not ended after 20 s is killed,
// which is an error.
func (s *Server) Stop() error {
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
		return fmt.Errorf("%s did not end within 20 s of SIGTERM", s.Name)
	}
	if s.err != nil {
		return fmt.Errorf("%s: %w: %s", s.Name, s.err, s.Output())
	}
	return nil
}

// Busy returns the processor time of the server, in steps of 10 ms; 0 where there is
// no /proc.
func (s *Server) Busy() time.Duration {
	busy, err := Busy(s.cmd.Process.Pid)
	if err != nil {
		return 0
	}
	return busy
}

// Resident returns the resident memory of the server in MB (10^6 bytes).
func (s *Server) Resident() (float64, error) {
	now, _, err := Resident(s.cmd.Process.Pid)
	return now, err
}

// Busy returns the processor time of a process.
func Busy(pid int) (time.Duration, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, err
	}
	stat, err := p.Stat()
	return time.Duration(stat.CPUTime() * float64(time.Second)), err
}

// Resident returns the resident memory of a process in MB, now and at most so far.
func Resident(pid int) (now, peak float64, err error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return 0, 0, err
	}
	status, err := p.NewStatus()
	return float64(status.VmRSS) / 1e6, float64(status.VmHWM) / 1e6, err
}

// A Workflow is a document that uniflow serves.
type Workflow struct {
	Name     string
	Document func(port string) string
	Path     string // that answers GET with Status; /ping if empty
	Status   int    // 200 if 0
	Program  string // uniflow
	Dir      string // of the document and the log, which have the name
	Flags    []string
	Env      []string // as in Options
}

// Serve writes the document with a free port and serves it.
func (w Workflow) Serve(ctx context.Context) (*Server, error) {
	addr, err := FreeAddr()
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	binary, err := filepath.Abs(w.Program)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(w.Dir, w.Name+".yaml")
	if err := os.WriteFile(file, []byte(w.Document(port)), 0o600); err != nil {
		return nil, err
	}
	path := cmp.Or(w.Path, "/ping")
	return Start(ctx, Options{
		Name: w.Name, Addr: addr, Path: path, Status: w.Status, Program: binary, Env: w.Env, Log: filepath.Join(w.Dir, w.Name+".log"),
		Args: append([]string{"start", "--from-specs", file}, w.Flags...),
	})
}
