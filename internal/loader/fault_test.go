package loader

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/spool"
	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// memory is the folder of loaders with a file system in memory.
const memory = "/loader"

// failNext makes the next operations of a kind fail, on files whose path has a
// part.
func failNext(disk *vfstest.FS, n int, op vfstest.Op, part string) {
	disk.SetFail(func(got vfstest.Op, name string) error {
		if n > 0 && got == op && strings.Contains(name, part) {
			n--
			return syscall.EIO
		}
		return nil
	})
}

// TestSyncFails counts nothing of a batch as taken when its events or its record
// could not be synced, and goes on by itself. After kill -9 the batch is there once.
func TestSyncFails(t *testing.T) {
	for _, part := range []string{"events-", ".seg"} {
		disk := vfstest.New()
		r := openRig(t, Options{Dir: memory, fs: disk, probeEvery: 1})
		r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
		failNext(disk, 1, vfstest.Sync, part)
		got := r.want(r.post("[2]", "Idempotency-Key", "b"), 503)
		if !strings.Contains(got.Error, "input/output error") || got.header.Get("Retry-After") != "1" {
			t.Errorf("%s: got %+v", part, got)
		}
		r.await("that it works", func(s Stats) bool { return s.Failing == "" })
		killed := openRig(t, Options{Dir: memory, fs: disk.Clone()})
		for _, r := range []*rig{r, killed} {
			if got := r.want(r.post("[2]", "Idempotency-Key", "b"), 200); got.Dup || got.Accepted != 1 {
				t.Errorf("%s: got %+v", part, got)
			}
			r.wantEvents("1", "2")
			if got := r.want(r.post("[2]", "Idempotency-Key", "b"), 200); !got.Dup || got.Accepted != 1 {
				t.Errorf("%s: got %+v", part, got)
			}
		}
		r = r.reopen(Options{})
		if got := r.loader.Recovered(); got.Events != 2 || got.Batches != 2 || got.Keys != 2 {
			t.Errorf("%s: got %+v", part, got)
		}
		r.wantEvents("1", "2")
	}
}

// TestSyncFailsForGood kills the loader while nothing can be repaired after an
// fsync of the journal failed. The record may be there: then the events are, too.
func TestSyncFailsForGood(t *testing.T) {
	disk := vfstest.New()
	r := openRig(t, Options{Dir: memory, fs: disk, probeEvery: time.Hour})
	r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
	failNext(disk, 1000, vfstest.Sync, ".seg")
	r.want(r.post("[2]", "Idempotency-Key", "b"), 503)
	for _, left := range []*vfstest.FS{disk.Clone(), disk.Crash(rand.New(rand.NewPCG(1, 2)))} {
		again := openRig(t, Options{Dir: memory, fs: left})
		if got := again.want(again.post("[2]", "Idempotency-Key", "b"), 200); got.Accepted != 1 {
			t.Errorf("got %+v", got)
		}
		again.wantEvents("1", "2")
	}
	disk.SetFail(nil)
}

// TestDiskFull refuses batches while the disk is full, gives back what a failed
// write took, and goes on by itself.
func TestDiskFull(t *testing.T) {
	for room := range int64(400) {
		if room > 100 && room%10 > 0 {
			continue
		}
		disk := vfstest.New()
		r := openRig(t, Options{Dir: memory, fs: disk, probeEvery: time.Millisecond, journalBytes: 100})
		r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
		disk.SetCapacity(disk.Used() + room)
		key, events := 0, []string{"1"}
		for ; ; key++ {
			got := r.post("[2]", "Idempotency-Key", fmt.Sprint(key))
			if got.status != 200 {
				r.want(got, 503)
				break
			}
			events = append(events, "2")
		}
		r.wantEvents(events...)
		disk.SetCapacity(1 << 30)
		r.await("that it works", func(s Stats) bool { return s.Failing == "" })
		if got := r.want(r.post("[3]", "Idempotency-Key", fmt.Sprint(key)), 200); got.Dup {
			t.Errorf("got %+v", got)
		}
		r.wantEvents(append(events, "3")...)
		r.close()
	}
}

// A client sends numbered batches to one loader after the other, each batch until
// it is answered 200.
type client struct {
	name, next int
	answered   int // batches
}

