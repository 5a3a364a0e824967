package sqlite_test

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/journal/journaltest"
)

// TestFullDisk commits on a file system of 2 MiB until it is full, and goes on when it has
// grown. Without the right to mount one, TestFileSizeLimit is the substitute.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Logf("no file system of its own: %v", err)
		return
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	fill(t, dir, func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	})
}

// TestFullOfLog commits more to a small disk than its log has room for: the log is used again before it is as long as
// on a larger disk.
func TestFullOfLog(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Logf("no file system of its own: %v", err)
		return
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	s := open(t, filepath.Join(dir, "j"))
	for i := range 1000 { // some 20 KiB of log, and 1 KiB of the file
		if err := s.Commit(t.Context(), batch(i, 1)); err != nil {
			t.Fatalf("batch %d: %v", i, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// limitedDir is the variable that starts this test binary as the limited child.
const limitedDir = "JOURNAL_TEST_LIMITED"

// TestFileSizeLimit lets the kernel refuse writes with a limit on the size of files, in a
// process of its own.
func TestFileSizeLimit(t *testing.T) {
	child := exec.Command(os.Args[0], "-test.run=^TestFileSizeLimitChild$", "-test.v")
	child.Env = append(os.Environ(), limitedDir+"="+t.TempDir())
	if out, err := child.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestFileSizeLimitChild is the process of TestFileSizeLimit. Otherwise it does nothing.
func TestFileSizeLimitChild(t *testing.T) {
	dir := os.Getenv(limitedDir)
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
	set(1 << 20)
	fill(t, dir, func() { set(most) })
}

// fill commits in a folder until there is no room, makes room, and commits the same batch
// again.
func fill(t *testing.T, dir string, grow func()) {
	t.Helper()
	name := filepath.Join(dir, "j")
	s := open(t, name)
	n := 0
	commits := func(b *journal.Batch) error {
		err := s.Commit(t.Context(), b)
		if err != nil && !errors.Is(err, journal.ErrFull) {
			t.Fatalf("batch %d: got %v, want %v", n, err, journal.ErrFull)
		}
		return err
	}
	for commits(batch(n*killBatch, killBatch)) == nil {
		n++
		if n > 10_000 {
			t.Fatal("the disk is never full")
		}
	}
	if n == 0 {
		t.Error("not even one batch has room")
	}
	t.Logf("%d batches", n)
	b := batch(n*killBatch, killBatch)
	for range 3 {
		if commits(b) == nil {
			t.Fatal("it commits on the full disk")
		}
		if got := wholeBatches(t, s, 0); got != n {
			t.Errorf("%d batches are there, want %d", got, n)
		}
	}
	grow()
	commit(t, s, b)
	commit(t, s, batch((n+1)*killBatch, killBatch))
	for range 2 {
		if got := wholeBatches(t, s, 0); got != n+2 {
			t.Errorf("%d batches are there, want %d", got, n+2)
		}
		if found, err := s.Check(t.Context()); err != nil || len(found) > 0 {
			t.Errorf("Check found %q, %v", found, err)
		}
		if r, err := s.Get(t.Context(), journaltest.ID(n*killBatch)); err != nil || r.State != journal.OK {
			t.Errorf("got %+v, %v", r, err)
		}
		shut(t, s)
		s = open(t, name)
	}
	shut(t, s)
	left, err := filepath.Glob(name + ".probe-*")
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
