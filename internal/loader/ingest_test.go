package loader

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// A discard is a client that reads only the status.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(status int)      { d.status = status }

// ingest gives a handler a batch.
func ingest(h http.Handler, body []byte, media, coding, key string) int {
	req := httptest.NewRequest(http.MethodPost, "/batch", nil)
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.Header.Set("Content-Type", media)
	if coding != "" {
		req.Header.Set("Content-Encoding", coding)
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	w := &discard{header: make(http.Header)}
	h.ServeHTTP(w, req)
	return w.status
}

// TestAllocations holds what a batch of 1,000 events allocates to a number that
// does not depend on them.
func TestAllocations(t *testing.T) {
	if invariant.Race {
		return // budgets mean nothing under the race detector
	}
	r := openRig(t, Options{})
	h := r.loader.Handler()
	for _, c := range []struct {
		name, media, coding string
		body                []byte
	}{
		{"array", "application/json", "", batchOf(1000, false)},
		{"lines", "application/x-ndjson", "", batchOf(1000, true)},
		{"zstd", "application/x-ndjson", "zstd", []byte(zstdOf(t, string(batchOf(1000, true)), false))},
		{"gzip", "application/json", "gzip", []byte(gzipOf(t, string(batchOf(1000, false))))},
	} {
		got := testing.AllocsPerRun(50, func() {
			if status := ingest(h, c.body, c.media, c.coding, ""); status != 200 {
				t.Fatalf("%s: got status %d", c.name, status)
			}
		})
		t.Logf("%s: %.0f allocations for 1,000 events, making the request among them", c.name, got)
		if got > 60 {
			t.Errorf("%s: got %.0f allocations for a batch, want 60 at most", c.name, got)
		}
	}
}

// BenchmarkIngest takes batches of 1,000 events of 145 bytes from eight clients at
// once, to the disk: handler, checks, fsync of events and journal; without HTTP.
func BenchmarkIngest(b *testing.B) {
	for _, c := range []struct {
		name, media, coding string
		body                []byte
	}{
		{"array", "application/json", "", batchOf(1000, false)},
		{"lines", "application/x-ndjson", "", batchOf(1000, true)},
		{"zstd", "application/x-ndjson", "zstd", []byte(zstdOf(b, string(batchOf(1000, true)), false))},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := Open(Options{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			h := l.Handler()
			var key atomic.Int64
			b.SetParallelism(4)
			b.ReportAllocs()
			b.SetBytes(int64(len(batchOf(1000, true))))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					id := "p/1/0/" + strconv.FormatInt(key.Add(1), 10)
					if status := ingest(h, c.body, c.media, c.coding, id); status != 200 {
						b.Errorf("got status %d", status)
					}
				}
			})
			b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkTake takes a batch of 1,000 events of 145 bytes as far as the committer:
// it is read, decompressed, checked and made lines. Nothing goes to the disk.
func BenchmarkTake(b *testing.B) {
	plain := batchOf(1000, true)
	for _, c := range []struct {
		name   string
		coding coding
		body   []byte
	}{
		{"identity", identity, plain},
		{"gzip", gzipped, []byte(gzipOf(b, string(plain)))},
		{"zstd", zstandard, []byte(zstdOf(b, string(plain), true))},
	} {
		b.Run(c.name, func(b *testing.B) {
			l, err := Open(Options{Dir: b.TempDir(), NoFiles: true})
			if err != nil {
				b.Fatal(err)
			}
			take := func() error {
				in, err := l.enter()
				if err != nil {
					return err
				}
				defer l.leave(in)
				r := &http.Request{Body: io.NopCloser(bytes.NewReader(c.body)), ContentLength: int64(len(c.body))}
				if err := l.read(in, r, c.coding); err != nil {
					return err
				}
				if err := l.admit(in); err != nil {
					return err
				}
				if err := l.unpack(in, c.coding); err != nil {
					return err
				}
				return l.parse(in, true)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(plain)))
			for b.Loop() {
				if err := take(); err != nil {
					b.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
