package trail

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// An import writes a run when it has this much in memory. It may hold three times as
// much: a run that is filled, one that waits, and one that is sorted and encoded.
const (
	runRows  = 1 << 20
	runBytes = 128 << 20
	maxRuns  = maxBuckets // each is a mapped file until they are merged
)

// A runWriter makes temporary segments of any number of rows in any order, one for
// each bucket, without a commit. One goroutine adds rows, another sorts and encodes.
type runWriter struct {
	s      *Store
	ctx    context.Context
	schema event.Schema
	set    *builderSet
	spare  chan *builderSet // capacity 2: those that are not in use
	full   chan *builderSet // capacity 1; closed by finish
	done   chan struct{}    // closed by the goroutine
	err    error            // of the goroutine, when done is closed
	failed chan struct{}    // closed by the goroutine when it has an error
	runs   []*source        // of the goroutine, until done is closed
	ended  bool
}

// A builderSet has a builder for each bucket.
type builderSet struct {
	builders map[int64]*segment.Builder
	rows     int
	// last is the builder of the row before, mostly that of the next.
	last   *segment.Builder
	bucket int64
}

func newRunWriter(ctx context.Context, s *Store) *runWriter {
	w := &runWriter{
		s: s, ctx: ctx,
		set:    &builderSet{builders: make(map[int64]*segment.Builder)},
		spare:  make(chan *builderSet, 2),
		full:   make(chan *builderSet, 1),
		done:   make(chan struct{}),
		failed: make(chan struct{}),
	}
	w.spare <- &builderSet{builders: make(map[int64]*segment.Builder)}
	s.calls.Go(w.encode) // the caller is in s.calls, too
	return w
}

// extend sets the schema of the rows to come. It keeps the places of earlier fields.
func (w *runWriter) extend(schema event.Schema) {
	if slices.Equal(schema, w.schema) {
		return
	}
	w.schema = slices.Clone(schema)
	for _, b := range w.set.builders {
		b.Extend(w.schema)
	}
}

// add takes a row; strings are copied.
func (w *runWriter) add(bucket int64, user string, millis int64, name string, id uint64, values []event.Value) {
	set := w.set
	if set.last == nil || set.bucket != bucket {
		b := set.builders[bucket]
		if b == nil {
			b = segment.NewBuilder(w.schema)
			set.builders[bucket] = b
		}
		set.last, set.bucket = b, bucket
	}
	set.last.Add(user, millis, name, id, values)
	set.rows++
}

// spill hands the rows over to be encoded if there are enough, or if all is set. It
// waits for the run before.
func (w *runWriter) spill(all bool) error {
	if w.set.rows == 0 {
		return nil
	}
	if !all && w.set.rows < runRows {
		var bytes int64
		for _, b := range w.set.builders {
			bytes += b.Bytes()
		}
		if bytes < runBytes {
			return nil
		}
	}
	select {
	case w.full <- w.set:
	case <-w.failed:
		<-w.done
		return w.err
	}
	select {
	case w.set = <-w.spare:
	case <-w.failed:
		w.set = &builderSet{builders: make(map[int64]*segment.Builder)}
		<-w.done
		return w.err
	}
	for _, b := range w.set.builders {
		b.Extend(w.schema)
	}
	return nil
}

func (w *runWriter) encode() {
	defer close(w.done)
	for set := range w.full {
		if w.err = w.write(set); w.err != nil {
			close(w.failed)
			return
		}
		w.spare <- set
	}
}

// write makes a run for each bucket of a set, and empties it.
func (w *runWriter) write(set *builderSet) error {
	for bucket, b := range set.builders {
		if b.Rows() == 0 {
			delete(set.builders, bucket) // a file sorted by time is done with the bucket
			continue
		}
		if len(w.runs) == maxRuns {
			return fmt.Errorf("the rows are scattered over too many buckets of time: more than %d sorted runs; sort the file by time, or split it", maxRuns)
		}
		image, err := b.Image()
		if err != nil {
			return err
		}
		f, err := createFile(w.ctx, w.s.fs, w.s.tmpPath())
		if err != nil {
			return err
		}
		_, err = f.Write(image)
		if err = f.finish(err); err != nil {
			return err
		}
		run, err := w.openRun(f.path, bucket)
		if err != nil {
			return err
		}
		w.runs = append(w.runs, run)
	}
	set.rows, set.last = 0, nil
	return nil
}

