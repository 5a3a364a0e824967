package dap

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/google/go-dap"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// stopTime is how long a program that was interrupted has until it is killed: a little more than the grace of start.
const stopTime = 15 * time.Second

// A launched program ends with the session.
type launched struct {
	cmd      *exec.Cmd
	folder   string // that has the address of its console
	stopping sync.Once
	ended    chan struct{} // closed when it has ended
	code     int           // how it has ended
}

// launch starts a program as uniflow start does, and attaches to it. What it prints goes to the editor. The
// lock is held, but not while the program starts: the editor can disconnect meanwhile.
func (s *session) launch(arguments json.RawMessage) error {
	var of struct {
		Specs, Args []string
		Cwd         string
		Env         map[string]string
	}
	if err := decode(arguments, &of); err != nil {
		return err
	}
	if err := s.free(); err != nil {
		return err
	}
	if len(of.Specs) == 0 {
		return errors.New(`launch needs "specs", the documents as uniflow start takes them: ["flow.yaml"]`)
	}
	folder, err := os.MkdirTemp("", "uniflow-dap-*")
	if err != nil {
		return err
	}
	file := filepath.Join(folder, "console")
	args := append([]string{"start"}, of.Specs...)
	args = append(append(args, "--admin", "127.0.0.1:0", "--console", "--console-code-file", file), of.Args...)
	cmd := exec.Command(s.executable, args...) // it is interrupted, not killed, when the session ends
	cmd.Dir, cmd.Env = of.Cwd, os.Environ()
	for name, text := range of.Env {
		cmd.Env = append(cmd.Env, name+"="+text)
	}
	out, errs := &output{s: s, category: "stdout"}, &output{s: s, category: "stderr"}
	cmd.Stdout, cmd.Stderr = out, errs
	cmd.WaitDelay = time.Second // a child of it may keep its output open
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	p := &launched{cmd: cmd, folder: folder, ended: make(chan struct{})}
	s.program = p
	s.work.Go(func() {
		_ = cmd.Wait() // the code says it
		p.code = cmd.ProcessState.ExitCode()
		out.flush()
		errs.flush()
		close(p.ended)
		s.tell(&dap.ExitedEvent{Event: s.event("exited"), Body: dap.ExitedEventBody{ExitCode: p.code}})
		s.tell(&dap.TerminatedEvent{Event: s.event("terminated")})
	})
	s.mu.Unlock()
	client, err := p.serves(s.ctx, file)
	s.mu.Lock()
	if err == nil {
		err = s.attachTo(client, of.Cwd)
	}
	if err != nil {
		s.program = nil
		s.mu.Unlock()
		p.stop()
		s.mu.Lock()
	}
	return err
}

// serves waits until the program serves its documents, which it reads when it listens for its console already.
func (p *launched) serves(ctx context.Context, file string) (client *api.Client, err error) {
	is := func() bool {
		if client == nil {
			text, _ := os.ReadFile(file) // until it is there
			url, whole := strings.CutSuffix(string(text), "\n")
			address, code, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/#code=")
			c := &api.Client{Address: address}
			if !whole || c.Enter(ctx, code) != nil {
				return false
			}
			client = c
		}
		var status api.Status
		return client.Get(ctx, api.StatusPath, &status) == nil && status.Generation > 0
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-p.ended:
			return nil, fmt.Errorf("the program ended with %d before it served: see its output", p.code)
		case <-tick.C:
		}
	}
	return client, nil
}

// stop interrupts the program once, as the second interrupt would end it immediately, and waits until it has ended.
func (p *launched) stop() {
	p.stopping.Do(func() { _ = p.cmd.Process.Signal(os.Interrupt) }) // it may have ended
	late := time.NewTimer(stopTime)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.ended
	}
	_ = os.RemoveAll(p.folder) // a file of a code that is not good any more
}

// maxLine is how many bytes of a line are waited for.
const maxLine = 64 << 10

// An output sends what a program prints to the editor, in whole lines.
type output struct {
	s        *session
	category string
	rest     []byte
}

func (o *output) Write(text []byte) (int, error) {
	o.rest = append(o.rest, text...)
	if at := bytes.LastIndexByte(o.rest, '\n') + 1; at > 0 {
		o.send(at)
	}
	if len(o.rest) > maxLine {
		o.flush()
	}
	return len(text), nil
}

// flush sends what is not a whole line.
func (o *output) flush() {
	if len(o.rest) > 0 {
		o.send(len(o.rest))
	}
}

func (o *output) send(n int) {
	o.s.tell(&dap.OutputEvent{Event: o.s.event("output"), Body: dap.OutputEventBody{Category: o.category, Output: strings.ToValidUTF8(string(o.rest[:n]), "\uFFFD")}})
	o.rest = append(o.rest[:0], o.rest[n:]...)
}
