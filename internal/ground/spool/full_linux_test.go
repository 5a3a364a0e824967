package spool_test

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFullFileSystem is row 8 on a real file system of 1 MiB. Without the right to mount
// one, TestFileSizeLimit is the substitute.
func TestFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Logf("no file system of its own: %v", err)
		limited(t, dir)
		return
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	fullDisk(t, dir, func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFileSizeLimit lets the kernel refuse writes with a limit on the size of files, in
// a process of its own. It needs no rights.
func TestFileSizeLimit(t *testing.T) { limited(t, t.TempDir()) }

// childDir is the variable that starts this test binary as the limited child.
const childDir = "SPOOL_TEST_LIMITED"

func limited(t *testing.T, dir string) {
	t.Helper()
	child := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimitChild$", "-test.v")
	child.Env = append(os.Environ(), childDir+"="+dir)
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFileSizeLimitChild is the process of TestFileSizeLimit. Otherwise it does nothing.
func TestFileSizeLimitChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		return
	}
	signal.Ignore(syscall.SIGXFSZ) // the write fails as well
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		t.Fatal(err)
	}
	most := limit.Cur
	set := func(n uint64) {
		limit.Cur = n
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			t.Fatal(err)
		}
	}
	set(300_000)
	fullDisk(t, dir, func() { set(most) })
}
