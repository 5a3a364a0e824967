//go:build unix

package files

import (
	"context"
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// standardOutput returns a file for the standard output. It is not os.Stdout, since a
// broken pipe there ends the program before anything is settled: see package os/signal.
func standardOutput() (*os.File, error) {
	if os.Stdout.Fd() != 1 { // a test's
		return os.Stdout, nil
	}
	fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), "stdout"), nil
}

// terminate signals this program to end.
func terminate() error { return syscall.Kill(os.Getpid(), syscall.SIGTERM) }

// A standardInput reads the standard input, and can be interrupted.
type standardInput struct {
	fd, woken  int
	wake, woke *os.File // the ends of a pipe
}

func openStandardInput() (*standardInput, error) {
	woke, wake, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &standardInput{fd: int(os.Stdin.Fd()), woken: int(woke.Fd()), wake: wake, woke: woke}, nil
}

// wait returns when there is something to read, or with ctx's error.
func (s *standardInput) wait(ctx context.Context) error {
	var written sync.WaitGroup // of the pipe being written to
	written.Add(1)
	stop := context.AfterFunc(ctx, func() {
		_, _ = s.wake.Write([]byte{0}) // it has room, and is open
		written.Done()
	})
	defer func() {
		if !stop() {
			written.Wait()
		}
	}()
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		fds := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.woken), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("poll", err)
		}
		if fds[1].Revents != 0 {
			var b [16]byte
			if _, err := s.woke.Read(b[:]); err != nil {
				return err
			}
		}
		if fds[0].Revents != 0 {
			return nil
		}
	}
}

func (s *standardInput) Read(b []byte) (int, error) { return os.Stdin.Read(b) }

func (s *standardInput) close() error { return errors.Join(s.wake.Close(), s.woke.Close()) }
