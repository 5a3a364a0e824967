package loader

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A trial sends numbered batches to a loader, and keeps which of them were
// answered.
type trial struct {
	p        *process
	next     int
	answered []string // events
}

// send sends a batch of some events, and reports whether it was taken.
func (r *trial) send(again bool) reply {
	r.p.t.Helper()
	if !again {
		r.next++
	}
	got, err := post(r.p.http, r.p.url, strings.NewReader(array(100*r.next, 50)), "Idempotency-Key", strconv.Itoa(r.next))
	if err != nil {
		r.p.t.Fatal(err)
	}
	if got.status == 200 && !got.Dup {
		for i := range 50 {
			r.answered = append(r.answered, fmt.Sprintf(`{"id":%d}`, 100*r.next+i))
		}
	}
	return got
}

// until sends the batch again until it is taken.
func (r *trial) until() {
	r.p.t.Helper()
	deadline := time.After(20 * time.Second)
	for {
		got := r.send(true)
		if got.status == 200 {
			return
		}
		select {
		case <-deadline:
			r.p.t.Fatalf("got %d %s", got.status, got.body)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// refused checks that a batch is refused while nothing can be written, and that
// /health says so.
func (r *trial) refused(again bool) {
	t := r.p.t
	t.Helper()
	got := r.send(again)
	if got.status != 503 || got.header.Get("Retry-After") == "" || !strings.HasPrefix(got.Error, "events cannot be written: ") {
		t.Fatalf("got %d %s, want 503", got.status, got.body)
	}
	resp, err := r.p.http.Get(r.p.url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("got health %d %s, error %v", resp.StatusCode, text, err)
	}
}

// check checks that the events that were answered are there once, and no others.
func (r *trial) check() {
	t := r.p.t
	t.Helper()
	n, _, _ := strings.Cut(r.p.tell("read"), " ")
	count, err := strconv.Atoi(n)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]string, count)
	for i := range got {
		got[i] = r.p.line()
	}
	if !slices.Equal(got, r.answered) {
		t.Fatalf("got %d events, want the %d that were answered", len(got), len(r.answered))
	}
}

// newest returns the size of the newest file of a pattern.
func newest(t *testing.T, dir, pattern string) int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(paths) == 0 {
		t.Fatal(err, len(paths))
	}
	info, err := os.Stat(paths[len(paths)-1])
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// journalEnd returns how much of the newest file of the journal is written.
func journalEnd(t *testing.T, dir string) int64 {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "journal", "*.seg"))
	if err != nil || len(paths) == 0 {
		t.Fatal(err, len(paths))
	}
	data, err := os.ReadFile(paths[len(paths)-1])
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(bytes.TrimRight(data, "\x00")))
}

// TestNoRoom runs into a limit that the system sets to the size of files, which
// fails writes as a full disk does: within the events of a batch, and within its
// record. The loader goes on when the limit is lifted, by itself.
func TestNoRoom(t *testing.T) {
	for _, c := range []struct {
		name, rotate string
		before       int // batches, to have the journal longer than a batch
		limit        func(dir string, i int64) int64
	}{
		{"nothing", "16384", 1, func(string, int64) int64 { return 0 }},
		{"events", "16384", 1, func(dir string, i int64) int64 { return newest(t, dir, "events-*") + i*27 }},
		// Each batch begins a file, which is within the limit.
		{"journal", "1", 12, func(dir string, i int64) int64 { return journalEnd(t, dir) + i*2 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			p, err := spawn(t, dir, nil, "UNIFLOW_TEST_ROTATE="+c.rotate)
			if err != nil {
				t.Fatal(err)
			}
			r := &trial{p: p}
			for i := range int64(20) {
				for range c.before {
					if got := r.send(false); got.status != 200 {
						t.Fatalf("got %+v", got)
					}
				}
				if got := p.tell("limit " + strconv.FormatInt(c.limit(dir, i), 10)); got != "<nil>" {
					t.Fatal(got)
				}
				r.refused(false)
				r.refused(true)
				r.check()
				if got := p.tell("limit 18446744073709551615"); got != "<nil>" {
					t.Fatal(got)
				}
				r.until()
				r.check()
			}
			p.kill()
			if r.p, err = spawn(t, dir, nil); err != nil {
				t.Fatal(err)
			}
			if got := r.send(true); !got.Dup || got.Accepted != 50 {
				t.Errorf("got %+v", got)
			}
			r.check()
			r.p.end()
		})
	}
}

// TestFullDisk fills a small file system, and makes room again. Where processes
// may not mount one, TestNoRoom has shown the same by the limit.
func TestFullDisk(t *testing.T) { fullDisk(t) }

// TestFullDiskStore is TestFullDisk of a loader that keeps events in a store.
func TestFullDiskStore(t *testing.T) { fullDisk(t, childStore+"=1") }

func fullDisk(t *testing.T, env ...string) {
	t.Helper()
	dir := t.TempDir()
	p, err := spawn(t, dir, ownMounts(), append(env, "UNIFLOW_TEST_TMPFS=1m")...)
	if err != nil {
		t.Logf("this process may not mount a file system: %v", err)
		return
	}
	r := &trial{p: p}
	filler := filepath.Join(dir, "filler")
	for range 10 {
		for range 3 {
			if got := r.send(false); got.status != 200 {
				t.Fatalf("got %+v", got)
			}
		}
		if got := p.tell("fill " + filler); got != "<nil>" {
			t.Fatal(got)
		}
		got := r.send(false)
		for range 20 { // the last page of each file has room
			if got.status != 200 {
				break
			}
			got = r.send(false)
		}
		if !strings.Contains(got.Error, "no space left on device") {
			t.Fatalf("got %d %s", got.status, got.body)
		}
		r.refused(true)
		r.check()
		if got := p.tell("remove " + filler); got != "<nil>" {
			t.Fatal(got)
		}
		r.until()
		r.check()
	}
	p.end()
}
