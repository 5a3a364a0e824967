package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/batch/model"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A lab is where measurements are made: the model server, the program whose
// children are the arms, and a temporary folder. It must be closed.
type lab struct {
	*config
	self   string         // this program
	others string         // the program of the module peers; empty if there is none
	server *server.Server // the model
	client []int          // the processors of arms, when they are not to have all
	dir    string         // removed at the end
	log    io.Writer
	start  time.Time
	notes  []string // what could not be measured, and why

	steps, done int           // of the whole measurement, for progress
	left        time.Duration // likewise, about

	mu struct {
		sync.Mutex
		runs int // names of runs on the server
	}
}

func newLab(ctx context.Context, c *config, log io.Writer) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Spools are to be on a disk, which the system's temporary folder may not be.
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.out, "batch-")
	if err != nil {
		return nil, err
	}
	l := &lab{config: c, self: self, dir: dir, log: log, start: time.Now()}
	if l.dir, err = filepath.Abs(dir); err == nil {
		err = l.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

// open starts the server, and builds the arms of others.
func (l *lab) open(ctx context.Context) error {
	cpus, err := processors()
	if err != nil {
		return err
	}
	var serverCPU []int
	if len(cpus) > 1 {
		l.client, serverCPU = cpus[:1], cpus[1:2]
	} else {
		l.notes = append(l.notes, "there is only one processor to be had, or nothing can be confined to one: the server and the arms share what there is")
	}
	addr, err := server.FreeAddr()
	if err != nil {
		return err
	}
	err = pinned(serverCPU, func() error {
		l.server, err = server.Start(ctx, server.Options{
			Name: "model server", Addr: addr, Path: "/ping",
			Program: l.self, Args: []string{child, childServer, addr}, Log: filepath.Join(l.dir, "server.log"),
		})
		return err
	})
	if err != nil {
		return err
	}
	if l.peers != "" {
		if err := l.build(ctx); err != nil {
			l.fail("without the arms of others: %v", err)
		}
	}
	return nil
}

// build builds the module of others' arms.
func (l *lab) build(ctx context.Context) error {
	l.progress("building the arms of others")
	program := filepath.Join(l.dir, "peers")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "build", "-o", program, ".")
	cmd.Dir = l.peers
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, bytes.TrimSpace(out))
	}
	l.others = program
	return nil
}

func (l *lab) close() error {
	var err error
	if l.server != nil {
		err = l.server.Stop()
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

func (l *lab) progress(format string, args ...any) {
	fmt.Fprintf(l.log, "%6.1fs %s\n", time.Since(l.start).Seconds(), fmt.Sprintf(format, args...))
}

// step tells of the next part of the measurement, and about how long all takes.
func (l *lab) step(takes time.Duration, format string, args ...any) {
	l.done++
	l.progress("%d of %d, %v to go: %s", l.done, l.steps, max(l.left, 0).Round(time.Second), fmt.Sprintf(format, args...))
	l.left -= takes
}

// folder returns a new empty folder.
func (l *lab) folder() (string, error) { return os.MkdirTemp(l.dir, "spool-") }

// begin begins a run on the model server, which is to be ended.
func (l *lab) begin(ctx context.Context, r model.Run) (*model.Client, string, error) {
	l.mu.Lock()
	l.mu.runs++
	name := fmt.Sprintf("run-%d", l.mu.runs)
	l.mu.Unlock()
	c := model.NewClient("http://"+l.server.Addr, name)
	return c, name, c.Begin(ctx, r)
}

// An entrant is a design as the lab starts it.
type entrant struct {
	name   string
	other  bool // of the program of others
	copies bool // its share of copies can be measured
	mode   model.Mode
	late   time.Duration // the server's latency; 0 for the protocol's
	queue  int           // arm.Options.Queue
	linger time.Duration // arm.Options.Interval; 0 for the protocol's
}

// title is what tables call it.
func (e *entrant) title() string {
	if e.mode == model.Parallel || e.mode == "" {
		return e.name
	}
	return fmt.Sprintf("%s (server %s)", e.name, e.mode)
}

// measure measures an arm, in a process of its own.
func (l *lab) measure(ctx context.Context, e *entrant, job arm.Job, length time.Duration, cpus []int) (r *arm.Result, err error) {
	dir, err := l.folder()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	run := model.Run{Mode: e.mode, LatencyMS: float64(latency.Milliseconds()), Expect: int(float64(l.rate)*length.Seconds()) + 1}
	if e.late > 0 {
		run.LatencyMS = float64(e.late.Milliseconds())
	}
	if job == arm.Saturate {
		run = model.Run{Mode: model.Null}
	}
	client, name, err := l.begin(ctx, run)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.End(ctx)) }()
	task := arm.Task{
		Job: job, Design: e.name, Server: "http://" + l.server.Addr, Run: name,
		Rate: l.rate, Length: length, Producers: producers,
		Options: arm.Options{Dir: dir, Size: model.JSONSize, Interval: interval, Limit: limit, Queue: e.queue},
	}
	if e.linger > 0 {
		task.Options.Interval = e.linger
	}
	program, args := l.self, append([]string{child, childArm}, task.Args()...)
	if e.other {
		program, args = l.others, task.Args()
	}
	// A blocked producer may need a multiple of the length.
	limited, cancel := context.WithTimeout(ctx, 4*length+2*time.Minute)
	defer cancel()
	out, err := output(limited, cpus, program, args...)
	if err != nil {
		return nil, err
	}
	r = &arm.Result{}
	if err := json.Unmarshal(out, r); err != nil {
		return nil, fmt.Errorf("%s: %w: %.200q", e.name, err, out)
	}
	r.Name = e.title()
	return r, nil
}

// output returns what a process prints that is confined to the processors.
func output(ctx context.Context, cpus []int, program string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := pinned(cpus, cmd.Start); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		said := strings.TrimSpace(stderr.String())
		return nil, fmt.Errorf("%w: %s", err, said[max(0, len(said)-2000):])
	}
	return stdout.Bytes(), nil
}

// serve is the model server as a process.
func serve(ctx context.Context, args []string, stderr io.Writer) int {
	err := errors.New("want an address")
	if len(args) == 1 {
		err = listen(ctx, args[0])
	}
	if err != nil {
		fmt.Fprintln(stderr, "batch: server:", err)
		return 3
	}
	return 0
}

// listen serves until the context is done.
func listen(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: model.NewServer(), ReadHeaderTimeout: 10 * time.Second}
	var stopped sync.WaitGroup
	stopped.Go(func() {
		<-ctx.Done()
		_ = s.Close() // the arms have gone; an error would be of their connections
	})
	err = s.Serve(l)
	stopped.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
