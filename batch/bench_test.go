package batch_test

import (
	"context"
	"encoding/binary"
	"strconv"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/batch"
)

// The benchmarks measure Add with the encoding of the event and all that follows, except
// the receiver, which accepts everything immediately. Each has n producers; ns/op is the
// time per event of all producers together.

// A sample is the event of the benchmarks: 32 bytes.
type sample struct{ at, user, kind, amount uint64 }

func encodeStruct(dst []byte, e *sample) ([]byte, error) {
	dst = binary.LittleEndian.AppendUint64(dst, e.at)
	dst = binary.LittleEndian.AppendUint64(dst, e.user)
	dst = binary.LittleEndian.AppendUint64(dst, e.kind)
	return binary.LittleEndian.AppendUint64(dst, e.amount), nil
}

// encodeJSON appends 150 bytes.
func encodeJSON(dst []byte, e *sample) ([]byte, error) {
	dst = append(dst, `{"at":`...)
	dst = strconv.AppendUint(dst, e.at, 10)
	dst = append(dst, `,"user":`...)
	dst = strconv.AppendUint(dst, e.user, 10)
	dst = append(dst, `,"kind":`...)
	dst = strconv.AppendUint(dst, e.kind, 10)
	dst = append(dst, `,"page":"/products/garden/tools/rake","agent":"Mozilla/5.0 (X11; Linux x86_64)","amount":`...)
	dst = strconv.AppendUint(dst, e.amount, 10)
	return append(dst, '}'), nil
}

func BenchmarkAddStruct1(b *testing.B) { benchmarkAdd(b, 1, batch.FormatRaw, encodeStruct) }
func BenchmarkAddStruct2(b *testing.B) { benchmarkAdd(b, 2, batch.FormatRaw, encodeStruct) }
func BenchmarkAddStruct8(b *testing.B) { benchmarkAdd(b, 8, batch.FormatRaw, encodeStruct) }
func BenchmarkAddJSON1(b *testing.B)   { benchmarkAdd(b, 1, batch.FormatLines, encodeJSON) }
func BenchmarkAddJSON2(b *testing.B)   { benchmarkAdd(b, 2, batch.FormatLines, encodeJSON) }

func benchmarkAdd(b *testing.B, producers int, format batch.Format, encode func([]byte, *sample) ([]byte, error)) {
	p, err := batch.New(batch.Options[sample]{
		Encode: encode,
		Send:   func(context.Context, *batch.Batch) batch.Outcome { return batch.Outcome{} },
		Format: format,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	var all sync.WaitGroup
	for i := range producers {
		n := b.N / producers
		if i == 0 {
			n += b.N % producers
		}
		all.Go(func() {
			e := sample{at: 1_700_000_000_000, user: 123456789, kind: 7, amount: 129900}
			for range n {
				if err := p.Add(&e); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.StopTimer()
	if _, err := p.Close(context.Background()); err != nil {
		b.Error(err)
	}
	if s := p.Stats(); s.Delivered != uint64(b.N) {
		b.Errorf("%d delivered of %d", s.Delivered, b.N)
	}
}
