package loader

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/vfs/vfstest"
)

// A fileStore is a store in one file of appends, each with a checksum. It takes
// maps with an id; all values of their field "v" must be of the same type, which
// it finds out late.
type fileStore struct {
	f    *os.File
	size int64

	mu struct {
		sync.Mutex
		events []string
		mark   []byte
		kind   string  // of "v"
		fail   []error // of the next Appends; those that wrap errKept keep the events
		many   int     // the most batches of an Append
	}
}

var errKept = errors.New("kept all the same")

func storePath(dir string) string { return filepath.Join(dir, "store") }

// openFileStore reads a file back, and cuts a torn end off.
func openFileStore(path string) (*fileStore, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	v := &fileStore{f: f}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	for rest := data; len(rest) >= 12; {
		lines, mark, sum := int(binary.LittleEndian.Uint32(rest)), int(binary.LittleEndian.Uint32(rest[4:])), binary.LittleEndian.Uint32(rest[8:])
		if rest = rest[12:]; len(rest) < lines+mark || crc32.ChecksumIEEE(rest[:lines+mark]) != sum {
			break
		}
		v.learn(rest[:lines], rest[lines:lines+mark])
		rest = rest[lines+mark:]
		v.size += int64(12 + lines + mark)
	}
	return v, f.Truncate(v.size)
}

func (v *fileStore) learn(lines, mark []byte) {
	v.mu.events = append(v.mu.events, strings.Split(strings.TrimSuffix(string(lines), "\n"), "\n")...)
	v.mu.mark = bytes.Clone(mark)
}

func (v *fileStore) NewBatch() Batch { return new(fileBatch) }

func (v *fileStore) Mark() []byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.mu.mark
}

func (v *fileStore) events() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.mu.events)
}

func (v *fileStore) Append(batches []Batch, mark []byte) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.mu.many = max(v.mu.many, len(batches))
	var err error
	if len(v.mu.fail) > 0 {
		if err, v.mu.fail = v.mu.fail[0], v.mu.fail[1:]; err != nil && !errors.Is(err, errKept) {
			return err
		}
	}
	var lines []byte
	var refused RefusedError
	kind := v.mu.kind
	for i, b := range batches {
		for j, e := range b.(*fileBatch).events {
			if got := fmt.Sprintf("%T", e.v); e.v != nil && kind != "" && got != kind {
				refused.Refused = append(refused.Refused, Refusal{i, j, errors.New("v is not a " + kind)})
			} else if e.v != nil {
				kind = got
			}
			lines = append(append(lines, e.text...), '\n')
		}
	}
	if len(refused.Refused) > 0 {
		return &refused
	}
	v.mu.kind = kind
	b := binary.LittleEndian.AppendUint32(nil, uint32(len(lines)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(mark)))
	b = binary.LittleEndian.AppendUint32(b, crc32.Update(crc32.ChecksumIEEE(lines), crc32.IEEETable, mark))
	b = append(append(b, lines...), mark...)
	if _, err := v.f.WriteAt(b, v.size); err != nil {
		return err
	}
	if err := v.f.Sync(); err != nil {
		return err
	}
	v.size += int64(len(b))
	v.learn(lines, mark)
	return err
}

type fileBatch struct{ events []fileEvent }

type fileEvent struct {
	text string
	v    any
}

func (b *fileBatch) Add(event []byte) error {
	var e struct {
		ID *int
		V  any
	}
	if json.Unmarshal(event, &e) != nil || e.ID == nil {
		return errors.New("it has no id")
	}
	b.events = append(b.events, fileEvent{string(event), e.V})
	return nil
}

func (b *fileBatch) Remove(i int) { b.events = slices.Delete(b.events, i, i+1) }

func (b *fileBatch) Reset() { b.events = b.events[:0] }

func readStore(dir string) ([]string, error) {
	v, err := openFileStore(storePath(dir))
	if err != nil {
		return nil, err
	}
	return v.events(), v.f.Close()
}

