package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A command is a program that is a server on its standard input and output, with a message
// a line. It implements [sdk.Transport]; the transport of the library has a limit of its own.
type command struct {
	cmd     *exec.Cmd
	most    int64        // bytes of a message
	tooLong *atomic.Bool // set when one is longer
}

// Connect starts the program.
func (p *command) Connect(ctx context.Context) (sdk.Connection, error) {
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	input, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return (&sdk.IOTransport{
		Reader: io.NopCloser(&limitedLines{output, p.most, p.most, p.tooLong}), Writer: &programInput{input, p.cmd}, MaxLineLength: -1,
	}).Connect(ctx)
}

// A programInput is the input of a program, which ends with it.
type programInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close ends the input, and waits for the end of the program, which is asked for it with a
// signal when it is late, and then killed.
func (i *programInput) Close() error {
	err := i.WriteCloser.Close()
	late := time.AfterFunc(endProgram, func() { _ = i.cmd.Process.Signal(syscall.SIGTERM) }) // it has ended, or there are no signals
	defer late.Stop()
	stubborn := time.AfterFunc(2*endProgram, func() { _ = i.cmd.Process.Kill() }) // it has ended
	defer stubborn.Stop()
	return errors.Join(err, i.cmd.Wait())
}

// limitedLines fails when a line is longer than it may be.
type limitedLines struct {
	r          io.Reader
	most, left int64
	tooLong    *atomic.Bool
}

func (l *limitedLines) Read(p []byte) (int, error) {
	n, err := l.r.Read(p[:min(int64(len(p)), l.most)])
	end := bytes.IndexByte(p[:n], '\n')
	if end < 0 {
		end = n
	}
	if l.left -= int64(end); l.left < 0 {
		l.tooLong.Store(true)
		return 0, errTooLong
	}
	if last := bytes.LastIndexByte(p[:n], '\n'); last >= 0 {
		l.left = l.most - int64(n-last-1)
	}
	return n, err
}

// endProgram is how long a program may take to end after its input has, before it is
// asked to with a signal; and as long again before it is killed.
const endProgram = 2 * time.Second

// inherited are the variables of the environment that a program gets.
var inherited = []string{"PATH", "HOME", "USER", "LANG", "TMPDIR"}

// inheritedWindows are those without which programs do not run there.
var inheritedWindows = []string{"SystemRoot", "SystemDrive", "TEMP", "TMP", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "PATHEXT", "ProgramFiles"}

// program returns what starts the program.
func (s *Settings) program() *exec.Cmd {
	cmd := exec.Command(s.command[0], s.command[1:]...)
	names := inherited
	if runtime.GOOS == "windows" {
		names = append(names[:len(names):len(names)], inheritedWindows...)
	}
	for _, name := range names {
		if text, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+text)
		}
	}
	cmd.Env = append(cmd.Env, s.env...)
	cmd.Dir = s.dir
	cmd.Stderr = &lines{log: s.log.With("program", s.command[0])}
	cmd.WaitDelay = endProgram // a child of its own may keep the output open
	ownGroup(cmd)
	return cmd
}

// maxLine is how much of a line of a program is logged.
const maxLine = 1 << 10

// lines logs what a program writes to its standard error, for those who look for a
// mistake. One goroutine writes.
type lines struct {
	log  *slog.Logger
	line []byte
}

func (l *lines) Write(p []byte) (int, error) {
	for text := range strings.Lines(string(p)) {
		l.line = append(l.line, text[:min(len(text), maxLine-len(l.line))]...)
		if !strings.HasSuffix(text, "\n") {
			break
		}
		l.log.Debug("the program says", "line", strings.TrimSpace(string(l.line)))
		l.line = l.line[:0]
	}
	return len(p), nil
}
