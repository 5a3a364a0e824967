package batch

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// A packer compresses what is written to it.
type packer interface {
	io.WriteCloser
	Reset(io.Writer)
}

// packers are reused: a zstd encoder has tables of a megabyte.
var packers = map[Compression]*sync.Pool{
	CompressionGzip: {New: func() any { return gzip.NewWriter(nil) }},
	CompressionZstd: {New: func() any {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err != nil {
			panic("batch: zstd options: " + err.Error()) // they are constants
		}
		return w
	}},
}

// packedBuffers are buffers for compressed bodies.
var packedBuffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// packedBody returns a function that makes readers of the compressed body, and its
// length. The first call compresses it; the result is kept as long as the batch.
func (b *Batch) packedBody(c Compression) (body func() io.ReadCloser, size int64, err error) {
	if c == CompressionNone {
		return b.Body, b.Size(), nil
	}
	b.packed.Lock()
	defer b.packed.Unlock()
	if b.packed.body == nil {
		if b.packed.body, err = pack(c, b.Body()); err != nil {
			return nil, 0, fmt.Errorf("compress by %v: %w", c, err)
		}
	}
	all := b.packed.body.Bytes()
	return func() io.ReadCloser { return b.reader([][]byte{all}) }, int64(len(all)), nil
}

func pack(c Compression, body io.ReadCloser) (*bytes.Buffer, error) {
	defer body.Close()
	pool := packers[c]
	p := pool.Get().(packer)
	defer pool.Put(p)
	dst := packedBuffers.Get().(*bytes.Buffer)
	dst.Reset()
	p.Reset(dst)
	_, err := io.Copy(p, body)
	if err == nil {
		err = p.Close()
	}
	if err != nil {
		packedBuffers.Put(dst)
		return nil, err
	}
	return dst, nil
}
