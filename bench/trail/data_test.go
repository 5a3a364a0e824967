package trail_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A made is what came of importing a Parquet file.
type made struct {
	rows   int64
	took   time.Duration
	bytes  int64 // on disk
	memory int64 // bytes: the largest heap of the store, or most resident memory of another engine
}

// report sets the figures of an import.
func (m *made) report(b *testing.B, engine string) {
	b.ReportMetric(float64(m.rows)/m.took.Seconds()/1e6, engine+"-M/s")
	b.ReportMetric(float64(m.bytes)/float64(m.rows), engine+"-B/event")
	b.ReportMetric(float64(m.memory)/1e6, engine+"-MB")
}

// A parquetWriter gathers rows into the groups of a Parquet file.
type parquetWriter struct {
	w      *parquet.GenericWriter[any]
	place  []int // of user, time, event, then the fields: the column
	rows   []parquet.Row
	values []parquet.Value // of rows
}

const (
	parquetGroup = 1 << 20 // rows
	parquetBatch = 1024    // rows that are given to the writer at a time
)

func parquetNode(t event.Type) parquet.Node {
	switch t {
	case event.Int:
		return parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary)
	case event.Float:
		return parquet.Encoded(parquet.Leaf(parquet.DoubleType), &parquet.RLEDictionary)
	case event.Bool:
		return parquet.Leaf(parquet.BooleanType)
	}
	return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
}

func newParquetWriter(out *bufio.Writer, schema event.Schema) *parquetWriter {
	group := parquet.Group{
		"user":  parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
		"time":  parquet.Encoded(parquet.Timestamp(parquet.Millisecond), &parquet.DeltaBinaryPacked),
		"event": parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
	}
	names := []string{"user", "time", "event"}
	for _, f := range schema {
		group[f.Name] = parquet.Optional(parquetNode(f.Type))
		names = append(names, f.Name)
	}
	sorted := slices.Sorted(slices.Values(names)) // as a group has its columns
	w := &parquetWriter{w: parquet.NewGenericWriter[any](out, parquet.NewSchema("events", group),
		parquet.Compression(&parquet.Zstd), parquet.CreatedBy("uniflow", "bench/trail", ""))}
	for _, name := range names {
		w.place = append(w.place, slices.Index(sorted, name))
	}
	w.values, w.rows = make([]parquet.Value, parquetBatch*len(names)), make([]parquet.Row, 0, parquetBatch)
	return w
}

// add takes a row. Its strings are kept until the batch is written.
func (w *parquetWriter) add(r *trailtest.Row) error {
	n := len(w.place)
	row := w.values[len(w.rows)*n:][:n:n] // the writer empties rows
	w.rows = append(w.rows, row)
	put := func(i int, v parquet.Value, definition int) {
		row[w.place[i]] = v.Level(0, definition, w.place[i])
	}
	put(0, parquet.ValueOf(r.User), 0)
	put(1, parquet.Int64Value(r.Time), 0)
	put(2, parquet.ValueOf(r.Name), 0)
	for i, v := range r.Values {
		switch {
		case v.Missing():
			put(3+i, parquet.Value{}, 0)
		case v.Type() == event.Int:
			put(3+i, parquet.Int64Value(v.Int()), 1)
		case v.Type() == event.Float:
			put(3+i, parquet.DoubleValue(v.Float()), 1)
		case v.Type() == event.Bool:
			put(3+i, parquet.BooleanValue(v.Bool()), 1)
		default:
			put(3+i, parquet.ValueOf(v.Text()), 1)
		}
	}
	if len(w.rows) == parquetBatch {
		return w.write()
	}
	return nil
}

func (w *parquetWriter) write() error {
	_, err := w.w.WriteRows(w.rows)
	w.rows = w.rows[:0]
	return err
}

// generate writes the events of a shape into a Parquet file.
func (s *shape) generate(file string, events int, shuffled bool) (err error) {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	data := s.data(seed, events)
	rows := data.Rows()
	if shuffled {
		rows = trailtest.Shuffled(data, seed)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	w := newParquetWriter(out, data.Schema())
	n := 0
	for row := range rows {
		if err := w.add(row); err != nil {
			return err
		}
		if n++; n%parquetGroup == 0 {
			if err := errors.Join(w.write(), w.w.Flush()); err != nil {
				return err
			}
		}
	}
	return errors.Join(w.write(), w.w.Close(), out.Flush(), f.Sync())
}

// importInto imports a Parquet file into a new store.
func importInto(ctx context.Context, dir, file string) (*made, error) {
	m := &made{}
	var err error
	m.memory, err = watched(func() (err error) {
		begin := time.Now()
		s, err := trail.Open(dir, trail.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		if _, err = s.Import(ctx, []string{file}, trail.ImportOptions{}); err != nil {
			return err
		}
		m.took = time.Since(begin)
		// The size is that after the store has merged the segments of each bucket.
		if err := s.Compact(ctx, nil); err != nil {
			return err
		}
		info := s.Info()
		m.rows, m.bytes = info.Rows, info.Bytes
		return nil
	})
	return m, err
}

// every is how often memory is read.
const every = time.Millisecond

// watched runs f and returns the largest heap of this process during it, with garbage. The heap
// is collected before.
func watched(f func() error) (peak int64, err error) {
	runtime.GC()
	debug.FreeOSMemory() // what has a finalizer, or is in a pool, goes the second time, here
	peak = heap()
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		for more := true; more; peak = max(peak, heap()) {
			select {
			case <-ticker.C:
			case <-done:
				more = false
			}
		}
	})
	err = f()
	close(done)
	watcher.Wait()
	return peak, err
}

// heap returns the bytes of the objects on the heap.
func heap() int64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}
