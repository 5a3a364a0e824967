package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// A child is a program that runs until it is stopped.
type child struct {
	cmd    *exec.Cmd
	stdin  io.Closer // whose end stops a broker
	output strings.Builder
}

// background starts a program.
func (l *lab) background(ctx context.Context, name string, args ...string) (*child, error) {
	c := &child{cmd: exec.CommandContext(ctx, name, args...)}
	c.cmd.Dir, c.cmd.Stdout, c.cmd.Stderr = l.Dir, &c.output, &c.output
	return c, c.cmd.Start()
}

// stop ends the program, however it likes that: its messages are measured by then.
func (c *child) stop() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// end ends a broker, and what it has started.
func (c *child) end() {
	_ = c.stdin.Close() // it ends with that, however
	_ = c.cmd.Wait()
}

// broker starts a broker, of test/brokers, in a process of its own.
func (l *lab) broker(ctx context.Context, args ...string) (c *child, addr string, err error) {
	path := l.File("broker")
	if _, err := os.Stat(path); err != nil {
		t := program.Toolchain{Dir: filepath.Join("test", "brokers"), Env: []string{"GOWORK=off"}}
		if _, err := t.Do(ctx, "build", "-o", path, "./cmd/broker"); err != nil {
			return nil, "", err
		}
	}
	c = &child{cmd: exec.CommandContext(ctx, path, args...)}
	c.cmd.Dir, c.cmd.Stderr = filepath.Join("test", "brokers"), &c.output
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, "", err
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		c.stop()
		return nil, "", fmt.Errorf("broker %s: %w: %s", strings.Join(args, " "), err, c.output.String())
	}
	return c, strings.TrimSpace(line), nil
}

// through measures a program that moves n messages: from the first that arrived, by when it has
// connected, to the last. arrived counts them.
func (l *lab) through(ctx context.Context, n int, arrived func(context.Context) (int, error), name string, args ...string) (c cost, moved int, err error) {
	p, err := l.background(ctx, name, args...)
	if err != nil {
		return cost{}, 0, err
	}
	defer p.stop()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	first, begun, busy := 0, time.Time{}, time.Duration(0)
	for {
		got, err := arrived(ctx)
		if err != nil {
			return cost{}, 0, errors.Join(err, errors.New(p.output.String()))
		}
		switch {
		case got > 0 && first == 0:
			first, begun = got, time.Now()
			if busy, err = server.Busy(p.cmd.Process.Pid); err != nil {
				return cost{}, 0, err
			}
		case got >= n:
			c.wall = time.Since(begun)
			used, err := server.Busy(p.cmd.Process.Pid)
			if err != nil {
				return cost{}, 0, err
			}
			c.cpu = used - busy
			_, c.peak, err = server.Resident(p.cmd.Process.Pid)
			return c, n - first, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cost{}, 0, fmt.Errorf("%d of %d messages came: %w: %s", got, n, context.Cause(ctx), p.output.String())
		}
	}
}
