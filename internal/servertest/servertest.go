//go:build unix

// Package servertest starts real database servers for tests: each in a temporary
// folder, on a free port, without syncing files. It is for tests only.
package servertest

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// A Server is a running database server.
type Server struct {
	Addr string // host and port
	Name string // of the server, for messages

	dir     string
	command []string
	ready   func(ctx context.Context) error
	running struct {
		cmd   *exec.Cmd
		stdin io.Closer // whose end stops the server
		pid   string    // of the server itself
	}
}

// A starter starts a server once for a test binary.
type starter struct {
	once   sync.Once
	server *Server
	err    error
	start  func() (*Server, error)
}

var (
	postgres = starter{start: func() (*Server, error) { return StartPostgres() }}
	mariadb  = starter{start: startMariaDB}
)

// Postgres returns a server of PostgreSQL, with the superuser postgres and the
// database postgres. The test fails if there is none on the machine.
func Postgres(tb testing.TB) *Server { return postgres.get(tb) }

// MariaDB returns a server of MariaDB, with the user root and the database test.
func MariaDB(tb testing.TB) *Server { return mariadb.get(tb) }

func (s *starter) get(tb testing.TB) *Server {
	tb.Helper()
	s.once.Do(func() { s.server, s.err = s.start() })
	if s.err != nil {
		tb.Fatal(s.err)
	}
	return s.server
}

// Stop stops the servers that tests have started. Call it at the end of TestMain.
func Stop() {
	for _, s := range []*starter{&postgres, &mariadb} {
		if s.server != nil {
			s.server.Close()
		}
	}
}

// Close stops the server and removes its folder.
func (s *Server) Close() {
	s.stop()
	os.RemoveAll(s.dir)
}

// find returns the path of a program of a server.
func find(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name) // the pattern is right
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/usr/libexec"} {
		found = append(found, filepath.Join(dir, name))
	}
	for _, path := range slices.Backward(found) {
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no %s on this machine: run test/needs, which installs what tests need", name)
}

// folder makes a folder for a server, which belongs to the user that runs it.
func folder(name string, users ...string) (dir string, as *syscall.SysProcAttr, err error) {
	if dir, err = os.MkdirTemp("", "uniflow-"+name+"-"); err != nil {
		return "", nil, err
	}
	as = &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() != 0 {
		return dir, as, nil
	}
	// Servers refuse to run as root.
	uid, gid := 65534, 65534 // the user without rights
	for _, name := range users {
		if u, err := user.Lookup(name); err == nil {
			uid, _ = strconv.Atoi(u.Uid)
			gid, _ = strconv.Atoi(u.Gid)
			break
		}
	}
	as.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return dir, as, os.Chown(dir, uid, gid)
}

// PostgresURL is where clients of a server of PostgreSQL connect to.
func (s *Server) PostgresURL() string {
	return "postgres://postgres@" + s.Addr + "/postgres?sslmode=disable"
}

// StartPostgres starts a server of PostgreSQL as [Postgres] does, for programs that measure.
// The caller closes it. settings are more of its settings, such as "wal_level=logical".
func StartPostgres(settings ...string) (*Server, error) {
	initdb, err := find("initdb")
	if err != nil {
		return nil, err
	}
	server, err := find("postgres")
	if err != nil {
		return nil, err
	}
	probe, err := find("pg_isready")
	if err != nil {
		return nil, err
	}
	dir, as, err := folder("postgres", "postgres")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := run(as, dir, initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-N"); err != nil {
		return nil, err
	}
	number, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(number)
	s := &Server{
		Addr: "127.0.0.1:" + port, Name: "PostgreSQL", dir: dir,
		command: []string{server, "-D", data, "-p", port, "-c", "unix_socket_directories=", "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off", "-c", "full_page_writes=off",
			"-c", "synchronous_commit=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60", "-c", "deadlock_timeout=50ms", "-c", "max_wal_size=64MB"},
		ready: func(ctx context.Context) error {
			return exec.CommandContext(ctx, probe, "-q", "-h", "127.0.0.1", "-p", port).Run()
		},
	}
	for _, one := range settings {
		s.command = append(s.command, "-c", one)
	}
	return s, s.start(as)
}

