package trail

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// shop returns the first events of the ecom data.
func shop(n int) []event.Event {
	g := trailtest.Ecom{Seed: 1, Events: n}
	events := make([]event.Event, 0, n)
	for r := range g.Rows() {
		events = append(events, r.Event(g.Schema()))
	}
	return events
}

// BenchmarkAppend appends events of five properties, encoding, log and runs
// included, by batch and by how many callers there are. One operation is one event.
func BenchmarkAppend(b *testing.B) {
	events := shop(200_000)
	for _, noSync := range []bool{true, false} {
		for _, batch := range []int{1, 100, 1000} {
			for _, callers := range []int{1, 64} {
				b.Run(fmt.Sprintf("nosync=%v/batch=%d/callers=%d", noSync, batch, callers), func(b *testing.B) {
					s := open(b, b.TempDir(), Options{NoSync: noSync, FlushEvery: -1})
					var at atomic.Int64
					b.ReportAllocs()
					b.SetParallelism(callers / 2)
					if callers == 1 {
						b.SetParallelism(1)
					}
					b.ResetTimer()
					b.RunParallel(func(pb *testing.PB) {
						for more := true; more; {
							n := 0
							for n < batch {
								if more = pb.Next(); !more {
									break
								}
								n++
							}
							if n == 0 {
								return
							}
							from := int(at.Add(int64(n))) % (len(events) - batch)
							if err := s.Append(b.Context(), events[from:from+n]); err != nil {
								b.Error(err)
								return
							}
						}
					})
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
				})
			}
		}
	}
}

// BenchmarkAppendBatch appends a thousand events of five properties to a store that
// does not wait for the disk: encoding, the log's write, and a run in memory. It is
// short and without other goroutines, so that it shows what the work of an append
// costs, such as encoding twice. One operation is one append.
func BenchmarkAppendBatch(b *testing.B) {
	const batch = 1000
	events := shop(100 * batch)
	for i := range events {
		events[i].Time = base + int64(i) // of one bucket: merges of runs are not the point
	}
	s := open(b, b.TempDir(), Options{NoSync: true, FlushEvery: -1})
	at := 0
	b.ReportAllocs()
	for b.Loop() {
		if err := s.Append(b.Context(), events[at:at+batch]); err != nil {
			b.Fatal(err)
		}
		at = (at + batch) % len(events)
	}
}

// BenchmarkImport imports a million events of five properties from Parquet. One
// operation is one import into a new store.
func BenchmarkImport(b *testing.B) {
	const rows = 1_000_000
	path := filepath.Join(b.TempDir(), "shop.parquet")
	s := open(b, b.TempDir(), Options{NoSync: true, FlushEvery: -1})
	g := trailtest.Ecom{Seed: 1, Events: rows}
	batch := make([]event.Event, 0, 10_000)
	for r := range g.Rows() {
		if batch = append(batch, r.Event(g.Schema())); len(batch) == cap(batch) {
			add(b, s, batch...)
			batch = batch[:0]
		}
	}
	add(b, s, batch...)
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := s.Export(b.Context(), f, nil); err != nil {
		b.Fatal(err)
	}
	if err := f.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		into := open(b, b.TempDir(), Options{})
		r, err := into.Import(b.Context(), []string{path}, ImportOptions{})
		if err != nil || r.Rows() != s.Info().Rows {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
