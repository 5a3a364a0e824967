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
	if s.client != nil || s.program != nil {
		return errors.New("there is a program already")
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
	cmd.Stdout, cmd.Stderr = &output{s: s, category: "stdout"}, &output{s: s, category: "stderr"}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	p := &launched{cmd: cmd, folder: folder, ended: make(chan struct{})}
	s.program = p
	s.work.Go(func() {
		_ = cmd.Wait() // the code says it
		p.code = cmd.ProcessState.ExitCode()
		close(p.ended)
		s.tell(&dap.ExitedEvent{Event: s.event("exited"), Body: dap.ExitedEventBody{ExitCode: p.code}})
		s.tell(&dap.TerminatedEvent{Event: s.event("terminated")})
	})
	s.mu.Unlock()
	url, err := p.console(s.ctx, file)
	s.mu.Lock()
	if err != nil {
		return err
	}
	address, code, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/#code=")
	return s.attachTo(address, "", code, of.Cwd)
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
			return "", fmt.Errorf("the program ended with %d before it served: see its output", p.code)
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

// An output sends what a program prints to the editor, in whole lines.
type output struct {
	s        *session
	category string
	rest     []byte
}

func (o *output) Write(text []byte) (int, error) {
	o.rest = append(o.rest, text...)
	if at := bytes.LastIndexByte(o.rest, '\n'); at >= 0 {
		lines := string(o.rest[:at+1])
		o.rest = append(o.rest[:0], o.rest[at+1:]...)
		o.s.tell(&dap.OutputEvent{Event: o.s.event("output"), Body: dap.OutputEventBody{Category: o.category, Output: lines}})
	}
	return len(text), nil
}
