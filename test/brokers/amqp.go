package brokers

import (
	"bufio"
	_ "embed"
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

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

//go:embed amqp_control.erl
var amqpControl []byte

// An AMQP is a RabbitMQ in a temporary folder, with a user ann whose password is correct. It is a
// process group of its own, with the helpers that it starts.
type AMQP struct {
	Port int

	dir    string
	node   string
	env    []string
	server *exec.Cmd
	last   int // number of a virtual host

	control struct {
		sync.Mutex
		cmd *exec.Cmd
		in  io.WriteCloser
		out *bufio.Reader
	}
}

// StartAMQP starts a RabbitMQ, and kills it at the end of the test. It takes some seconds.
// options are more lines of its configuration.
func StartAMQP(tb testing.TB, options ...string) *AMQP {
	tb.Helper()
	dir := tb.TempDir()
	var ports [3]int
	for i := range ports {
		ports[i] = freeport.Port(tb)
	}
	a := &AMQP{Port: ports[0], dir: dir, node: fmt.Sprintf("uniflow%d@localhost", ports[0])}
	files := map[string]string{
		".erlang.cookie":  "uniflow",
		"rabbitmq.conf":   fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nlog.console = false\nvm_memory_high_watermark.absolute = 2GB\ndisk_free_limit.absolute = 50MB\n", a.Port) + strings.Join(options, "\n") + "\n",
		"enabled_plugins": "[].",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o400); err != nil {
			tb.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "amqp_control.erl"), amqpControl, 0o600); err != nil {
		tb.Fatal(err)
	}
	a.env = append(os.Environ(),
		"HOME="+dir, fmt.Sprint("ERL_EPMD_PORT=", ports[1]), "ERL_EPMD_ADDRESS=127.0.0.1", "CONTROL_NODE="+a.node,
		"RABBITMQ_NODENAME="+a.node, fmt.Sprint("RABBITMQ_DIST_PORT=", ports[2]),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(dir, "mnesia"), "RABBITMQ_LOG_BASE="+filepath.Join(dir, "log"),
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+S 1:1", // it starts in less time, and leaves the test a core
		"RUNNING_UNDER_SYSTEMD=1",                    // the script becomes the broker, and does not start it: it ends with the test, however that ends
		"RABBITMQ_CONFIG_FILE="+filepath.Join(dir, "rabbitmq"), "RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(dir, "enabled_plugins"),
	)
	a.begin(tb, "epmd", "-port", strconv.Itoa(ports[1]), "-address", "127.0.0.1")
	if out, err := a.command("erlc", "amqp_control.erl").CombinedOutput(); err != nil {
		tb.Fatalf("erlc: %v\n%s", err, out)
	}
	tb.Cleanup(func() { a.Kill() })
	a.start(tb)
	a.connectControl(tb)
	a.ask(tb, "user ann correct")
	return a
}

// shared are brokers that outlive their test.
var shared struct {
	sync.Mutex
	amqp *AMQP
	end  []func()
}

// SharedAMQP returns a RabbitMQ that [Clean] kills. Each test has virtual hosts of its own there,
// and may restart it if it runs alone.
func SharedAMQP(tb testing.TB) *AMQP {
	tb.Helper()
	shared.Lock()
	defer shared.Unlock()
	if shared.amqp == nil {
		shared.amqp = StartAMQP(lasting{tb})
	}
	return shared.amqp
}

// A lasting is a test whose broker outlives it.
type lasting struct{ testing.TB }

func (l lasting) Cleanup(f func()) { shared.end = append(shared.end, f) }

func (l lasting) TempDir() string {
	l.Helper()
	dir, err := os.MkdirTemp("", "brokers")
	if err != nil {
		l.Fatal(err)
	}
	built.Store(dir, true)
	return dir
}

func (a *AMQP) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env = a.dir, a.env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	return cmd
}

// begin starts a command, and kills it at the end of the test.
func (a *AMQP) begin(tb testing.TB, name string, args ...string) *exec.Cmd {
	tb.Helper()
	cmd := a.command(name, args...)
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { killGroup(cmd) })
	return cmd
}

// killGroup kills a command and what it has started.
func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // it may have ended
	_ = cmd.Wait()                                      // it was killed
}

// start starts the broker, and waits until it takes connections.
func (a *AMQP) start(tb testing.TB) {
	tb.Helper()
	cmd := a.command("/usr/lib/rabbitmq/bin/rabbitmq-server")
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	a.server = cmd
	var said strings.Builder
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "completed with") {
			return
		}
		said.WriteString(lines.Text() + "\n")
	}
	tb.Fatalf("rabbitmq-server does not start:\n%s", said.String())
}

func (a *AMQP) connectControl(tb testing.TB) {
	tb.Helper()
	c := &a.control
	c.cmd = a.command("erl", "-noshell", "-hidden", "-sname", fmt.Sprintf("control%d@localhost", a.Port), "-s", "amqp_control", "main")
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { killGroup(c.cmd) })
}

// ask returns the answer of the broker to a question of amqp_control.erl.
func (a *AMQP) ask(tb testing.TB, words string) string {
	tb.Helper()
	a.control.Lock()
	defer a.control.Unlock()
	if _, err := io.WriteString(a.control.in, words+"\n"); err != nil {
		tb.Fatal(err)
	}
	line, err := a.control.out.ReadString('\n')
	if err != nil || strings.HasPrefix(line, "!") {
		tb.Fatalf("the broker answers %q: %s (%v)", words, line, err)
	}
	return strings.TrimSpace(line)
}

// Vhost makes a virtual host for the user ann, and returns its name.
func (a *AMQP) Vhost(tb testing.TB) string {
	tb.Helper()
	a.control.Lock()
	a.last++
	name := fmt.Sprint("v", a.last)
	a.control.Unlock()
	a.ask(tb, "vhost "+name+" ann")
	return name
}

// Count returns how many messages a queue has, and how many of them are not acknowledged.
func (a *AMQP) Count(tb testing.TB, vhost, queue string) (all, unacknowledged int) {
	tb.Helper()
	text := a.ask(tb, "count "+vhost+" "+queue)
	if _, err := fmt.Sscan(text, &all, &unacknowledged); err != nil {
		tb.Fatalf("count: %q", text)
	}
	return all, unacknowledged
}

// Alarm lets the broker lack memory, or not any more. While it does, it takes no messages.
func (a *AMQP) Alarm(tb testing.TB, on bool) {
	tb.Helper()
	a.ask(tb, "alarm "+map[bool]string{true: "on", false: "off"}[on])
}

// Addr returns the host and the port.
func (a *AMQP) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(a.Port)) }

// Kill ends the broker as kill -9 does.
func (a *AMQP) Kill() {
	if a.server != nil {
		killGroup(a.server)
		a.server = nil
	}
}

// Restart kills the broker, and starts it with what it has kept.
func (a *AMQP) Restart(tb testing.TB) {
	tb.Helper()
	a.Kill()
	a.start(tb)
}

// Dial connects to a virtual host as ann. The program under test does not use it.
func (a *AMQP) Dial(vhost string) (*amqp.Connection, error) {
	return amqp.DialConfig("amqp://"+a.Addr(), amqp.Config{Vhost: vhost, SASL: []amqp.Authentication{&amqp.PlainAuth{Username: "ann", Password: "correct"}}})
}
