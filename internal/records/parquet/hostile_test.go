package parquet

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"

	"github.com/andybalholm/brotli"
	fastgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go/format"
)

func werr(_ int, err error) error { return err }

// TestBombs gives the unpacker little that claims or becomes a lot.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 16<<20)
	var gz, br, zst bytes.Buffer
	g, b := fastgzip.NewWriter(&gz), brotli.NewWriter(&br)
	z, err := zstd.NewWriter(&zst) // a stream, which does not say its size
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{werr(g.Write(zeros)), g.Close(), werr(b.Write(zeros)), b.Close(), werr(z.Write(zeros)), z.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	huge := binary.AppendUvarint(nil, 1<<32-1)
	var u unpacker
	defer u.close()
	for _, tt := range []struct {
		name   string
		codec  format.CompressionCodec
		packed []byte
		want   int
		bound  uint64 // bytes taken
	}{
		{"gzip", format.Gzip, gz.Bytes(), 1000, 1 << 20},
		{"brotli", format.Brotli, br.Bytes(), 1000, 32 << 20}, // its window is of 4 to 16 MiB
		{"zstd", format.Zstd, zst.Bytes(), 1000, 2 * maxPage},
		{"snappy", format.Snappy, append(huge, 0, 0, 0), maxPage, 1 << 20},
		{"snappy of the size", format.Snappy, binary.AppendUvarint(nil, maxPage), maxPage, 1 << 20},
		{"lz4", format.Lz4Raw, []byte{0xff, 1, 2, 3, 4}, maxPage, 1 << 20},
		{"lz4 of nonsense", format.Lz4Raw, []byte{0xff, 1, 2, 3, 4}, 1000, 1 << 20},
		{"lzo", format.LZO, []byte{1}, 1, 1 << 20},
		{"nothing", format.Snappy, nil, 5, 1 << 20},
	} {
		var before, after runtime.MemStats
		var buf []byte
		runtime.ReadMemStats(&before)
		_, err := u.unpack(tt.codec, &buf, tt.packed, tt.want)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: got no error", tt.name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > tt.bound {
			t.Errorf("%s: took %d bytes, want at most %d", tt.name, got, tt.bound)
		}
	}
}

// TestHeadersThatLie gives the decoder of headers lists that are not there.
func TestHeadersThatLie(t *testing.T) {
	huge := binary.AppendUvarint(nil, 1<<31-1)
	list := func(kind byte, rest ...byte) []byte {
		b := append([]byte{0x29, 0xf0 | kind}, huge...) // field 2: a list
		return append(b, rest...)
	}
	deep := bytes.Repeat([]byte{0x1c}, 1000) // structs in structs
	for name, b := range map[string][]byte{
		"structs":        list(thriftStruct),
		"empty structs":  list(thriftStruct, make([]byte, 100_000)...),
		"bytes":          list(thriftByte, 1, 2, 3),
		"binary":         append([]byte{0x18}, huge...),
		"map":            append(append([]byte{0x1b}, huge...), 0x55),
		"deep":           deep,
		"deep lists":     bytes.Repeat([]byte{0x19, 0x19}, 1000),
		"unknown type":   {0x1f},
		"nothing":        {},
		"endless varint": append([]byte{0x15}, bytes.Repeat([]byte{0xff}, 20)...),
	} {
		var meta format.FileMetaData
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := unmarshal(b, &meta)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s: got no error", name)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
			t.Errorf("%s: took %d bytes", name, got)
		}
	}
}

func TestHybrid(t *testing.T) {
	for _, tt := range []struct {
		name  string
		b     []byte
		width int
		want  []uint32
		err   error
	}{
		{"run", []byte{6, 5}, 3, []uint32{5, 5, 5}, nil},
		{"packed", []byte{3, 0x88, 0xc6, 0xfa}, 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, nil},
		{"run, then packed", []byte{2, 1, 3, 0x88, 0xc6, 0xfa}, 3, []uint32{1, 0, 1, 2}, nil},
		{"wide", []byte{2, 1, 2, 3, 4}, 32, []uint32{0x04030201}, nil},
		{"packed wide", append([]byte{3}, []byte("\xff\xff\xff\xff\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00")...), 32, []uint32{0xffffffff, 1, 0}, nil},
		{"no width", nil, 0, []uint32{0, 0}, nil},
		{"cut off in the last group", []byte{5, 0x88, 0xc6, 0xfa}, 3, []uint32{0, 1, 2, 3, 4, 5, 6, 7}, nil},
		{"too short", []byte{6, 5}, 3, make([]uint32, 4), errPage},
		{"no value", []byte{6}, 3, make([]uint32, 1), errPage},
		{"no group", []byte{3}, 3, make([]uint32, 1), errPage},
		{"empty runs", []byte{0, 1, 0, 1}, 3, make([]uint32, 1), errPage},
		{"endless head", bytes.Repeat([]byte{0xff}, 20), 3, make([]uint32, 1), errPage},
	} {
		h := hybrid{b: tt.b, width: tt.width}
		got := make([]uint32, len(tt.want))
		for i := range got { // one at a time, which is the hardest
			if err := h.read(got[i : i+1]); err != nil {
				if err != tt.err {
					t.Errorf("%s: got %v, want %v", tt.name, err, tt.err)
				}
				tt.err = nil
				got = tt.want
				break
			}
		}
		if tt.err != nil || !bytes.Equal(le(got), le(tt.want)) {
			t.Errorf("%s: got %v, want %v, %v", tt.name, got, tt.want, tt.err)
		}
	}
}

func le(v []uint32) (b []byte) {
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, x)
	}
	return b
}
