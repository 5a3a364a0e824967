package tabular

import (
	"os"
	"runtime"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/records/hostile"
)

// TestHostile reads files that are made to break readers.
func TestHostile(t *testing.T) {
	for _, f := range append(hostile.Texts(), hostile.Tables()...) {
		path := file(t, "x."+f.Format, string(f.Data))
		hostile.Bounded(t, f, func() {
			good, bad, err := readAll(path, Options{})
			hostile.Equal(t, f, good, bad, err)
		})
	}
}

// TestMemory bounds the memory that the readers hold while they read: windows, and the
// dictionaries of Parquet.
func TestMemory(t *testing.T) {
	if invariant.Race {
		return // bytes mean nothing then
	}
	schema, rows := benchRows2()
	paths := []string{
		writeTo(t, "a.parquet", schema, rows),
		file(t, "a.csv", string(benchCSV())),
		file(t, "a.ndjson", string(benchNDJSON())),
	}
	rows = nil
	for _, path := range paths {
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		r, err := Open(path, nil, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		buf := make([]Row, 1024)
		most := uint64(0)
		for k := 0; ; k++ {
			_, _, err := r.Next(buf)
			if err != nil {
				break
			}
			if k%40 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
			}
		}
		if most > 16<<20 {
			t.Errorf("%s of %d bytes: held %d bytes", path, stat.Size(), most)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
