package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A dataSet is the Parquet file, the store and the databases of a data set, with the
// figures of making them for later runs.
type dataSet struct {
	order string // of the rows in the file
	base  string // what the names begin with
	made  made
}

// A made has the figures of making a data set; nil for what was not made.
type made struct {
	Parquet *parquetFigures         `json:"parquet,omitempty"`
	Import  *importFigures          `json:"import,omitempty"`
	Loads   map[string]*loadFigures `json:"loads,omitempty"` // by engine
}

type parquetFigures struct {
	Events  int64   `json:"events"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
}

type importFigures struct {
	Time      time.Time `json:"time"`
	Seconds   float64   `json:"seconds"`
	PerSecond float64   `json:"events_per_second"`
	Peak      memory    `json:"peak"`
	Bytes     int64     `json:"bytes"` // of segments
	Segments  int       `json:"segments"`
	PerEvent  float64   `json:"bytes_per_event"`
}

type loadFigures struct {
	Time      time.Time `json:"time"`
	Seconds   float64   `json:"seconds"`
	PerSecond float64   `json:"events_per_second"`
	PeakRSS   int64     `json:"peak_rss_bytes"`
	Bytes     int64     `json:"bytes"` // of the table events
	PerEvent  float64   `json:"bytes_per_event"`
	Version   string    `json:"version"` // of the engine
	rows      int64
}

func newDataSet(c *config, order, dir string) *dataSet {
	return &dataSet{order: order, base: filepath.Join(dir, fmt.Sprintf("%s-%s-%d-%d", c.shape.name, order, c.events, c.seed))}
}

func (d *dataSet) parquet() string { return d.base + ".parquet" }
func (d *dataSet) store() string   { return d.base + ".trail" }
func (d *dataSet) database(engine string) string {
	return d.base + "." + strings.ToLower(engine)
}
func (d *dataSet) notes() string { return d.base + ".json" }

func (d *dataSet) recall() error {
	data, err := os.ReadFile(d.notes())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(data, &d.made)
	}
	if err != nil {
		return fmt.Errorf("%w (-fresh makes the data set again)", err)
	}
	return nil
}

// keep writes the figures next to the files that they are of.
func (d *dataSet) keep() error {
	return program.Write(d.notes(), d.made)
}

func (d *dataSet) remove() error {
	d.made = made{}
	err := errors.Join(os.RemoveAll(d.notes()), os.RemoveAll(d.parquet()), os.RemoveAll(d.store()))
	for _, engine := range []string{engineDuck, engineHouse} {
		err = errors.Join(err, d.removeDatabase(engine))
	}
	return err
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

// parquetNode returns the column of a type.
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

// generate writes the Parquet file, unless it is there.
func (d *dataSet) generate(ctx context.Context, c *config, progress func(string, ...any)) (err error) {
	if d.made.Parquet != nil {
		return nil
	}
	f, err := os.Create(d.parquet())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	begin := time.Now()
	data := c.shape.data(c.seed, c.events)
	rows := data.Rows()
	if d.order == orderShuffled {
		rows = trailtest.Shuffled(data, c.seed)
	}
	out := bufio.NewWriterSize(f, 1<<20)
	w := newParquetWriter(out, data.Schema())
	got := &parquetFigures{}
	for row := range rows {
		if err := w.add(row); err != nil {
			return err
		}
		if got.Events++; got.Events%parquetGroup == 0 {
			if err := errors.Join(w.write(), w.w.Flush(), context.Cause(ctx)); err != nil {
				return err
			}
			progress("generated %s of %s events", show.Thousands(got.Events), show.Thousands(int64(c.events)))
		}
	}
	if err := errors.Join(w.write(), w.w.Close(), out.Flush(), f.Sync()); err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return err
	}
	got.Bytes, got.Seconds = info.Size(), time.Since(begin).Seconds()
	d.made.Parquet = got
	return d.keep()
}

// fillStore imports the Parquet file, unless it was.
func (d *dataSet) fillStore(ctx context.Context, progress func(string, ...any)) error {
	if d.made.Import != nil {
		return nil
	}
	got := &importFigures{Time: time.Now().UTC().Truncate(time.Second)}
	var err error
	got.Peak, err = watched(func() (err error) {
		begin := time.Now()
		s, err := trail.Open(d.store(), trail.Options{})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		told := begin
		_, err = s.Import(ctx, []string{d.parquet()}, trail.ImportOptions{Progress: func(p trail.ImportProgress) {
			if now := time.Now(); now.Sub(told) >= time.Second || p.Phase != "read" {
				told = now
				progress("importing, %s: %s events, %s/s", p.Phase, show.Thousands(p.Rows), show.Thousands(int64(float64(p.Rows)/now.Sub(begin).Seconds())))
			}
		}})
		if err != nil {
			return err
		}
		got.Seconds = time.Since(begin).Seconds()
		// The figures are of the state after the store has merged the segments of
		// each bucket.
		if err := s.Compact(ctx, nil); err != nil {
			return err
		}
		info := s.Info()
		if info.Rows != d.made.Parquet.Events {
			return &wrongError{"import", fmt.Errorf("the store has %d events of %d", info.Rows, d.made.Parquet.Events)}
		}
		got.Bytes, got.Segments, got.PerEvent = info.Bytes, len(info.Segments), info.BytesPerEvent()
		return nil
	})
	if err != nil {
		return fmt.Errorf("import: %w", err)
	}
	got.PerSecond = float64(d.made.Parquet.Events) / got.Seconds
	d.made.Import = got
	return d.keep()
}

// fillPeer loads the Parquet file into another engine, or opens what was loaded. Only with
// numbered are there all tables that questions are asked of.
func (d *dataSet) fillPeer(p *peer, c *config, numbered bool) error {
	path, err := filepath.Abs(d.database(p.engine))
	if err != nil {
		return err
	}
	if d.made.Loads[p.engine] == nil {
		f, err := p.load(path, d.parquet(), c.shape.data(0, 0).Schema(), numbered)
		if err != nil {
			return err
		}
		if f.rows != d.made.Parquet.Events {
			return fmt.Errorf("%s has %d events of %d", p.engine, f.rows, d.made.Parquet.Events)
		}
		if d.made.Loads == nil {
			d.made.Loads = map[string]*loadFigures{}
		}
		d.made.Loads[p.engine] = f
		if err := errors.Join(d.keep(), p.shut()); err != nil {
			return err
		}
	}
	return p.open(path, false)
}

func (d *dataSet) removeDatabase(engine string) error {
	return errors.Join(os.RemoveAll(d.database(engine)), os.RemoveAll(d.database(engine)+".wal"))
}
