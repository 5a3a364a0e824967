package brokers

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// S3Options are how a server of S3 is set up. The zero S3Options is one without TLS.
type S3Options struct {
	Dir       string // a temporary folder unless set
	Port      int    // on 127.0.0.1; any unless set
	Cert, Key string // files in PEM form: the server takes TLS only
	Versions  bool   // buckets may have versions
}

// S3User and S3Secret are whose requests the server takes, and S3Bucket is a bucket.
const S3User, S3Secret, S3Bucket = "ann", "correct-horse", "orders"

// An S3 is a server of S3 in a process of its own: versitygw, with its objects in a folder. The
// folders in Dir are its buckets.
type S3 struct {
	Dir, Addr string

	options S3Options
	cmd     *exec.Cmd
}

// gateway is the server, of the module versitygw.
var gateway = sync.OnceValues(func() (string, error) {
	return build("versitygw", gatewayDir(), "GOWORK=off", "github.com/versity/versitygw/cmd/versitygw")
})

// gatewayDir is the module's folder, seen from this package and from others next to it.
func gatewayDir() string {
	if _, err := os.Stat("versitygw"); err == nil {
		return "versitygw"
	}
	return filepath.Join("..", "..", "test", "brokers", "versitygw")
}

// StartS3 starts a server with the bucket S3Bucket, and kills it at the end of the test.
func StartS3(tb testing.TB, o S3Options) *S3 {
	tb.Helper()
	if o.Dir == "" {
		o.Dir = tb.TempDir()
	}
	s := &S3{Dir: filepath.Join(o.Dir, "buckets"), options: o}
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	s.Bucket(tb, S3Bucket)
	return s
}

// Bucket makes a bucket.
func (s *S3) Bucket(tb testing.TB, name string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Join(s.Dir, name), 0o755); err != nil {
		tb.Fatal(err)
	}
}

func (s *S3) start() error {
	path, err := gateway()
	if err != nil {
		return err
	}
	if s.options.Port == 0 {
		if s.options.Port, err = freeport.Find(); err != nil {
			return err
		}
	}
	s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.options.Port))
	args := []string{"--port", s.Addr, "--keep-alive", "--quiet"}
	if s.options.Cert != "" {
		args = append(args, "--cert", s.options.Cert, "--key", s.options.Key)
	}
	args = append(args, "posix")
	if s.options.Versions {
		versions := filepath.Join(s.options.Dir, "versions")
		if err := os.MkdirAll(versions, 0o755); err != nil {
			return err
		}
		args = append(args, "--versioning-dir", versions)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	s.cmd = exec.Command(path, append(args, s.Dir)...)
	s.cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY="+S3User, "ROOT_SECRET_KEY="+S3Secret)
	s.cmd.Stderr = os.Stderr
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive its test
	if err := s.cmd.Start(); err != nil {
		return err
	}
	return s.ready()
}

// ready returns when the server listens.
func (s *S3) ready() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.Stop()
			return fmt.Errorf("versitygw does not listen: %w", err)
		}
	}
}

// URL returns the URL for clients.
func (s *S3) URL(addr string) string {
	if s.options.Cert != "" {
		return "https://" + addr
	}
	return "http://" + addr
}

// Stop kills the server, and waits for it. A second call does nothing.
func (s *S3) Stop() {
	if s.cmd != nil {
		s.cmd.Process.Kill()
		s.cmd.Wait()
		s.cmd = nil
	}
}

// Restart kills the server, and starts it on the same port and folder.
func (s *S3) Restart(tb testing.TB) {
	tb.Helper()
	s.Stop()
	if err := s.start(); err != nil {
		tb.Fatal(err)
	}
}
