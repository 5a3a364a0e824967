package loader

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/uniflow-labs/uniflow/internal/ground/jsonscan"
)

// An input has the buffers for reading a batch. It is reused, with its memory if
// that is not large.
type input struct {
	body   []byte // decompressed
	packed []byte // as it was sent, if it is compressed
	split  splitter
	gzip   *gzip.Reader // nil until needed
	held   int64        // bytes of memory reserved for both
	slot   bool         // counts as in flight
	req    request
	answer []byte
}

func (l *Loader) newInput() *input {
	in := &input{req: request{done: make(chan struct{}, 1)}}
	if l.opts.Store != nil {
		in.split.batch = l.opts.Store.NewBatch()
	}
	return in
}

// keepBytes is how much memory each buffer of an unused input may keep, if the
// limit for all inputs allows it.
const keepBytes = 1 << 20

// firstBytes is the first buffer for a body of unknown size. When memory is scarce,
// every body gets scarceBytes first, and its buffer grows by the factor
// scarceGrowth. So a client that sends nothing, or a byte a second, holds almost no
// memory, whatever Content-Length it has announced.
const (
	firstBytes   = 64 << 10
	scarceBytes  = 4 << 10
	scarceGrowth = 4
)

// A refusal is the error for a batch that is not taken: an HTTP status, and a
// sentence for the log of the client.
type refusal struct {
	status int
	text   string
	retry  bool // the client may try again soon
}

func (r *refusal) Error() string { return r.text }

func refusef(status int, format string, args ...any) error {
	return &refusal{status: status, text: fmt.Sprintf(format, args...)}
}

// errBusy asks a client to try again later.
func errBusy(what string) error {
	return &refusal{http.StatusTooManyRequests, what + ": try again later", true}
}

// coding is a Content-Encoding.
type coding uint8

const (
	identity coding = iota
	gzipped
	zstandard
)

// read reads a body as it was sent: into in.packed if it is compressed, otherwise
// into in.body. It decompresses nothing, so the memory for a client is in proportion
// to what the client has sent.
func (l *Loader) read(in *input, r *http.Request, c coding) error {
	if r.ContentLength > l.opts.MaxBody {
		return l.tooLarge("the body has %d bytes", r.ContentLength)
	}
	to := &in.packed
	if c == identity {
		to = &in.body
	}
	body := &limitReader{from: r.Body, left: l.opts.MaxBody}
	var err error
	*to, err = l.readAll(in, *to, body, r.ContentLength)
	l.counts.received.Add(uint64(l.opts.MaxBody - max(body.left, 0)))
	var refused *refusal
	switch {
	case body.left < 0:
		return l.tooLarge("the body has over %d bytes", l.opts.MaxBody)
	case body.err == nil || errors.As(err, &refused):
		return err
	case errors.Is(body.err, os.ErrDeadlineExceeded):
		return errSlow
	default:
		return refusef(http.StatusBadRequest, "the body cannot be read: %v", body.err)
	}
}

// unpack decompresses in.packed into in.body.
func (l *Loader) unpack(in *input, c coding) error {
	switch c {
	case gzipped:
		return l.gunzip(in)
	case zstandard:
		return l.unzstd(in)
	default:
		return nil
	}
}

// errSlow refuses a body that does not arrive.
var errSlow error = &refusal{http.StatusRequestTimeout, "the body did not arrive in time", false}

func (l *Loader) tooLarge(format string, args ...any) error {
	return refusef(http.StatusRequestEntityTooLarge, format+", more than the limit of %d: send smaller batches", append(args, l.opts.MaxBody)...)
}

// readAll reads a stream to its end, into the memory of dst or more. Size is the
// length of the stream, -1 if it is unknown. It reads at most MaxBody and one byte.
func (l *Loader) readAll(in *input, dst []byte, from io.Reader, size int64) ([]byte, error) {
	want := size + 1 // a last line may need a newline, and finding the end needs a byte
	if size < 0 {
		want = firstBytes
	}
	most := l.opts.MaxBody + 2
	growth := int64(2)
	if want > int64(cap(dst)) && !l.halfFree(want) {
		if size >= 0 {
			most = want
		}
		want, growth = min(want, scarceBytes), scarceGrowth
	}
	dst = dst[:0]
	for {
		var err error
		if dst, err = l.grow(in, dst, want); err != nil {
			return dst, err
		}
		n, err := from.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case errors.Is(err, io.EOF):
			return dst, nil
		case err != nil:
			return dst, err
		case int64(len(dst)) > l.opts.MaxBody:
			return dst, l.tooLarge("the body, decompressed, has over %d bytes", l.opts.MaxBody)
		case len(dst) == cap(dst):
			want = min(growth*int64(cap(dst)), most)
		}
	}
}

// gunzip decompresses the gzip members of in.packed.
func (l *Loader) gunzip(in *input) (err error) {
	from := bytes.NewReader(in.packed)
	if in.gzip == nil {
		in.gzip, err = gzip.NewReader(from)
	} else {
		err = in.gzip.Reset(from)
	}
	if err == nil {
		in.body, err = l.readAll(in, in.body, in.gzip, -1)
	}
	var refused *refusal
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return refusef(http.StatusBadRequest, "the body is not whole gzip: %v", err)
}

// A limitReader fails after a number of bytes, and remembers the error of reading.
type limitReader struct {
	from io.Reader
	left int64 // negative if there was more
	err  error // of from, except io.EOF
}

// errOver ends a body that is too large.
var errOver = errors.New("too large")

func (l *limitReader) Read(p []byte) (int, error) {
	n, err := l.from.Read(p[:min(int64(len(p)), l.left+1)])
	if l.left -= int64(n); l.left < 0 {
		return 0, errOver
	}
	if err != nil && !errors.Is(err, io.EOF) {
		l.err = err
	}
	return n, err
}

