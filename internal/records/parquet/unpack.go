package parquet

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	fastgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
	"github.com/pierrec/lz4/v4"
)

// An unpacker decompresses pages of Parquet. It does not use the codecs of parquet-go,
// which trust the lengths that a page claims: its LZ4 codec doubles its buffer without
// end if a page is damaged.
type unpacker struct {
	zstd   *zstd.Decoder // made when first needed
	gzip   fastgzip.Reader
	brotli brotli.Reader
}

var errUnpack = errors.New("a page does not unpack to the size that its header says")

// unpack returns the content of a page, which must have a size of want: packed
// itself, or in *buf, which is replaced if it is too small.
func (u *unpacker) unpack(codec format.CompressionCodec, buf *[]byte, packed []byte, want int) (_ []byte, err error) {
	defer recoverPanic(&err)
	if codec == format.Uncompressed {
		if len(packed) != want {
			return nil, errUnpack
		}
		return packed, nil
	}
	if len(packed) == 0 && want == 0 {
		return nil, nil
	}
	switch codec {
	case format.Snappy:
		n, err := snappy.DecodedLen(packed)
		if err != nil || n != want || n/64 > len(packed) { // at best it compresses 64 bytes to 3
			return nil, errUnpack
		}
		*buf = grown(*buf, want)
		if _, err := snappy.Decode(*buf, packed); err != nil {
			return nil, fmt.Errorf("snappy: %w", err)
		}
		return *buf, nil
	case format.Lz4Raw:
		if want/256 > len(packed) {
			return nil, errUnpack
		}
		*buf = grown(*buf, want)
		n, err := lz4.UncompressBlock(packed, *buf)
		if err != nil || n != want {
			return nil, errUnpack
		}
		return *buf, nil
	case format.Zstd:
		if u.zstd == nil {
			if u.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage), zstd.WithDecoderLowmem(true)); err != nil {
				return nil, err
			}
		}
		*buf = grown(*buf, min(want, 1<<10+len(packed)*200)) // more only if it turns out to be
		b, err := u.zstd.DecodeAll(packed, (*buf)[:0])
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		*buf = b
	case format.Gzip, format.Brotli:
		var r interface {
			io.Reader
			Reset(io.Reader) error
		} = &u.brotli
		if codec == format.Gzip {
			r = &u.gzip
		}
		if err = r.Reset(bytes.NewReader(packed)); err == nil {
			b := bytes.NewBuffer((*buf)[:0])
			_, err = b.ReadFrom(io.LimitReader(r, int64(want)+1))
			*buf = b.Bytes()
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.ToLower(codec.String()), err)
		}
	default:
		return nil, fmt.Errorf("it is packed with %s, which is not read", codec)
	}
	if len(*buf) != want {
		return nil, errUnpack
	}
	return *buf, nil
}

// grown returns a slice of n elements, s if it is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

func (u *unpacker) close() {
	if u.zstd != nil {
		u.zstd.Close()
		u.zstd = nil
	}
}
