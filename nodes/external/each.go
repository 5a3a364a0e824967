package external

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/value"
)

// An each is a node that runs a program for each packet.
type each struct {
	init     *node.Init
	settings *settings
	format   string
	launch   *launcher
	account  *node.Account
	slots    chan struct{} // an element for each process
}

func newEach(init *node.Init, s *settings, format string) (node.Node, error) {
	s.Each = true
	return &each{init: init, settings: s, format: format, slots: make(chan struct{}, s.Processes)}, nil
}

// Open checks that the program may be started, and that there is one.
func (n *each) Open(context.Context) error {
	if err := n.init.PermitProgram("exec " + field.Sum(n.settings.plain())); err != nil {
		return err
	}
	var err error
	if n.launch, err = newLauncher(n.init, n.settings); err != nil {
		return err
	}
	c, err := n.launch.pipes()
	if err != nil {
		return err
	}
	c.closeTheirs()
	c.closeOurs()
	if c.cmd.Err != nil {
		return n.launch.failure(c.cmd.Err)
	}
	n.account = n.init.Memory.Account(n.init.Node.Kind)
	return nil
}

// Close implements [io.Closer]. No process is left: each belongs to a packet.
func (n *each) Close() error {
	n.account.Close()
	return nil
}

// Concurrency implements [node.Concurrent].
func (n *each) Concurrency() int { return n.settings.Processes }

// Receive implements [node.Node].
func (n *each) Receive(_ node.Process, pkt node.Packet) node.Result {
	input, err := n.input(pkt.Payload)
	if err != nil {
		return node.Fail(node.Unusable("encode", err))
	}
	return node.Block(func(ctx context.Context) node.Result {
		if !n.account.Take(int64(len(input))) {
			return node.Fail(errMemory())
		}
		defer n.account.Free(int64(len(input)))
		select {
		case n.slots <- struct{}{}:
			defer func() { <-n.slots }()
		case <-ctx.Done():
			return node.Fail(context.Cause(ctx))
		}
		out, err := n.run(ctx, input)
		if err != nil {
			return node.Fail(err)
		}
		return node.Send(0, out)
	})
}

// input returns what the program reads.
func (n *each) input(payload value.Value) ([]byte, error) {
	if n.format != "json" {
		if text, ok := payload.AsString(); ok {
			return []byte(text), nil
		}
		if data, ok := payload.AsBinary(); ok {
			return data, nil
		}
	}
	return payload.AppendJSON(nil)
}

// output returns the payload of what the program has written.
func (n *each) output(data []byte) (value.Value, error) {
	switch {
	case n.format == "text":
		return value.String(string(bytes.TrimSuffix(data, []byte("\n")))), nil
	case n.format == "bytes":
		return value.Binary(data), nil
	case len(bytes.TrimSpace(data)) == 0:
		return value.Null(), nil
	}
	v, err := value.ParseJSON(data)
	if err != nil {
		return v, &node.Error{Err: fmt.Errorf("%s wrote %q, which is not JSON: %w", n.launch.name, shorten(data), err), Status: 502, Code: "exec_output"}
	}
	return v, nil
}

// run runs the program once.
func (n *each) run(ctx context.Context, input []byte) (out value.Value, err error) {
	c, err := n.launch.pipes()
	if err != nil {
		return out, err
	}
	if err := n.launch.start(c); err != nil {
		c.closeTheirs()
		c.closeOurs()
		return out, &node.Error{Err: err, Status: 503, Code: "exec_away", Outage: true}
	}
	late := fmt.Errorf("%s did not end within %s, and was killed", n.launch.name, n.settings.Timeout)
	if n.settings.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, n.settings.Timeout, late)
		defer cancel()
	}
	defer context.AfterFunc(ctx, c.group.kill)()
	says := newSays(n.init.Log, c.cmd.Process.Pid)
	var work sync.WaitGroup
	work.Go(func() { says.read(c.errors) })
	work.Go(func() {
		_, _ = c.input.Write(input) // a program need not read all, or any
		_ = c.input.Close()         // likewise
	})
	var status error
	work.Go(func() {
		status = c.group.wait(c.cmd)
		rest := time.Now().Add(endRest)
		_ = c.output.SetReadDeadline(rest)            // a pipe has deadlines
		_ = c.errors.SetReadDeadline(rest)            // likewise
		_ = c.input.SetWriteDeadline(time.Unix(1, 0)) // nothing reads it any more
	})
	data, read := n.read(c.output)
	if read != nil {
		c.group.kill()
	}
	work.Wait()
	_ = c.output.Close() // all is read
	switch {
	case ctx.Err() != nil && context.Cause(ctx) == late:
		return out, &node.Error{Err: late, Status: 504, Code: "timeout"}
	case ctx.Err() != nil:
		return out, context.Cause(ctx)
	case read != nil:
		return out, &node.Error{Err: fmt.Errorf("%s: %w", n.launch.name, read), Status: 502, Code: "exec_output"}
	case status != nil:
		return out, n.failed(status, says.last())
	}
	return n.output(data)
}

// read reads the output, up to the limit.
func (n *each) read(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(n.settings.MaxLine)+1))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil // the program has ended, and something that it left behind holds the pipe open
	}
	if len(data) > n.settings.MaxLine {
		return nil, fmt.Errorf("it wrote more than max_line, %d bytes", n.settings.MaxLine)
	}
	return data, err
}

// failed is the error of a program that has exited with another status than 0.
func (n *each) failed(status error, last string) error {
	e := &node.Error{Err: fmt.Errorf("%s: %w", n.launch.name, status), Status: 502, Code: "exec_failed"}
	fields := []value.Field{{Name: "stderr", Value: value.String(last)}}
	var exit *exec.ExitError
	if errors.As(status, &exit) {
		fields = append(fields, value.Field{Name: "exit", Value: value.Int(int64(exit.ExitCode()))})
	}
	if last != "" {
		e.Err = fmt.Errorf("%s: %w; it said: %s", n.launch.name, status, last)
	}
	e.Data = value.Map(fields...)
	return e
}
