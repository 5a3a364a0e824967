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
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A lab is where measurements are made: the receiver, the program whose children
// are the arms, and a temporary folder. It must be closed.
type lab struct {
	*config
	*program.Log
	self     string         // this program
	others   string         // the program of the module peers; empty if there is none
	receiver *server.Server // started by open
	client   []int          // the processors of arms, when they do not have all
	dir      string         // removed at the end
	notes    []string       // what could not be measured, and why
}

func newLab(ctx context.Context, c *config, log io.Writer) (*lab, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// Spools must be on a disk, which the system's temporary folder may not be.
	if err := os.MkdirAll(c.out, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(c.out, "batch-")
	if err != nil {
		return nil, err
	}
	l := &lab{config: c, self: self, Log: program.NewLog(log)}
	if l.dir, err = filepath.Abs(dir); err == nil {
		err = l.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return l, nil
}

// open starts the receiver, and builds the arms of others.
func (l *lab) open(ctx context.Context) error {
	cpus, err := program.Processors()
	if err != nil {
		return err
	}
	var receiverCPU []int
	if len(cpus) > 1 {
		l.client, receiverCPU = cpus[:1], cpus[1:2]
	} else {
		l.notes = append(l.notes, "there is only one processor: the receiver and the arms share it")
	}
	addr, err := server.FreeAddr()
	if err != nil {
		return err
	}
	err = program.Pinned(receiverCPU, func() error {
		l.receiver, err = server.Start(ctx, server.Options{
			Name: "receiver", Addr: addr, Path: "/ping",
			Program: l.self, Args: []string{child, childReceiver, addr}, Log: filepath.Join(l.dir, "receiver.log"),
		})
		return err
	})
	if err != nil || l.peers == "" {
		return err
	}
	l.Progress("building the arms of others")
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	others := filepath.Join(l.dir, "peers")
	if _, err := (program.Toolchain{Dir: l.peers, Env: []string{"GOWORK=off"}}).Do(ctx, "build", "-o", others, "."); err != nil {
		l.note("without the arms of others: %v", err)
	} else {
		l.others = others
	}
	return nil
}

func (l *lab) close() error {
	var err error
	if l.receiver != nil {
		err = l.receiver.Stop()
	}
	return errors.Join(err, os.RemoveAll(l.dir))
}

// measure measures an arm, in a process of its own.
func (l *lab) measure(ctx context.Context, e *entrant, job arm.Job, length time.Duration, cpus []int) (r *arm.Result, err error) {
	dir, err := os.MkdirTemp(l.dir, "spool-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	base, name := "http://"+l.receiver.Addr, filepath.Base(dir)
	client := arm.NewClient(base, name)
	run := arm.Run{Latency: latency, Expect: int(float64(l.rate)*length.Seconds()) + 1}
	if job == arm.Saturate {
		run = arm.Run{Discard: true}
	}
	if err := client.Begin(ctx, run); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, client.End(ctx)) }()
	task := arm.Task{
		Job: job, Design: e.name, Server: base, Run: name, Rate: l.rate, Length: length, Producers: producers,
		Options: arm.Options{Dir: dir, Size: arm.JSONSize, Interval: interval, Limit: limit},
	}
	path, args := l.self, append([]string{child, childArm}, task.Args()...)
	if e.other {
		path, args = l.others, task.Args()
	}
	// A blocked producer may need a multiple of the length.
	limited, cancel := context.WithTimeout(ctx, 4*length+2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(limited, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := program.Pinned(cpus, cmd.Start); err != nil {
		return nil, err
	}
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("%w: %.2000s", err, stderr.String())
	}
	r = new(arm.Result)
	return r, json.Unmarshal(stdout.Bytes(), r)
}

// receive is the receiver as a process. It serves until the context is done.
func receive(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s := &http.Server{Handler: arm.NewReceiver(), ReadHeaderTimeout: 10 * time.Second}
	var stopped sync.WaitGroup
	stopped.Go(func() {
		<-ctx.Done()
		_ = s.Close() // the arms are gone; an error would be of their connections
	})
	err = s.Serve(l)
	stopped.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