func newFileStore(t *testing.T) *fileStore {
	t.Helper()
	v, err := openFileStore(storePath(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.f.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func (v *fileStore) want(t *testing.T, want ...string) {
	t.Helper()
	if got := v.events(); !slices.Equal(got, want) {
		t.Fatalf("got events %q, want %q", got, want)
	}
}

// TestStore keeps events in a store alone, and in files as well.
func TestStore(t *testing.T) {
	for _, files := range []bool{false, true} {
		v := newFileStore(t)
		opts := Options{Store: v}
		if !files {
			opts.NoFiles = true
		}
		r := openRig(t, opts)
		r.want(r.post(`[{"id":1},{"id":2}]`, "Idempotency-Key", "a"), 200)
		got := r.want(r.post(`[{"id":3},{"no":4},{"id":5}]`, "Idempotency-Key", "b"), 200)
		if got.Accepted != 2 || len(got.Rejected) != 1 || got.Rejected[0].Index != 1 || got.Rejected[0].Reason != "it has no id" || got.Rejected[0].Retry {
			t.Errorf("got %+v", got)
		}
		if got := r.want(r.post(`[{"no":6}]`, "Idempotency-Key", "c"), 200); got.Accepted != 0 || len(got.Rejected) != 1 {
			t.Errorf("got %+v", got)
		}
		if files {
			r.wantEvents(`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":5}`)
		} else {
			r.wantEvents()
		}
		r = r.reopen(opts)
		for _, key := range []string{"a", "b", "c"} {
			if got := r.want(r.post(`[{"id":9}]`, "Idempotency-Key", key), 200); !got.Dup {
				t.Errorf("%s: got %+v", key, got)
			}
		}
		if s := r.loader.Recovered(); s.Events != 4 || s.Batches != 3 {
			t.Errorf("got %+v", s)
		}
		v.want(t, `{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":5}`)
	}
}

// TestStoreAhead kills the loader after the store has taken a batch and before the
// journal has its record, at every byte of it: the next start copies the record.
func TestStoreAhead(t *testing.T) {
	for _, files := range []bool{false, true} {
		v, disk := newFileStore(t), vfstest.New()
		opts := Options{Dir: memory, fs: disk, Store: v, NoFiles: !files}
		r := openRig(t, opts)
		r.want(r.post(`[{"id":1}]`, "Idempotency-Key", "a"), 200)
		one := bytes.TrimRight(disk.Content(segmentPath(1)), "\x00")
		r.want(r.post(`[{"id":2},{"no":2}]`, "Idempotency-Key", "b"), 200)
		two := bytes.TrimRight(disk.Content(segmentPath(1)), "\x00")
		for cut := len(two); cut >= len(one); cut -= 7 {
			opts.fs = disk.Clone()
			opts.fs.(*vfstest.FS).SetContent(segmentPath(1), append(two[:cut:cut], 0, 0))
			r = openRig(t, opts)
			got := r.want(r.post(`[{"id":2},{"no":2}]`, "Idempotency-Key", "b"), 200)
			if !got.Dup || got.Accepted != 1 || len(got.Rejected) != 1 {
				t.Fatalf("journal cut to %d: got %+v", cut, got)
			}
			if s := r.loader.Recovered(); s.Events != 2 || s.Batches != 2 {
				t.Errorf("journal cut to %d: got %+v", cut, s)
			}
			if files {
				r.wantEvents(`{"id":1}`, `{"id":2}`)
			}
		}
		r.want(r.post(`[{"id":3}]`, "Idempotency-Key", "d"), 200)
		v.want(t, `{"id":1}`, `{"id":2}`, `{"id":3}`)
		if files {
			r.wantEvents(`{"id":1}`, `{"id":2}`, `{"id":3}`)
		}
	}
}

// TestStoreFails refuses batches that the store could not take, and takes those
// that it has kept in spite of an error.
func TestStoreFails(t *testing.T) {
	v := newFileStore(t)
	r := openRig(t, Options{Store: v, probeEvery: 1})
	r.want(r.post(`[{"id":1}]`, "Idempotency-Key", "a"), 200)
	v.mu.Lock()
	v.mu.fail = []error{errors.New("no space left on device"), fmt.Errorf("input/output error: %w", errKept)}
	v.mu.Unlock()
	got := r.want(r.post(`[{"id":2}]`, "Idempotency-Key", "b"), 503)
	if !strings.Contains(got.Error, "no space left on device") || got.header.Get("Retry-After") != "1" {
		t.Errorf("got %+v", got)
	}
	r.await("that it works", func(s Stats) bool { return s.Failing == "" })
	r.wantEvents(`{"id":1}`) // what could not go to the store is in no file
	if got := r.want(r.post(`[{"id":2}]`, "Idempotency-Key", "b"), 200); got.Dup {
		t.Errorf("got %+v", got)
	}
	r.wantEvents(`{"id":1}`, `{"id":2}`)
	v.want(t, `{"id":1}`, `{"id":2}`)
}

// TestJournalFails answers a batch that the store has taken, although the journal
// cannot be written, and writes its record before anything else.
func TestJournalFails(t *testing.T) {
	for _, op := range []vfstest.Op{vfstest.Write, vfstest.Sync} {
		v, disk := newFileStore(t), vfstest.New()
		r := openRig(t, Options{Dir: memory, fs: disk, Store: v, probeEvery: 1})
		r.want(r.post(`[{"id":1}]`, "Idempotency-Key", "a"), 200)
		failNext(disk, 3, op, ".seg")
		if got := r.want(r.post(`[{"id":2}]`, "Idempotency-Key", "b"), 200); got.Dup {
			t.Errorf("got %+v", got)
		}
		r.await("that it works", func(s Stats) bool { return s.Failing == "" })
		killed := openRig(t, Options{Dir: memory, fs: disk.Clone(), Store: v})
		for _, r := range []*rig{r, killed, r.reopen(Options{Store: v})} {
			if r.loader == nil {
				continue // reopened
			}
			if got := r.want(r.post(`[{"id":2}]`, "Idempotency-Key", "b"), 200); !got.Dup || got.Accepted != 1 {
				t.Errorf("got %+v", got)
			}
			r.wantEvents(`{"id":1}`, `{"id":2}`)
		}
		v.want(t, `{"id":1}`, `{"id":2}`)
	}
}

// TestStoreRefuses takes what is left of a batch of which the store refuses events
// that passed the checks, and reports which.
func TestStoreRefuses(t *testing.T) {
	v := newFileStore(t)
	r := openRig(t, Options{Store: v})
	r.want(r.post(`[{"id":1,"v":1}]`, "Idempotency-Key", "a"), 200)
	got := r.want(r.post(`[{"id":2,"v":"x"},{"no":3},{"id":4},{"id":5,"v":true}]`, "Idempotency-Key", "b"), 200)
	places := make(map[int]string)
	for _, rejected := range got.Rejected {
		places[rejected.Index] = rejected.Reason
	}
	if got.Accepted != 1 || len(places) != 3 || places[0] != "v is not a float64" || places[1] != "it has no id" || places[3] != "v is not a float64" {
		t.Errorf("got %+v", got)
	}
	if s := r.loader.Stats(); s.Rejected != 3 || s.Accepted != 2 {
		t.Errorf("got %+v", s)
	}
	if got := r.want(r.post(`[{"id":6,"v":"x"}]`), 200); got.Accepted != 0 || len(got.Rejected) != 1 {
		t.Errorf("got %+v", got)
	}
	v.want(t, `{"id":1,"v":1}`, `{"id":4}`)
	r.wantEvents(`{"id":1,"v":1}`, `{"id":4}`)

	// One batch with too many verdicts is refused, and harms no other.
	many := strings.TrimSuffix(strings.Repeat(`{"id":7,"v":"x"},`, maxRejected+1), ",")
	var group sync.WaitGroup
	group.Go(func() {
		if got := ask(r.loader, "["+many+"]", "Idempotency-Key", "c"); got.status != 400 || !strings.Contains(got.Error, "more than 1000") {
			t.Errorf("got %+v", got)
		}
	})
	group.Go(func() {
		if got := ask(r.loader, `[{"id":8}]`, "Idempotency-Key", "d"); got.status != 200 || got.Accepted != 1 {
			t.Errorf("got %+v", got)
		}
	})
	group.Wait()
	v.want(t, `{"id":1,"v":1}`, `{"id":4}`, `{"id":8}`)
	r.wantEvents(`{"id":1,"v":1}`, `{"id":4}`, `{"id":8}`)
}

// TestMark refuses a mark that is not of a loader, and does not use one of an
// earlier version.
func TestMark(t *testing.T) {
	v := newFileStore(t)
	v.mu.mark = []byte("something else")
	if _, err := Open(Options{Dir: memory, fs: vfstest.New(), Store: v}); !errors.Is(err, errGroup) {
		t.Errorf("got %v, want %v", err, errGroup)
	}
	v.mu.mark = []byte(`10168ec0 {"journal":1,"file":0,"offset":0,"events":0,"batches":0}` + "\n")
	r := openRig(t, Options{Dir: memory, fs: vfstest.New(), Store: v})
	r.want(r.post(`[{"id":1}]`, "Idempotency-Key", "a"), 200)
	v.want(t, `{"id":1}`)
}

// TestResentWhileJournalFails sends a batch again while the store takes it, and then
// the journal fails. Repair happens before the second batch is looked up: it is a
// duplicate.
func TestResentWhileJournalFails(t *testing.T) {
	v, disk := newFileStore(t), vfstest.New()
	r := openRig(t, Options{Dir: memory, fs: disk, Store: v, probeEvery: time.Hour})
	r.want(r.post(`[{"id":1}]`, "Idempotency-Key", "a"), 200)
	failNext(disk, 2, vfstest.Sync, ".seg") // the group, and the first repair
	v.mu.Lock()                             // Append waits
	const body = `[{"id":2}]`
	var first, second reply
	var wg sync.WaitGroup
	wg.Go(func() { first = ask(r.loader, body, "Idempotency-Key", "b") })
	for !bytes.Contains(disk.Content(eventsPath(1)), []byte(`{"id":2}`)) {
		runtime.Gosched()
	}
	wg.Go(func() { second = ask(r.loader, body, "Idempotency-Key", "b") })
	for len(r.loader.queue) == 0 {
		runtime.Gosched()
	}
	v.mu.Unlock()
	wg.Wait()
	if first.status != 200 || first.Dup || second.status != 200 || !second.Dup {
		t.Errorf("got %+v, then %+v", first, second)
	}
	v.want(t, `{"id":1}`, `{"id":2}`)
}
