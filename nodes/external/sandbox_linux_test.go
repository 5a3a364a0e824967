//go:build amd64 || arm64

package external_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/external"
	"github.com/uniflow-labs/uniflow/value"
)

// attack sends an attack to a program with these limits, and one to a program without: that one must succeed, or the
// attack proves nothing.
func attackBoth(t *testing.T, limits, attack string) (free, confined node.Response) {
	t.Helper()
	f := newFlow(t)
	f.Load(program(t, "attack", ", processes: 1, timeout: 2m"))
	free = f.Send("n", text(attack))
	f.Load(program(t, "attack", ", processes: 1, timeout: 2m, sandbox: {"+limits+"}"))
	confined = f.Send("n", text(attack))
	return free, confined
}

func TestSandbox(t *testing.T) {
	dir := t.TempDir()
	secret, open := filepath.Join(dir, "secret"), filepath.Join(dir, "open")
	for _, file := range []string{secret, open} {
		if err := os.WriteFile(file, []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	other := exec.Command("sleep", "600")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		other.Process.Kill()
		other.Wait()
	}()
	for _, c := range []struct{ name, limits, attack, want string }{
		{"read", "read: [" + open + "]", "read " + secret, "permission denied"},
		{"environment of another process", "", fmt.Sprintf("read /proc/%d/environ", os.Getpid()), "permission denied"},
		{"write", "read: [" + dir + "]", "write " + open, "permission denied"},
		{"network", "network: false", "dial " + listener.Addr().String(), "operation not permitted"},
		{"memory", "memory: 128MiB", "memory", "exec_ended"},
		{"files", "files: 32", "files", "after 2"},
		{"children", "children: false", "child", "operation not permitted"},
		{"escape", "", "escape", "operation not permitted"},
		{"signal", "", "kill " + strconv.Itoa(other.Process.Pid), "operation not permitted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			free, confined := attackBoth(t, c.limits, c.attack)
			if free.IsError() && c.name != "files" {
				t.Errorf("got %v without limits", free.Payload)
			}
			if e := failure(t, confined); !strings.Contains(e.Error(), c.want) {
				t.Errorf("got %v, want %s", e, c.want)
			}
			if pid, ok := free.Payload.AsInt(); ok && c.name == "escape" {
				p, _ := os.FindProcess(int(pid))
				p.Kill()
			}
		})
	}
	for _, c := range []struct{ limits, try string }{
		{"read: [" + open + "]", "read " + open},
		{"write: [" + dir + "]", "write " + open},
		{"read: [/], write: [/]", "read " + secret},
		{"network: true", "dial " + listener.Addr().String()},
		{"memory: 4GiB", "memory"},
		{"memory: 1GiB", "child"},
	} {
		if withRace && c.try == "memory" {
			continue
		}
		t.Run("allowed "+c.limits, func(t *testing.T) {
			if _, got := attackBoth(t, c.limits, c.try); got.IsError() {
				t.Error(got.Payload)
			}
		})
	}
}

// TestSandboxCPU expects that the kernel ends a program that uses too much time, and that the next packet is answered.
func TestSandboxCPU(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "attack", ", processes: 1, timeout: 0, sandbox: {cpu: 1s}"))
	if e := failure(t, f.Send("n", text("cpu"))); e.Code != "exec_ended" || !strings.Contains(e.Error(), "signal: killed") {
		t.Errorf("got %v", e)
	}
	if got := f.Send("n", text("ok")); got.IsError() {
		t.Error(got.Payload)
	}
}

// TestSandboxAlone runs programs that start threads or processes without the runtime of Go.
func TestSandboxAlone(t *testing.T) {
	for _, c := range []struct{ code, want string }{
		{"import threading\nt = threading.Thread(target=print, args=('thread',))\nt.start()\nt.join()", "thread"},
		{"import os\nos.fork()", "Operation not permitted"},
		{"import os\nos.posix_spawn('/bin/true', ['true'], {})", "Operation not permitted"},
		{"import subprocess\nsubprocess.run(['/bin/true'])", "Operation not permitted"},
	} {
		f := newFlow(t)
		f.Load(fmt.Sprintf(`[{"kind": "exec", "name": "n", "mode": "each", "format": "text", "command": ["/usr/bin/python3", "-c", %q], "timeout": "1m", "sandbox": {"children": false}}]`, c.code))
		if got := fmt.Sprint(f.Send("n", value.Null()).Payload); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.code, got, c.want)
		}
	}
}

// TestSandboxFails expects that what cannot be limited does not start, and that the error says which part and where.
func TestSandboxFails(t *testing.T) {
	for _, c := range []struct {
		name, document, want string
		prepare              func(*flowtest.Flow)
	}{
		{"no such path", program(t, "attack", ", sandbox: {read: [/no/such/path]}"), "stat /no/such/path", nil},
		{"no worker", program(t, "attack", ", sandbox: {}"), "cannot limit others", func(f *flowtest.Flow) { f.Options.Programs = node.AllowPrograms() }},
		{"no program", "- {kind: exec, name: n, command: [/no/such/program], sandbox: {}}", "/no/such/program", nil},
		{"program that cannot be executed", "- {kind: exec, name: n, command: [/etc/passwd], sandbox: {}}", "/etc/passwd", nil},
		{"mode each", "- {kind: exec, name: n, mode: each, command: [/no/such/program], sandbox: {}}", "/no/such/program", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlow(t)
			if c.prepare != nil {
				c.prepare(f)
			}
			if _, err := f.Apply(c.document); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestNoLandlock expects that a kernel without Landlock is an error that says how to do without.
func TestNoLandlock(t *testing.T) {
	err := external.PossibleWith(0, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "sandbox.read and sandbox.write need Landlock") || !strings.Contains(err.Error(), `write: ["/"]`) {
		t.Errorf("got %v", err)
	}
	if err := external.PossibleWith(0, []string{"/"}, []string{"/"}); err != nil {
		t.Errorf("got %v although all files are allowed", err)
	}
}
