package faults

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/batch/internal/oracle"
)

// Environment variables of a space child, and its output.
const (
	spaceDir  = "BATCH_FAULTS_DISK"
	spaceKind = "BATCH_FAULTS_SPACE"

	noTmpfs = "no tmpfs:"
)

// TestFault08_FullDisk: the disk is full, and later has space again. It is a small file
// system of a child process, and, without the right to mount, a limit on the size of its
// files.
func TestFault08_FullDisk(t *testing.T) {
	for _, kind := range []string{"tmpfs", "rlimit"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			outcome := runSpace(t, kind)
			if kind == "tmpfs" && strings.HasPrefix(outcome, noTmpfs) {
				t.Logf("%s; a limit on the size of files does instead", outcome)
				outcome = runSpace(t, "rlimit")
			}
			if outcome != "done" {
				t.Errorf("the child ended with %q, want done", outcome)
			}
		})
	}
}

// runSpace runs a child and returns its last line.
func runSpace(t *testing.T, kind string) (last string) {
	t.Helper()
	var attr *syscall.SysProcAttr
	if kind == "tmpfs" {
		attr = &syscall.SysProcAttr{
			Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		}
	}
	cmd, out, err := startChild(t, "space", attr, spaceKind+"="+kind, spaceDir+"="+t.TempDir())
	if err != nil {
		if kind == "tmpfs" {
			return noTmpfs + " " + err.Error()
		}
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		last = lines.Text()
		switch {
		case strings.HasPrefix(last, "!"):
			t.Error(last)
		case strings.HasPrefix(last, "?"):
			t.Log(last)
		}
	}
	if err := cmd.Wait(); err != nil && !strings.HasPrefix(last, noTmpfs) {
		t.Errorf("the child: %v", err)
	}
	return last
}

// A spaceBench is the bench of a child.
type spaceBench struct {
	what   string
	failed *atomic.Bool
	mu     sync.Mutex
	ends   []func()
}

func (*spaceBench) Helper() {}

func (b *spaceBench) Errorf(format string, args ...any) {
	b.failed.Store(true)
	fmt.Printf("! "+b.what+": "+format+"\n", args...)
}

func (b *spaceBench) Fatalf(format string, args ...any) {
	b.Errorf(format, args...)
	os.Exit(1)
}

func (*spaceBench) Context() context.Context { return context.Background() }

func (b *spaceBench) Cleanup(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends = append(b.ends, f)
}

func (b *spaceBench) end() {
	for i := range b.ends {
		b.ends[len(b.ends)-1-i]()
	}
}

// A space is a disk with a limit that can be changed: free bytes, or the size of files.
type space struct {
	dir    string
	resize func(bytes int64) error
}

// openSpace makes the disk of the kind that the environment names.
func openSpace() (space, error) {
	dir := os.Getenv(spaceDir)
	if os.Getenv(spaceKind) == "tmpfs" {
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
			return space{}, fmt.Errorf("%s %w", noTmpfs, err)
		}
		return space{dir, func(n int64) error {
			var used unix.Statfs_t
			if err := unix.Statfs(dir, &used); err != nil {
				return err
			}
			n += int64(used.Blocks-used.Bfree) * used.Bsize
			return unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", n))
		}}, nil
	}
	// The signal of the limit would end the process.
	signal.Ignore(syscall.SIGXFSZ)
	return space{dir, func(n int64) error {
		return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: uint64(n), Max: unix.RLIM_INFINITY})
	}}, nil
}

// roomy is a size that is always sufficient.
const roomy = 60 << 20

// spaceChild runs the scenarios of a full disk with many sizes.
func spaceChild() int {
	s, err := openSpace()
	if err != nil {
		fmt.Println(err)
		return 3
	}
	var failed atomic.Bool
	sizes := []int64{24 << 10, 100_000, 300_000}
	if full() {
		sizes = nil
		for n := int64(8 << 10); n < 400<<10; n += 20 << 10 {
			sizes = append(sizes, n, n+1, n+777)
		}
	}
	for i, size := range sizes {
		for _, run := range []struct {
			name string
			f    func(*spaceBench, space, int64, string)
		}{
			{"resume", spaceResume}, {"close", spaceClose}, {"spill", spaceSpill},
		} {
			b := &spaceBench{what: fmt.Sprintf("%s, %d bytes", run.name, size), failed: &failed}
			dir := filepath.Join(s.dir, fmt.Sprintf("%s-%d", run.name, i))
			run.f(b, s, size, dir)
			b.end()
			if err := errors.Join(s.resize(roomy), os.RemoveAll(dir)); err != nil {
				b.Fatalf("%v", err)
			}
		}
	}
	if failed.Load() {
		return 1
	}
	fmt.Println("done")
	return 0
}

