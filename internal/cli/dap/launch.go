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
	"time"

	"github.com/google/go-dap"

	"github.com/uniflow-labs/uniflow/internal/api"
)

// Limits of a program that is launched.
const (
	startTime = 30 * time.Second // until its console listens
	stopTime  = 15 * time.Second // from the interrupt until it is killed: a little more than the grace of start
)

// A launched program ends with the session.
type launched struct {
	cmd    *exec.Cmd
	folder string        // that has the address of its console
	ended  chan struct{} // closed when it has ended
	code   int           // how it has ended
}

// launch starts a program as uniflow start does, and attaches to it. What it prints goes to the editor. The
// lock is held, but not while the program starts.
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
	if err != nil {
		p.stop()
	}
	s.mu.Lock()
	if err == nil {
		err = s.attachTo(client, of.Cwd)
	}
	if err != nil {
		s.program = nil
	}
	return err
}

// serves waits until the program serves its documents.
func (p *launched) serves(ctx context.Context, file string) (*api.Client, error) {
	url, err := p.console(ctx, file)
	if err != nil {
		return nil, err
	}
	address, code, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/#code=")
	client := &api.Client{Address: address}
	if err = client.Enter(ctx, code); err == nil {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			var status api.Status
			if err = client.Get(ctx, api.StatusPath, &status); err != nil || status.Generation > 0 {
				break
			}
			<-tick.C // until it serves, or has ended
		}
	}
	if err == nil {
		return client, nil
	}
	late := time.NewTimer(time.Second)
	defer late.Stop()
	select {
	case <-p.ended:
		return nil, p.early()
	case <-late.C:
		return nil, err
	}
}

func (p *launched) early() error {
	return fmt.Errorf("the program ended with %d before it served: see its output", p.code)
}

// console waits for the address of the program's console.
func (p *launched) console(ctx context.Context, file string) (url string, err error) {
	late := time.NewTimer(startTime)
	defer late.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		text, err := os.ReadFile(file)
		if url, whole := strings.CutSuffix(string(text), "\n"); err == nil && whole {
			return url, nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-p.ended:
			return "", p.early()
		case <-late.C:
			return "", errors.New("the program does not listen for its console")
		case <-tick.C:
		}
	}
}

// stop interrupts the program, and waits until it has ended.
func (p *launched) stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
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
