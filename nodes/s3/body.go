package s3

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/minio/minio-go/v7"
)

// A body reads the bytes of one object as they are stored. If the connection breaks, it asks for the
// rest, of an object with the same ETag. It is not for concurrent use.
type body struct {
	store   *store
	key     string
	etag    string
	version string // of the object that is being read; empty before it is known, and without versions
	at      int64
	size    int64
	stall   time.Duration // how long an answer, and a read, may take
	ctx     context.Context

	part    bool            // only what is in front of size
	answer  io.ReadCloser   // nil while there is none
	request context.Context // of the answer
	cancel  context.CancelCauseFunc
	fails   int   // breaks without a byte in between
	err     error // the last one of Read, other than io.EOF
	read    int64 // bytes, since took
}

// A brokenError says that an object could not be read on: connecting again may help.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// mostBreaks is how many connections in a row may break without a byte.
const mostBreaks = 3

// Read implements [io.Reader]. An error that is not what the service answers is a *brokenError.
func (b *body) Read(p []byte) (int, error) {
	for {
		if b.at >= b.size {
			return 0, io.EOF
		}
		n, err := b.once(p)
		b.at += int64(n)
		b.read += int64(n)
		if n > 0 {
			b.fails = 0
			return n, nil
		}
		if _, answered := answerOf(err); answered {
			b.err = err
			return 0, err
		}
		if b.fails++; b.ctx.Err() != nil || b.fails == mostBreaks {
			b.err = &brokenError{fmt.Errorf("%s: %w", b.store.place(b.key), err)}
			return 0, b.err
		}
	}
}

// once reads once. With an error, the answer is given up.
func (b *body) once(p []byte) (n int, err error) {
	if b.answer == nil {
		b.request, b.cancel = context.WithCancelCause(b.ctx)
	}
	limit := time.AfterFunc(b.stall, func() { b.cancel(fmt.Errorf("nothing has come for %s", b.stall)) })
	defer limit.Stop()
	if b.answer == nil {
		to := int64(0)
		if b.part || b.at > 0 {
			to = b.size - 1
		}
		var info minio.ObjectInfo
		b.answer, info, err = b.store.get(b.request, b.key, b.etag, b.version, b.at, to)
		b.version = cmp.Or(info.VersionID, b.version)
	}
	if err == nil {
		n, err = b.answer.Read(p)
	}
	if err != nil {
		if err == io.EOF && b.at+int64(n) < b.size {
			err = io.ErrUnexpectedEOF
		}
		b.close()
	}
	return n, err
}

// get asks for a part of the object with an ETag; to is its last byte, 0 for all.
func (s *store) get(ctx context.Context, key, etag, version string, from, to int64) (io.ReadCloser, minio.ObjectInfo, error) {
	o := minio.GetObjectOptions{VersionID: version}
	if etag = condition(etag); etag != "" {
		if err := o.SetMatchETag(etag); err != nil {
			return nil, minio.ObjectInfo{}, err
		}
	}
	if from > 0 || to > 0 {
		if err := o.SetRange(from, to); err != nil {
			return nil, minio.ObjectInfo{}, err
		}
	}
	answer, info, _, err := s.api.GetObject(ctx, s.bucket, key, o)
	return answer, info, err
}

// close gives the answer up.
func (b *body) close() {
	if b.cancel != nil {
		b.cancel(nil)
		b.cancel = nil
	}
	if b.answer != nil {
		_ = b.answer.Close() // what is left of it is of no use
		b.answer = nil
	}
}

// A table is read at any offset, in blocks of blockSize bytes, of which blockCount are kept.
const blockSize, blockCount = 1 << 20, 32

// A blocks reads at any offset of one object.
type blocks struct {
	body *body
	kept map[int64][]byte
	used []int64 // the numbers of those, the one that was used last at the end
}

// ReadAt implements [io.ReaderAt].
func (k *blocks) ReadAt(b []byte, off int64) (n int, err error) {
	for n < len(b) && err == nil {
		at := off + int64(n)
		if at >= k.body.size {
			return n, io.EOF
		}
		var block []byte
		if block, err = k.block(at / blockSize); err == nil {
			n += copy(b[n:], block[at%blockSize:])
		}
	}
	return n, err
}

func (k *blocks) block(i int64) ([]byte, error) {
	if at := slices.Index(k.used, i); at >= 0 {
		k.used = append(slices.Delete(k.used, at, at+1), i)
		return k.kept[i], nil
	}
	if len(k.used) == blockCount {
		delete(k.kept, k.used[0])
		k.used = slices.Delete(k.used, 0, 1)
	}
	// A body of its own asks for just that much, so that the connection can be used again.
	part := *k.body
	part.at, part.part = i*blockSize, true
	part.size = min(part.at+blockSize, k.body.size)
	block := make([]byte, part.size-part.at)
	_, err := io.ReadFull(&part, block)
	part.close()
	k.body.version, k.body.err, k.body.read = part.version, part.err, part.read
	if err != nil {
		return nil, err
	}
	k.kept[i] = block
	k.used = append(k.used, i)
	return block, nil
}

// seek continues at another place.
func (b *body) seek(at int64) {
	if at != b.at {
		b.close()
		b.at = at
	}
}

// took returns how many bytes were read since the last call.
func (b *body) took() int64 {
	n := b.read
	b.read = 0
	return n
}