func spaceConfig(send batch.SendFunc, dir string, policy batch.Policy, ahead bool) config {
	return config{
		Send:    send,
		Trigger: batch.Trigger{Count: 50, Linger: time.Millisecond},
		Queue:   batch.Queue{Events: 2000, Bytes: 1 << 20, Full: policy},
		Lanes:   batch.Lanes[event]{Order: batch.OrderPerKey, Max: 2},
		Spool:   &batch.Spool{Dir: dir, WriteAhead: ahead, SyncEvery: time.Millisecond, SegmentBytes: 1 << 20, AfterAttempts: 1},
	}
}

// fill makes the disk small and adds events until they are refused or take several times
// its size. It returns the tickets of the accepted events.
func fill(b *spaceBench, r *rig, s space, size int64) (all []acked) {
	if err := s.resize(size); err != nil {
		b.Fatalf("resize: %v", err)
	}
	for added := int64(0); added < 4*size+600_000; added += 1000 {
		e := r.ledger.Next(uint64(added/1000%3), 950)
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
		ticket, err := r.AddAck(ctx, e)
		cancel()
		if r.ledger.Added(e, err) != nil {
			if !errors.Is(err, context.DeadlineExceeded) {
				b.Errorf("AddAck: %v", err)
			}
			break
		}
		all = append(all, acked{e, ticket})
	}
	r.balance("full")
	return all
}

// durable counts the durable events, after a short wait.
func durable(all []acked) (n int) {
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	for _, a := range all {
		if a.ticket.Wait(ctx, batch.StateDurable) == nil {
			n++
		}
	}
	return n
}

// spaceResume: with WriteAhead, events are durable as soon as there is space.
func spaceResume(b *spaceBench, s space, size int64, dir string) {
	v := &valve{store: oracle.NewStore(oracle.Rules{})}
	r := start(b, spaceConfig(v.send, dir, batch.PolicyBlock, true))
	all := fill(b, r, s, size)
	if n := durable(all); n == len(all) {
		b.Fatalf("all of %d events are durable: the disk is not full", n)
	}
	if err := s.resize(roomy); err != nil {
		b.Fatalf("resize: %v", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, a := range all {
		if err := a.ticket.Wait(ctx, batch.StateDurable); err != nil {
			b.Fatalf("event %d, with space again: %v; %+v", a.e.ID, err, r.Stats())
		}
	}
	r.balance("space again")
	v.open.Store(true)
	r.load(2, 20, 100)
	r.allDelivered(v.store, true)
}

// spaceClose: Close on a full disk reports what it could not write, and the next processor
// sends the rest.
func spaceClose(b *spaceBench, s space, size int64, dir string) {
	v := &valve{store: oracle.NewStore(oracle.Rules{})}
	r := start(b, spaceConfig(v.send, dir, batch.PolicyBlock, true))
	r.badDisk = true
	all := fill(b, r, s, size)
	durable(all)
	_, last := r.end(200 * time.Millisecond)
	if last.Returned+last.Spooled != last.Accepted || last.Returned == 0 {
		b.Errorf("got %d returned, %d spooled of %d, want some returned", last.Returned, last.Spooled, last.Accepted)
	}
	r.verdict(v.store, oracle.Promise{Kept: int(last.Spooled)})
	v.open.Store(true)
	// The next one starts while the disk is still full.
	again := startOn(b, r.ledger, spaceConfig(v.send, dir, batch.PolicyBlock, true))
	again.badDisk = true
	if got := again.allDelivered(v.store, true); got.Recovered != last.Spooled {
		b.Errorf("got %d recovered, want %d", got.Recovered, last.Spooled)
	}
}

// spaceSpill: without WriteAhead, events are written when memory is full, and wait in
// memory when the disk is full too.
func spaceSpill(b *spaceBench, s space, size int64, dir string) {
	v := &valve{store: oracle.NewStore(oracle.Rules{})}
	c := spaceConfig(v.send, dir, batch.PolicySpill, false)
	c.Queue.Events = 200
	r := start(b, c)
	all := fill(b, r, s, size)
	if got := r.balance("full").Accepted; got != uint64(len(all)) || len(all)*1000 > int(4*size+500_000) {
		b.Errorf("got %d accepted, %d tickets: memory and disk are not full", got, len(all))
	}
	if err := s.resize(roomy); err != nil {
		b.Fatalf("resize: %v", err)
	}
	r.load(3, 200, 950) // blocks until it resumes
	v.open.Store(true)
	r.allDelivered(v.store, true)
}
