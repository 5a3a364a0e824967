package script

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestUnaskedAnswer calls a service that sends more than one answer. What it sends
// unasked may be for another client, and is not printed.
func TestUnaskedAnswer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err == nil {
			_, err = c.Read(make([]byte, 1024))
		}
		if err == nil {
			_, err = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhunter2"))
		}
		if err == nil {
			_, _ = c.Read(make([]byte, 1)) // until the client closes the connection, by whatever means
			err = c.Close()
		}
		served <- err
	}()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program, file := filepath.Join(t.TempDir(), command), filepath.Join(t.TempDir(), "flow.yaml")
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	flow := `
- {kind: pipe, name: both, ports: {'out[0]': [{name: call}], 'out[1]': [{name: pause}]}}
- {kind: http, name: call, url: 'http://` + l.Addr().String() + `'}
- {kind: sleep, name: pause, interval: 200ms}
`
	if err := os.WriteFile(file, []byte(flow), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "call", file, "both", "--input", "null").CombinedOutput()
	if err != nil || strings.Contains(string(out), "hunter2") || !strings.Contains(string(out), `"status": 200`) {
		t.Errorf("error %v, output:\n%s", err, out)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