// zstdBlock is the most that a block of a zstd frame may hold (RFC 8878, section
// 3.1.1.2.4), and zstdSlack what the decoder needs behind the last one.
const (
	zstdBlock = 128 << 10
	zstdSlack = 32
)

// unzstd decompresses in.packed. All of it is in memory, so decompressing needs no
// window in addition to the result, whatever window a frame asks for.
func (l *Loader) unzstd(in *input) error {
	var h zstd.Header
	want := int64(firstBytes)
	if h.Decode(in.packed) == nil && h.HasFCS {
		want = int64(min(h.FrameContentSize, uint64(l.opts.MaxBody)))
	}
	want = max(want, min(int64(len(in.packed))*4, l.opts.MaxBody))
	in.body = in.body[:0]
	for {
		var err error
		if in.body, err = l.grow(in, in.body, want+zstdBlock+zstdSlack); err != nil {
			return err
		}
		room := cap(in.body) - 1 // a last line may need a newline
		out, err := l.zstd.DecodeAll(in.packed, in.body[:0:room])
		switch {
		case int64(len(out)) > l.opts.MaxBody:
			return l.tooLarge("the body, decompressed, has over %d bytes", l.opts.MaxBody)
		case err == nil:
			in.body = in.body[:len(out)]
			return nil
		case errors.Is(err, zstd.ErrDecoderSizeExceeded):
			if want == l.opts.MaxBody {
				return l.tooLarge("the body, decompressed, has over %d bytes", l.opts.MaxBody)
			}
		case room-len(out) >= zstdBlock:
			// There was room for the next block, so the data is bad. Without that room
			// the error says nothing: the decoder calls a block that does not fit
			// malformed, unless its frame has its length.
			return refusef(http.StatusBadRequest, "the body is not whole zstd: %v", err)
		}
		want = min(2*want, l.opts.MaxBody)
	}
}

// grow returns a buffer with room for want bytes, and memory reserved for it.
func (l *Loader) grow(in *input, b []byte, want int64) ([]byte, error) {
	if int64(cap(b)) >= want {
		return b, nil
	}
	if err := l.reserve(in, want, int64(cap(b))); err != nil {
		return b, err
	}
	return append(make([]byte, 0, want), b...), nil
}

// reserve reserves memory for an input, in place of a buffer that is freed after it
// was copied.
func (l *Loader) reserve(in *input, want, instead int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.bytes+want > l.opts.MaxInflightBytes && l.mu.bytes > in.held {
		return errBusy(fmt.Sprintf("the batches in flight take %d bytes of memory", l.mu.bytes))
	}
	l.mu.bytes += want - instead
	in.held += want - instead
	return nil
}

// halfFree reports whether half of the memory would still be free with so much more.
func (l *Loader) halfFree(more int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.halfFreeLocked(more)
}

func (l *Loader) halfFreeLocked(more int64) bool { return l.mu.bytes+more <= l.opts.MaxInflightBytes/2 }

// enter admits a client that is about to send a batch, unless the loader is closed.
// The input has its old buffers as long as half of the memory is free.
func (l *Loader) enter() (*input, error) {
	in := l.inputs.Get().(*input)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		l.inputs.Put(in)
		return nil, &refusal{http.StatusServiceUnavailable, errClosed.Error(), true}
	}
	if in.held = int64(cap(in.body) + cap(in.packed)); in.held > 0 && !l.halfFreeLocked(in.held) {
		l.inputs.Put(in)
		in = l.newInput()
	}
	l.mu.clients++
	l.mu.bytes += in.held
	return in, nil
}

// admit counts a batch that has arrived as in flight, or refuses it. A batch that is
// still arriving does not count: a slow client does not block others.
func (l *Loader) admit(in *input) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.inflight == l.opts.MaxInflight {
		return errBusy(fmt.Sprintf("%d batches are in flight", l.mu.inflight))
	}
	in.slot = true
	l.mu.inflight++
	return nil
}

// leave reverses enter and admit, and frees the memory.
func (l *Loader) leave(in *input) {
	// A kept buffer counts as memory of the next batch, however small that is.
	keep := min(keepBytes, l.opts.MaxInflightBytes/int64(2*l.opts.MaxInflight))
	for _, b := range []*[]byte{&in.body, &in.packed} {
		if int64(cap(*b)) > keep {
			*b = nil
		}
	}
	if in.split.batch != nil {
		in.split.batch.Reset()
	}
	held, slot := in.held, in.slot
	in.held, in.slot = 0, false
	l.inputs.Put(in)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.bytes -= held
	l.mu.clients--
	if slot {
		l.mu.inflight--
	}
	if l.mu.closed && l.mu.clients == 0 {
		close(l.mu.idle)
	}
}

// parse makes lines of in.body.
func (l *Loader) parse(in *input, ndjson bool) error {
	if len(bytes.TrimLeft(in.body, " \t\r\n")) == 0 && !ndjson {
		return refusef(http.StatusBadRequest, "the body is empty: want a JSON array of events")
	}
	if in.split.batch != nil {
		if err := l.reserve(in, storeFactor*int64(len(in.body)), 0); err != nil {
			return err
		}
	}
	if ndjson {
		if err := in.split.lines(in.body, l.opts.MaxEvent); err != nil {
			return refusef(http.StatusBadRequest, "the body is not NDJSON: %v", err)
		}
		return nil
	}
	var syntax *jsonscan.Error
	switch err := in.split.array(in.body, l.opts.MaxEvent); {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return refusef(http.StatusBadRequest, "the body is not a JSON array: %v", err)
	default:
		return refusef(http.StatusBadRequest, "the batch cannot be taken: %v", err)
	}
}