func (c *client) size() int { return 1 + (c.name+c.next)%5 }

// TestPowerLoss loses the power of the disk at random moments while four clients
// send, with fsyncs and writes that fail now and then. In the end, each event that
// was answered is there once, and each other one at most once, whole batches only.
func TestPowerLoss(t *testing.T) {
	const rounds = 150
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	disk := vfstest.New()
	clients := []*client{{name: 0}, {name: 1}, {name: 2}, {name: 3}}
	for range rounds {
		disk = powerRound(t, disk, rnd, clients)
		if t.Failed() {
			t.FailNow()
		}
	}
	lines, err := readEvents(disk, memory)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for _, line := range lines {
		seen[line]++
	}
	answered := 0
	for _, c := range clients {
		last := c.next
		answered += c.answered
		for c.next = 0; c.next <= last; c.next++ {
			there := 0
			for i := range c.size() {
				id := fmt.Sprintf(`{"id":%d}`, c.name*1_000_000+c.next*10+i)
				there += seen[id]
				if seen[id] > 1 {
					t.Errorf("got %s %d times", id, seen[id])
				}
			}
			if there != c.size() && (c.next < last || there > 0) {
				t.Errorf("client %d, batch %d of %d: got %d events of %d", c.name, c.next, last, there, c.size())
			}
		}
	}
	t.Logf("%d batches with %d events", answered, len(lines))
	if answered < rounds {
		t.Errorf("got %d batches answered in %d rounds: the test shows nothing", answered, rounds)
	}
}

