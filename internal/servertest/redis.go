//go:build unix

package servertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// RedisOptions are how a server of Redis is set up. The zero RedisOptions keeps what it has
// confirmed, also through a crash, and lets anyone in.
type RedisOptions struct {
	Dir       string   // a temporary folder unless set
	Password  string   // of the default user
	Cert, Key string   // files in PEM form: the server takes TLS only
	Args      []string // more, such as --maxmemory 10mb
}

// A Redis is a redis-server in a process of its own.
type Redis struct {
	Port int

	options RedisOptions
	cmd     *exec.Cmd
	stdin   io.Closer
}

// StartRedis starts a server, and ends it at the end of the test.
func StartRedis(tb testing.TB, o RedisOptions) *Redis {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	r, err := RunRedis(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.Kill)
	return r
}

// RunRedis starts a server outside of a test. The caller ends it.
func RunRedis(o RedisOptions) (*Redis, error) {
	port, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	r := &Redis{Port: port, options: o}
	return r, r.start()
}

// under ends the server as a crash does when its standard input ends, and so when the program
// of the test has ended, however it did. Its processor time includes that of the server.
const under = `redis-server "$@" >redis.log 2>&1 & pid=$!; cat >/dev/null; kill -9 $pid; wait $pid`

func (r *Redis) start() error {
	args := []string{"-c", under, "redis", "--bind", "127.0.0.1", "--dir", r.options.Dir, "--save", "", "--appendonly", "yes", "--appendfsync", "always", "--daemonize", "no"}
	port := strconv.Itoa(r.Port)
	if r.options.Cert != "" {
		args = append(args, "--port", "0", "--tls-port", port, "--tls-cert-file", r.options.Cert, "--tls-key-file", r.options.Key, "--tls-auth-clients", "no")
	} else {
		args = append(args, "--port", port)
	}
	if r.options.Password != "" {
		args = append(args, "--requirepass", r.options.Password)
	}
	r.cmd = exec.Command("sh", append(args, r.options.Args...)...)
	r.cmd.Dir = r.options.Dir
	var err error
	if r.stdin, err = r.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := r.cmd.Start(); err != nil {
		return err
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(20 * time.Second); ; <-tick.C {
		err := r.ping()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			r.Kill()
			log, _ := os.ReadFile(filepath.Join(r.options.Dir, "redis.log")) // without it, err says what there is
			return fmt.Errorf("redis-server does not answer: %w\n%s", err, log)
		}
	}
}

// ping returns nil if the server answers, and has loaded what it had kept.
func (r *Redis) ping() error {
	conn, err := net.Dial("tcp", r.Addr())
	if err != nil || r.options.Cert != "" {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	command := "PING\r\n"
	if r.options.Password != "" {
		command = "AUTH " + r.options.Password + "\r\nPING\r\n"
	}
	if _, err := io.WriteString(conn, command); err != nil {
		return err
	}
	for reader := bufio.NewReader(conn); ; {
		line, err := reader.ReadString('\n')
		switch {
		case err != nil:
			return err
		case strings.HasPrefix(line, "-"):
			return errors.New(strings.TrimSpace(line))
		case strings.HasPrefix(line, "+PONG"):
			return nil
		}
	}
}

// Addr returns the host and the port.
func (r *Redis) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)) }

// Kill ends the server as kill -9 does, and waits for it. A second call does nothing.
func (r *Redis) Kill() {
	if r.stdin == nil {
		return
	}
	r.stdin.Close()
	r.cmd.Wait() // it was killed
	r.stdin = nil
}

// CPU returns the processor time that the server has used, once it has ended.
func (r *Redis) CPU() time.Duration {
	state := r.cmd.ProcessState
	return state.UserTime() + state.SystemTime()
}

// Restart ends the server as a crash does, unless it has ended, and starts it with what it had kept.
func (r *Redis) Restart(tb testing.TB) {
	tb.Helper()
	r.Kill()
	if err := r.start(); err != nil {
		tb.Fatal(err)
	}
}