func (s *Store) tmpPath() string {
	return filepath.Join(s.dir, tmpDir, fmt.Sprintf("%012d.run", s.nextFile.Add(1)-1))
}

func (w *runWriter) openRun(path string, bucket int64) (*source, error) {
	seg, err := openSegment(w.s.fs, w.s.mapped, path)
	if err != nil {
		w.s.discard(path)
		return nil, err
	}
	return &source{entry: entryOf(seg, filepath.Base(path), bucket, 0, 0), seg: seg}, nil
}

// finish encodes the rest and merges the runs into one for each bucket. The caller
// owns them.
func (w *runWriter) finish() ([]*source, error) {
	if err := w.spill(true); err != nil {
		return nil, err
	}
	w.stop()
	if w.err != nil {
		return nil, w.err
	}
	w.set = nil
	buckets := make(map[int64][]*source)
	for _, r := range w.runs {
		buckets[r.Bucket] = append(buckets[r.Bucket], r)
	}
	var single []*source
	results := make(chan *source, len(buckets))
	g, ctx := errgroup.WithContext(w.ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for bucket, runs := range buckets {
		if len(runs) == 1 {
			single = append(single, runs[0])
			continue
		}
		g.Go(func() error {
			src, err := w.mergeRuns(ctx, bucket, runs)
			if src != nil {
				results <- src
			}
			return err
		})
	}
	err := g.Wait()
	close(results)
	var made []*source
	for src := range results {
		made = append(made, src)
	}
	if err != nil {
		w.s.dropFiles(made)
		return nil, err
	}
	w.runs = slices.DeleteFunc(w.runs, func(r *source) bool { return slices.Contains(single, r) })
	return append(made, single...), nil
}

func (w *runWriter) mergeRuns(ctx context.Context, bucket int64, runs []*source) (*source, error) {
	inputs := make([]segment.Input, len(runs))
	for i, r := range runs {
		inputs[i] = segment.Input{Segment: r.seg, From: math.MinInt64}
	}
	path, _, err := w.s.merge(ctx, filepath.Base(w.s.tmpPath()), inputs)
	if err != nil {
		return nil, err
	}
	return w.openRun(path, bucket)
}

func (w *runWriter) stop() {
	if !w.ended {
		w.ended = true
		close(w.full)
	}
	<-w.done
}

// close ends the goroutine and deletes the runs that finish did not return.
func (w *runWriter) close() {
	w.stop()
	w.s.dropFiles(w.runs)
	w.runs = nil
}

// rewriteWithout makes segments with the rows of others, except for the events in
// out.
func (w *runWriter) rewriteWithout(segments []*source, out map[eventKey]bool) ([]*source, error) {
	var values []event.Value
	for _, src := range segments {
		c, err := openCursor(src.seg, w.schema, nil, event.MinTime)
		if err != nil {
			return nil, err
		}
		for {
			ok, err := c.next()
			if err != nil {
				return nil, err
			}
			if !ok {
				break
			}
			if out[eventKey{c.user, c.time(), c.id()}] {
				continue
			}
			values = c.values(values[:0])
			w.add(src.Bucket, c.user, c.time(), c.name(), c.id(), values)
			if w.set.rows%importBatch == 0 {
				if err := w.spill(false); err != nil {
					return nil, err
				}
			}
		}
	}
	return w.finish()
}

func (s *Store) dropFiles(segments []*source) {
	for _, src := range segments {
		path := src.seg.Name()
		if err := src.seg.Close(); err != nil {
			s.log.Warn("trail: unmap a segment", "file", path, "err", err)
		}
		s.discard(path)
	}
}