// powerRound runs a loader until the power is lost, and returns the disk after a
// loader has started from what is left.
func powerRound(t *testing.T, disk *vfstest.FS, rnd *rand.Rand, clients []*client) *vfstest.FS {
	t.Helper()
	opts := Options{Dir: memory, fs: disk, Rotate: 200, journalBytes: 400, DedupeKeys: 300, probeEvery: 100 * time.Microsecond}
	l, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	lost := false // after that an answer does not count
	answers, until := 0, rnd.IntN(30)
	faults := rand.New(rand.NewPCG(rnd.Uint64(), 1))
	disk.SetFail(func(op vfstest.Op, _ string) error { // called with a lock held
		if (op == vfstest.Sync || op == vfstest.Write) && faults.IntN(30) == 0 {
			return syscall.EIO
		}
		return nil
	})
	var after *vfstest.FS
	var wg sync.WaitGroup
	for _, c := range clients {
		wg.Go(func() {
			for {
				got := ask(l, array(c.name*1_000_000+c.next*10, c.size()), "Idempotency-Key", fmt.Sprintf("%d/%d", c.name, c.next))
				mu.Lock()
				if !lost && answers == until {
					lost, after = true, disk.Crash(rnd)
				}
				if lost {
					mu.Unlock()
					return
				}
				switch {
				case got.status == 200 && got.Accepted == c.size():
					c.next++
					c.answered++
					answers++
				case got.status != 503:
					t.Errorf("got %d %s", got.status, got.body)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	disk.SetFail(nil)
	if err := l.Close(); err != nil {
		t.Log(err) // of the last fsync that failed
	}
	opts.fs = after
	if l, err = Open(opts); err != nil { // and it can be opened after a loss of power at any moment
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return after
}

// TestEarlierJournal refuses a folder of an earlier version, and says what to do.
func TestEarlierJournal(t *testing.T) {
	disk := vfstest.New()
	const path = memory + "/journal-000007.log"
	disk.SetContent(path, []byte(`10168ec0 {"journal":1,"file":0,"offset":0,"events":0,"batches":0}`+"\n"))
	disk.SetContent(memory+"/events-000003.ndjson", []byte("1\n"))
	opts := Options{Dir: memory, fs: disk}
	if _, err := Open(opts); err == nil || !strings.Contains(err.Error(), "journal-000007.log") || !strings.Contains(err.Error(), "move the files") {
		t.Fatalf("got %v", err)
	}
	if err := disk.Remove(path); err != nil {
		t.Fatal(err)
	}
	r := openRig(t, opts)
	r.want(r.post("[2]"), 200)
	r.wantEvents("1", "2")
}

// TestUnreadableJournal refuses a journal that cannot be read: without it the end of
// the events is not known.
func TestUnreadableJournal(t *testing.T) {
	disk := vfstest.New()
	r := openRig(t, Options{Dir: memory, fs: disk})
	r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
	r.close()
	failNext(disk, 1, vfstest.Open, ".seg")
	if _, err := Open(Options{Dir: memory, fs: disk}); err == nil || !strings.Contains(err.Error(), "the journal cannot be read") {
		t.Errorf("got %v", err)
	}
	r = openRig(t, Options{Dir: memory, fs: disk})
	if got := r.want(r.post("[1]", "Idempotency-Key", "a"), 200); !got.Dup {
		t.Errorf("got %+v", got)
	}
}

// TestReplayFails refuses a journal of which a part cannot be read again after it was
// found whole: otherwise the events of that part would be removed.
func TestReplayFails(t *testing.T) {
	disk := vfstest.New()
	r := openRig(t, Options{Dir: memory, fs: disk})
	r.want(r.post("[1]", "Idempotency-Key", "a"), 200)
	r.close()
	opens := 0
	disk.SetFail(func(op vfstest.Op, name string) error {
		if op == vfstest.Open && strings.Contains(name, ".seg") {
			if opens++; opens == 2 {
				return syscall.EMFILE
			}
		}
		return nil
	})
	if _, err := Open(Options{Dir: memory, fs: disk}); err == nil || !strings.Contains(err.Error(), "the journal cannot be read") {
		t.Errorf("got %v", err)
	}
	disk.SetFail(nil)
	r = openRig(t, Options{Dir: memory, fs: disk})
	r.wantEvents("1")
	if got := r.want(r.post("[1]", "Idempotency-Key", "a"), 200); !got.Dup {
		t.Errorf("got %+v", got)
	}
}

// TestFilesAfterNoFiles keeps files of events that were there when a loader without
// files made the journal.
func TestFilesAfterNoFiles(t *testing.T) {
	disk := vfstest.New()
	disk.SetContent(eventsPath(3), []byte("1\n"))
	r := openRig(t, Options{Dir: memory, fs: disk, NoFiles: true, Store: newFileStore(t)})
	r.want(r.post(`[{"id":1}]`), 200)
	r.close()
	r = openRig(t, Options{Dir: memory, fs: disk})
	r.want(r.post("[2]"), 200)
	r.wantEvents("1", "2")
}

// TestKilledThenPowerLoss starts after a loader that was killed between writing a
// record and its fsync. The batch is a duplicate from then on. So a loss of power must
// not lose it, even if the first fsync of the record fails.
func TestKilledThenPowerLoss(t *testing.T) {
	for _, fails := range []int{0, 1} {
		disk := vfstest.New()
		disk.SetContent(eventsPath(1), []byte("1\n"))
		j, err := openJournal(disk, memory, 1<<20, slog.New(slog.DiscardHandler), func(time.Duration) {})
		if err != nil {
			t.Fatal(err)
		}
		var start group
		if err := j.append(&start, start.append(nil)); err != nil {
			t.Fatal(err)
		}
		g := group{end: position{1, 2}, records: []record{{key: "a", accepted: 1}}}
		if _, err := j.spool.Append(spool.Record{Kind: spool.Data, Epoch: j.spool.Epoch(), Count: 1, Payload: g.append(nil)}); err != nil {
			t.Fatal(err)
		}
		failNext(disk, 1000, vfstest.Sync, "journal")
		if err := j.spool.Close(); err == nil {
			t.Error("got no error")
		}
		// What the failed fsync has dropped is in the page cache all the same.
		disk.SetFail(nil)
		f, err := disk.Open(segmentPath(1))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(disk.Content(segmentPath(1)), 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		failNext(disk, fails, vfstest.Sync, ".seg")
		l, err := Open(Options{Dir: memory, fs: disk})
		if err != nil {
			t.Fatal(err)
		}
		crashed := disk.Crash(rand.New(rand.NewPCG(1, 1)))
		for _, l := range []*Loader{l, openRig(t, Options{Dir: memory, fs: crashed}).loader} {
			if got := ask(l, "[1]", "Idempotency-Key", "a"); !got.Dup || got.Accepted != 1 {
				t.Errorf("got %+v", got)
			}
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