func startMariaDB() (*Server, error) {
	install, err := find("mariadb-install-db")
	if err != nil {
		return nil, err
	}
	server, err := find("mariadbd")
	if err != nil {
		return nil, err
	}
	dir, as, err := folder("mariadb", "mysql")
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := run(as, dir, install, "--no-defaults", "--datadir="+data, "--auth-root-authentication-method=normal", "--character-set-server=utf8mb4",
		"--innodb-log-file-size=8M", "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync"); err != nil {
		return nil, err
	}
	number, err := freeport.Find()
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(number)
	addr := "127.0.0.1:" + port
	s := &Server{
		Addr: addr, Name: "MariaDB", dir: dir,
		command: []string{server, "--no-defaults", "--datadir=" + data, "--port=" + port, "--bind-address=127.0.0.1", "--socket=" + filepath.Join(dir, "s"),
			"--pid-file=" + filepath.Join(dir, "pid"), "--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=16M",
			"--innodb-log-file-size=8M", "--skip-log-bin", "--character-set-server=utf8mb4", "--performance-schema=off", "--max-connections=60", "--innodb-lock-wait-timeout=5"},
		ready: func(ctx context.Context) error {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				c.Close()
			}
			return err
		},
	}
	return s, s.start(as)
}

// run runs a program to its end.
func run(as *syscall.SysProcAttr, dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr, cmd.Dir = as, dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, out)
	}
	return nil
}

// keeper runs a server until its own input ends, as it does when the test binary is
// killed.
const keeper = `"$@" & pid=$!; echo $pid; read _; kill -QUIT $pid 2>/dev/null; wait $pid`

func (s *Server) start(as *syscall.SysProcAttr) error {
	cmd := exec.Command("sh", append([]string{"-c", keeper, "sh"}, s.command...)...)
	cmd.SysProcAttr, cmd.Dir = as, s.dir
	log, err := os.Create(filepath.Join(s.dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd.Stderr = log
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.running.cmd, s.running.stdin = cmd, stdin
	pid := make([]byte, 16)
	n, err := stdout.Read(pid)
	if err != nil {
		return err
	}
	s.running.pid = strings.TrimSpace(string(pid[:n]))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for s.ready(ctx) != nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
			text, _ := os.ReadFile(log.Name()) // it is part of a message
			s.stop()
			return fmt.Errorf("%s has not started:\n%s", s.Name, text)
		}
	}
	return nil
}

func (s *Server) stop() {
	if s.running.cmd == nil {
		return
	}
	s.running.stdin.Close()
	s.running.cmd.Wait() // its status says that it was stopped
	s.running.cmd = nil
}

// Kill kills the server and all that belongs to it, as a power cut would.
func (s *Server) Kill(tb testing.TB) {
	tb.Helper()
	// PostgreSQL has a process for each connection, which keeps its memory in use.
	listed, _ := os.ReadFile("/proc/" + s.running.pid + "/task/" + s.running.pid + "/children")
	children := strings.Fields(string(listed))
	if err := syscall.Kill(-s.running.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		tb.Fatal(err)
	}
	for _, child := range children {
		if pid, err := strconv.Atoi(child); err == nil {
			syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
	s.running.cmd.Wait()
	s.running.cmd = nil
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for _, child := range children {
		for alive(child) {
			<-tick.C
		}
	}
	os.Remove(filepath.Join(s.dir, "data", "postmaster.pid")) // its process may be there as a zombie
}

func alive(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Restart starts the server after a Kill, at the same address.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	uid, gid := owner(s.dir)
	as := &syscall.SysProcAttr{Setpgid: true}
	if os.Getuid() == 0 {
		as.Credential = &syscall.Credential{Uid: uid, Gid: gid}
	}
	if err := s.start(as); err != nil {
		tb.Fatal(err)
	}
}

func owner(dir string) (uid, gid uint32) {
	info, err := os.Stat(dir)
	if err != nil {
		return 0, 0
	}
	stat := info.Sys().(*syscall.Stat_t)
	return stat.Uid, stat.Gid
}
