package brokers

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// An MQTT is a mosquitto with persistence in a temporary folder, and a user ann whose password
// is correct. The topic secret is closed to that user.
type MQTT struct {
	Port int

	dir string
	cmd *exec.Cmd
	log sync.WaitGroup // reads the log to its end
}

// StartMQTT starts a mosquitto, and kills it at the end of the test. options are more lines of
// its configuration.
func StartMQTT(tb testing.TB, options ...string) *MQTT {
	tb.Helper()
	m := &MQTT{Port: freeport.Port(tb), dir: tb.TempDir()}
	passwords := filepath.Join(m.dir, "passwords")
	if out, err := exec.Command("mosquitto_passwd", "-c", "-b", passwords, "ann", "correct").CombinedOutput(); err != nil {
		tb.Fatalf("mosquitto_passwd: %v\n%s", err, out)
	}
	lines := append([]string{
		fmt.Sprintf("listener %d 127.0.0.1", m.Port), "user root", "password_file " + passwords, "acl_file " + filepath.Join(m.dir, "acl"),
		"persistence true", "persistence_location " + m.dir + "/",
		"max_queued_messages 1000000", "max_packet_size 16000000", "log_dest stderr", "log_type information", "log_type error",
	}, options...)
	for name, text := range map[string]string{
		"mosquitto.conf": strings.Join(lines, "\n") + "\n",
		"acl":            "user ann\ntopic deny secret\ntopic readwrite #\n",
	} {
		if err := os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	tb.Cleanup(m.Kill)
	m.start(tb)
	return m
}

// start starts the broker, and waits until it takes connections.
func (m *MQTT) start(tb testing.TB) {
	tb.Helper()
	m.cmd = exec.Command("mosquitto", "-c", filepath.Join(m.dir, "mosquitto.conf"))
	out, err := m.cmd.StderrPipe()
	if err != nil {
		tb.Fatal(err)
	}
	m.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := m.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	var said bytes.Buffer
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "running") {
			m.log.Go(func() { _, _ = io.Copy(io.Discard, out) }) // ends with the broker
			return
		}
	}
	tb.Fatalf("mosquitto does not start:\n%s", said.String())
}

// Addr returns the host and the port.
func (m *MQTT) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(m.Port)) }

// Kill ends the broker as kill -9 does. A second call does nothing.
func (m *MQTT) Kill() {
	m.stop(syscall.SIGKILL)
}

func (m *MQTT) stop(signal syscall.Signal) {
	if m.cmd == nil {
		return
	}
	_ = m.cmd.Process.Signal(signal) // it may have ended
	m.log.Wait()
	_ = m.cmd.Wait() // it was killed
	m.cmd = nil
}

// Restart ends the broker in its own way, and starts it with what it has kept. mosquitto writes
// that when it ends, and now and then, not before it acknowledges a message.
func (m *MQTT) Restart(tb testing.TB) {
	tb.Helper()
	m.stop(syscall.SIGTERM)
	m.start(tb)
}
