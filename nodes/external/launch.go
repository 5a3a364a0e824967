package external

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
)

// A launcher starts processes of one program.
type launcher struct {
	settings  *settings
	programs  *node.Programs
	name      string // of the program, for messages
	path      string // as the start has found it; only for a sandbox
	handshake bool   // a process says when it is ready
}

// newLauncher finds the program, and checks that the sandbox is possible here.
func newLauncher(init *node.Init, s *settings) (*launcher, error) {
	l := &launcher{settings: s, programs: init.Programs, name: filepath.Base(s.Command[0]), handshake: s.Ready}
	if s.Sandbox == nil {
		return l, nil
	}
	if err := s.Sandbox.possible(); err != nil {
		return nil, init.Config.Errorf("sandbox", codeSandbox, "%w", err)
	}
	if len(init.Programs.Confine) == 0 {
		return nil, init.Config.Errorf("sandbox", codeSandbox, "this program cannot limit others").WithHint("leave sandbox out; a program that embeds the engine has to set Programs.Confine")
	}
	path := s.Command[0]
	if strings.ContainsRune(path, filepath.Separator) && !filepath.IsAbs(path) {
		path = filepath.Join(s.Dir, path)
	}
	path, err := exec.LookPath(path)
	if err == nil {
		path, err = filepath.Abs(path)
	}
	if err != nil {
		return nil, l.failure(err)
	}
	l.path = path
	return l, nil
}

// failure is the error of a program that cannot be started.
func (l *launcher) failure(err error) error {
	name := l.settings.Command[0]
	if _, none := os.Stat(l.settings.Dir); l.settings.Dir != "" && none != nil { // the system names the program
		return fmt.Errorf("start %s: the folder that it runs in: %w", name, none)
	}
	if first, rest, some := strings.Cut(name, " "); some && errors.Is(err, exec.ErrNotFound) {
		return fmt.Errorf("start %s: %w; no shell reads the command, which is a list such as [%s, %s]", name, err, first, strings.Join(strings.Fields(rest), ", "))
	}
	return fmt.Errorf("start %s: %w", l.settings.Command[0], err)
}

// A conduit is a command with the ends of its pipes.
type conduit struct {
	cmd                   *exec.Cmd
	group                 *group
	input, output, errors *os.File // our ends
	theirs                []*os.File
	confined              *os.File // from which what has limited the program says what is wrong; nil without a sandbox
}

// pipes returns a command that is ready to be started.
func (l *launcher) pipes() (c *conduit, err error) {
	c = &conduit{cmd: exec.Command(l.settings.Command[0], l.settings.Command[1:]...), group: &group{}}
	if box := l.settings.Sandbox; box != nil {
		argv, err := box.argv(l)
		if err != nil {
			return nil, err
		}
		c.cmd = &exec.Cmd{Path: self(), Args: argv}
	}
	c.cmd.Dir, c.cmd.Env = l.settings.Dir, l.settings.Env
	if c.cmd.Env == nil {
		c.cmd.Env = []string{} // nil would be all of this process
	}
	c.group.own(c.cmd)
	defer func() {
		if err != nil {
			c.closeTheirs()
			c.closeOurs()
		}
	}()
	pipe := func(reads bool) (ours, theirs *os.File) {
		if err != nil {
			return nil, nil
		}
		var r, w *os.File
		if r, w, err = os.Pipe(); err != nil {
			return nil, nil
		}
		if reads {
			c.theirs = append(c.theirs, r)
			return w, r
		}
		c.theirs = append(c.theirs, w)
		return r, w
	}
	var stdin, stdout, stderr, status *os.File
	c.input, stdin = pipe(true)
	c.output, stdout = pipe(false)
	c.errors, stderr = pipe(false)
	if l.settings.Sandbox != nil {
		c.confined, status = pipe(false)
		c.cmd.ExtraFiles = []*os.File{status}
	}
	if err != nil {
		return nil, err
	}
	c.cmd.Stdin, c.cmd.Stdout, c.cmd.Stderr = stdin, stdout, stderr
	return c, nil
}

// maxConfine is how long it may take to limit a program.
const maxConfine = 20 * time.Second

// start starts the program. In a sandbox it returns when the limits are set and the program runs.
func (l *launcher) start(c *conduit) error {
	if err := c.cmd.Start(); err != nil {
		return l.failure(err)
	}
	c.group.started(c.cmd)
	c.closeTheirs()
	if c.confined == nil {
		return nil
	}
	err := c.confined.SetReadDeadline(time.Now().Add(maxConfine))
	if err == nil {
		var wrong []byte
		if wrong, err = io.ReadAll(io.LimitReader(c.confined, 4<<10)); err == nil && len(wrong) > 0 {
			err = errors.New(string(wrong))
		}
	}
	_ = c.confined.Close() // all is read
	c.confined = nil
	if err == nil {
		return nil
	}
	c.group.kill()
	_ = c.group.wait(c.cmd) // it has reported why
	return l.failure(err)
}

// closeTheirs closes the ends of the program in this process.
func (c *conduit) closeTheirs() {
	for _, f := range c.theirs {
		_ = f.Close() // nothing was written to it here
	}
	c.theirs = nil
}

// closeOurs closes the other ends, of a program that was not started.
func (c *conduit) closeOurs() {
	for _, f := range []*os.File{c.input, c.output, c.errors, c.confined} {
		if f != nil {
			_ = f.Close() // nothing is in it
		}
	}
}
