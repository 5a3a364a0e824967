package futex_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/lock/futex"
)

// sharedFile is the environment variable with the file in which this program counts as
// a child of a test.
const sharedFile = "FUTEX_TEST_FILE"

const perProcess = 200_000

func TestMain(m *testing.M) {
	if path := os.Getenv(sharedFile); path != "" {
		if err := count(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	leak.Main(m)
}

func TestTryLock(t *testing.T) {
	var l futex.Shared
	if !l.TryLock() || l.TryLock() {
		t.Error("got a lock twice or never, want it once")
	}
	l.Unlock()
	if !l.TryLock() {
		t.Error("got no lock that was unlocked, want it")
	}
	l.Unlock()
	defer func() {
		if recover() == nil {
			t.Error("got no panic, want one for unlocking twice")
		}
	}()
	l.Unlock()
}

// TestHammer counts under the lock, from goroutines and from threads.
func TestHammer(t *testing.T) {
	const loops = 40_000
	for _, workers := range []int{2, 4, 30} {
		for _, threads := range []bool{false, true} {
			var l futex.Shared
			n, inside := 0, 0
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					if threads {
						runtime.LockOSThread()
						defer runtime.UnlockOSThread()
					}
					for i := range loops / workers {
						l.Lock()
						inside++
						if inside != 1 {
							t.Errorf("got %d inside, want 1", inside)
						}
						n++
						if i%256 == 0 {
							runtime.Gosched()
						}
						inside--
						l.Unlock()
					}
				})
			}
			wg.Wait()
			if want := loops / workers * workers; n != want {
				t.Errorf("%d workers, threads %v: got a count of %d, want %d", workers, threads, n, want)
			}
		}
	}
}

// shared maps a file with a lock, and a counter after it.
func shared(path string) (memory []byte, l *futex.Shared, err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	memory, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, nil, err
	}
	l, err = futex.At(memory)
	return memory, l, err
}

// count adds to the counter in the file while it holds the lock.
func count(path string) error {
	memory, l, err := shared(path)
	if err != nil {
		return err
	}
	counter := memory[64:]
	for range perProcess {
		l.Lock()
		binary.NativeEndian.PutUint64(counter, binary.NativeEndian.Uint64(counter)+1)
		l.Unlock()
	}
	return unix.Munmap(memory)
}

// TestProcesses counts in one file from three processes.
func TestProcesses(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "words")
	if err := os.WriteFile(path, make([]byte, 4096), 0o600); err != nil {
		t.Fatal(err)
	}
	memory, l, err := shared(path)
	if err != nil {
		t.Fatal(err)
	}
	l.Lock() // until a child waits
	var children []*exec.Cmd
	for range 2 {
		c := exec.CommandContext(t.Context(), program)
		c.Env = append(os.Environ(), sharedFile+"="+path)
		c.Stderr = os.Stderr
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		children = append(children, c)
	}
	begin := time.Now()
	for binary.NativeEndian.Uint32(memory) != 2 && time.Since(begin) < 20*time.Second { // 2: a thread sleeps
		runtime.Gosched()
	}
	if got := binary.NativeEndian.Uint64(memory[64:]); got != 0 {
		t.Errorf("got a count of %d while the lock is held here, want 0", got)
	}
	l.Unlock()
	if err := count(path); err != nil {
		t.Error(err)
	}
	for _, c := range children {
		if err := c.Wait(); err != nil {
			t.Error(err)
		}
	}
	if got := binary.NativeEndian.Uint64(memory[64:]); got != 3*perProcess {
		t.Errorf("got a count of %d, want %d", got, 3*perProcess)
	}
	if got := binary.NativeEndian.Uint32(memory); got != 0 {
		t.Errorf("got a word of %d, want 0 for unlocked", got)
	}
	if err := unix.Munmap(memory); err != nil {
		t.Error(err)
	}
}

func TestAt(t *testing.T) {
	words := make([]uint32, 4)
	memory := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 16)
	f := func(b []byte, want string) {
		t.Helper()
		switch _, err := futex.At(b); {
		case want == "" && err != nil:
			t.Errorf("got %v, want no error", err)
		case want != "" && (err == nil || err.Error() != want):
			t.Errorf("got %v, want %q", err, want)
		}
	}
	f(memory, "")
	f(memory[12:], "")
	f(memory[13:], "futex: a lock needs 4 bytes, got 3")
	f(nil, "futex: a lock needs 4 bytes, got 0")
	f(memory[5:], "futex: the address of a lock must be a multiple of 4, it is 1 more")
}
