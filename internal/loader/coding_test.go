package loader

import (
	"bytes"
	stdgzip "compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

// sizes are 30 sizes of bodies from 1 byte to 4 MiB, each some times the one before.
func sizes() []int {
	var all []int
	for i := range 30 {
		all = append(all, int(math.Round(math.Pow(4<<20, float64(i)/29))))
	}
	return all
}

// lines are events, one a line, of a size in all. They compress as events do:
// about five times.
func lines(size int) []byte {
	rnd := rand.New(rand.NewPCG(1, uint64(size)))
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, `{"user":"u%d","time":%d,"page":"/shop/%d","n":%d}`+"\n", rnd.IntN(1000), 1.7e12+rnd.Int64N(1e9), rnd.IntN(50), b.Len())
	}
	text := b.Bytes()[:size]
	cut := bytes.LastIndexByte(text, '\n') + 1 // the last line is a number instead
	for i := range text[cut:] {
		text[cut+i] = '1'
	}
	return text
}

// An encoder makes a body of a Content-Encoding.
type encoder struct {
	name, coding string
	encode       func(text []byte) ([]byte, error)
}

// through encodes by a writer that gets so many bytes in each call.
func through(open func(io.Writer) (io.WriteCloser, error), step int, flush bool) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		var b bytes.Buffer
		w, err := open(&b)
		if err != nil {
			return nil, err
		}
		for len(text) > 0 {
			n := min(step, len(text))
			if _, err := w.Write(text[:n]); err != nil {
				return nil, err
			}
			if f, ok := w.(interface{ Flush() error }); ok && flush {
				if err := f.Flush(); err != nil {
					return nil, err
				}
			}
			text = text[n:]
		}
		err = w.Close()
		return b.Bytes(), err
	}
}

// apart encodes the halves of a body, which follow each other, with something
// between them.
func apart(encode func([]byte) ([]byte, error), between string) func([]byte) ([]byte, error) {
	return func(text []byte) ([]byte, error) {
		first, err := encode(text[:len(text)/2])
		if err != nil {
			return nil, err
		}
		second, err := encode(text[len(text)/2:])
		return append(append(bytes.Clone(first), between...), second...), err
	}
}

func encoders() []encoder {
	zstdOf := func(opts ...zstd.EOption) func(w io.Writer) (io.WriteCloser, error) {
		return func(w io.Writer) (io.WriteCloser, error) {
			return zstd.NewWriter(w, append(opts, zstd.WithEncoderConcurrency(1))...)
		}
	}
	gzipOf := func(level int) func(w io.Writer) (io.WriteCloser, error) {
		return func(w io.Writer) (io.WriteCloser, error) { return gzip.NewWriterLevel(w, level) }
	}
	whole := func(opts ...zstd.EOption) func([]byte) ([]byte, error) {
		return func(text []byte) ([]byte, error) {
			w, err := zstd.NewWriter(nil, opts...)
			if err != nil {
				return nil, err
			}
			return w.EncodeAll(text, nil), w.Close()
		}
	}
	std := func(w io.Writer) (io.WriteCloser, error) { return stdgzip.NewWriter(w), nil }
	all := []encoder{
		{"identity", "", func(text []byte) ([]byte, error) { return text, nil }},
		{"gzip of the standard library", "gzip", through(std, 1000, false)},
		{"gzip, stored", "gzip", through(gzipOf(gzip.NoCompression), 1<<20, false)},
		{"gzip, flushed", "gzip", through(gzipOf(gzip.BestSpeed), 30_000, true)},
		{"gzip, two members", "gzip", apart(through(gzipOf(gzip.DefaultCompression), 1<<20, false), "")},
		{"zstd whole", "zstd", whole()},
		{"zstd whole, one segment", "zstd", whole(zstd.WithSingleSegment(true))},
		{"zstd whole, without a checksum", "zstd", whole(zstd.WithEncoderCRC(false))},
		{"zstd streamed in pieces of 1,000 bytes", "zstd", through(zstdOf(), 1000, false)},
		{"zstd streamed and flushed", "zstd", through(zstdOf(), 30_000, true)},
		{"zstd streamed, window of 1 KiB", "zstd", through(zstdOf(zstd.WithWindowSize(1<<10)), 1<<20, false)},
		{"zstd streamed, window of 2 GiB", "zstd", func(text []byte) ([]byte, error) {
			body, err := through(zstdOf(), 1<<20, true)(text)
			// An encoder with such a window takes as much memory. A frame that
			// only says so is as good: byte 5 is the window, unless bit 5 of
			// byte 4 says that there is none.
			if err == nil && body[4]&(1<<5) == 0 {
				body[5] = (31 - 10) << 3
			}
			return body, err
		}},
		{"zstd, two streamed frames", "zstd", apart(through(zstdOf(), 1<<20, false), "")},
		{"zstd, a skippable frame between two", "zstd", apart(whole(), "\x50\x2a\x4d\x18\x03\x00\x00\x00abc")},
	}
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression} {
		all = append(all, encoder{"zstd streamed, " + level.String(), "zstd", through(zstdOf(zstd.WithEncoderLevel(level)), 1<<20, false)})
	}
	return all
}

// TestEncoders takes what encoders make of bodies of 30 sizes, each without the
// buffers from before: a decoder that has a large one hides that it cannot
// make one.
func TestEncoders(t *testing.T) {
	l, err := Open(Options{Dir: t.TempDir(), NoFiles: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, size := range sizes() {
		if invariant.Race && i%3 > 0 {
			continue // one request at a time: in a third of the sizes there is as much to see
		}
		text := lines(size)
		events := bytes.Count(text, []byte("\n"))
		if text[size-1] != '\n' {
			events++
		}
		for _, e := range encoders() {
			body, err := e.encode(text)
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", e.name, size, err)
			}
			l.inputs = sync.Pool{New: l.inputs.New}
			got := ask(l, string(body), "Content-Type", "application/x-ndjson", "Content-Encoding", e.coding)
			if got.status != 200 || got.Accepted != events {
				t.Errorf("%s of %d bytes: got %d %s, want %d events", e.name, size, got.status, got.body, events)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestBadFrames refuses zstd whose bytes were changed or cut, immediately and for the
// right reason, with a body that takes more memory than the first buffer.
func TestBadFrames(t *testing.T) {
	body := zstdOf(t, string(lines(700_000)), true)
	r := openRig(t, Options{MaxBody: 1 << 20})
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		i := 10 + rnd.IntN(len(body)-10)
		for _, bad := range []string{body[:i], body[:i] + string(body[i]^0x55) + body[i+1:], strings.Repeat("\x00", 5) + body} {
			got := r.post(bad, "Content-Type", "application/x-ndjson", "Content-Encoding", "zstd")
			if got.status != 400 || !strings.Contains(got.Error, "the body is not whole zstd") {
				t.Fatalf("at %d: got %d %s, want 400", i, got.status, got.body)
			}
		}
	}
}
