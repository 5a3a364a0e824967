package trail

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/bits"
	"path/filepath"
	"runtime"
	"slices"

	"sync/atomic"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// An import spills its rows to a temporary file when it has this many in memory, or
// this many bytes. It may hold twice as much: rows that are added, and rows that are
// written.
const (
	spillRows  = 1 << 20
	spillBytes = 72 << 20   // slices that grow take up to a third more
	maxParts   = 1 << 20    // in the temporary file
	maxRuns    = maxBuckets // each is a mapped file until they are merged
)

// maxTerms bounds the strings of columns, with their tables, and maxSpilled the rows of
// a temporary file. Then the rows so far become segments, which are merged at the end:
// strings of nearly every row, such as the addresses of pages, do not fit into memory,
// and a file is divided into SpillRanges only.
const (
	maxTerms   = 64 << 20
	maxSpilled = 256 << 20
)

// An import makes two segments at a time, which are therefore smaller than the segments
// of merges.
const (
	importing  = 2
	importedOf = 4 // a segment has at most importedTo/importedOf of segmentRows
	importedTo = 3
)

// maxIDs bounds the ids of the users of a segment that an import makes.
const maxIDs = 64 << 20

// A runWriter makes temporary segments of any number of rows in any order, one for
// each bucket and part of the users, without a commit. While one goroutine adds rows,
// another spills the rows before.
type runWriter struct {
	files  *folder
	opt    Options // for its bounds
	ctx    context.Context
	schema event.Schema
	set    *builderSet    // that rows are added to
	spare  *builderSet    // that is spilled, or empty
	spills errgroup.Group // one goroutine at a time

	spilled   int            // rows that were handed over since the terms are in use
	recoded   *segment.Terms // that recodings is for
	recodings []recoding     // by field

	// Of the goroutine that spills.
	spill *spillFile // rows that are in no segment; nil for none
	runs  []*source
}

// A builderSet has a builder for each bucket.
type builderSet struct {
	builders map[int64]*segment.Builder
	terms    *segment.Terms
	schema   event.Schema // when it was handed over
	rows     int
	// last is the builder of the row before; the next row mostly has the same.
	last   *segment.Builder
	bucket int64
}

// A spillFile has rows in any order.
type spillFile struct {
	file    *fileWriter
	to      *bufio.Writer
	spill   *segment.Spill
	terms   *segment.Terms
	schema  event.Schema
	buckets map[int64]*spilledBucket
	parts   int
}

type spilledBucket struct {
	parts []*segment.Part
	rows  int64
	ids   int64 // bytes
}

func newBuilderSet(terms *segment.Terms) *builderSet {
	return &builderSet{builders: make(map[int64]*segment.Builder), terms: terms}
}

// newRunWriter returns a writer that is closed in the end.
func newRunWriter(ctx context.Context, files *folder, opt Options) *runWriter {
	terms := segment.NewTerms()
	return &runWriter{files: files, opt: opt, ctx: ctx, set: newBuilderSet(terms), spare: newBuilderSet(terms)}
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

// A recoding maps the codes of a file's dictionary to the codes of the terms, so that a
// string is looked up once for each dictionary that has it.
type recoding struct {
	of []string
	to []uint32 // by code-1; 0 if it was not looked up yet
}

// dictionaries prepares recode for the rows of a batch.
func (w *runWriter) dictionaries(of func(field int) []string) {
	if w.recoded != w.set.terms {
		w.recoded, w.recodings = w.set.terms, nil
	}
	for i := range w.schema {
		if i == len(w.recodings) {
			w.recodings = append(w.recodings, recoding{})
		}
		r, terms := &w.recodings[i], of(i)
		if len(r.of) != len(terms) || unsafe.SliceData(r.of) != unsafe.SliceData(terms) {
			*r = recoding{terms, make([]uint32, len(terms))}
		}
	}
}

// recode turns the codes of a row.
func (w *runWriter) recode(codes []uint32) {
	for i, code := range codes {
		if code == 0 {
			continue
		}
		r := &w.recodings[i]
		if r.to[code-1] == 0 {
			r.to[code-1] = w.recoded.Code(i, r.of[code-1])
		}
		codes[i] = r.to[code-1]
	}
}

// add takes a row; strings are copied.
func (w *runWriter) add(bucket int64, user string, millis int64, name string, id uint64, values []event.Value, codes []uint32) {
	set := w.set
	if set.last == nil || set.bucket != bucket {
		b := set.builders[bucket]
		if b == nil {
			b = segment.NewBuilder(w.schema)
			b.Share(set.terms)
			set.builders[bucket] = b
		}
		set.last, set.bucket = b, bucket
	}
	set.last.AddCoded(user, millis, name, id, values, codes)
	set.rows++
}

// flush hands the rows over to be spilled if there are enough. It waits for those
// before.
func (w *runWriter) flush() error {
	if w.set.rows == 0 {
		return nil
	}
	end := w.set.terms.Bytes() > w.opt.terms || w.spilled+w.set.rows > maxSpilled
	if !end && w.set.rows < w.opt.spill {
		var bytes int64
		for _, b := range w.set.builders {
			bytes += b.Filled() // not the memory that it kept: with that, each batch would be enough
		}
		if bytes < spillBytes {
			return nil
		}
	}
	if err := w.spills.Wait(); err != nil {
		return err
	}
	full, terms := w.set, w.set.terms
	full.schema = w.schema
	w.spilled += full.rows
	w.spills.Go(func() error {
		err := w.write(full)
		if err == nil && end {
			err = w.build()
		}
		return err
	})
	w.set, w.spare = w.spare, full
	if end { // the rows to come have other terms
		terms, w.spilled = segment.NewTerms(), 0
	}
	w.set.terms = terms
	for _, b := range w.set.builders {
		b.Share(terms)
		b.Extend(w.schema)
	}
	return nil
}

// write spills the rows of a set, and empties it.
func (w *runWriter) write(set *builderSet) (err error) {
	f := w.spill
	if f == nil {
		f = &spillFile{terms: set.terms, buckets: make(map[int64]*spilledBucket)}
		if f.file, err = w.files.create(w.ctx, w.files.tmpPath()); err != nil {
			return err
		}
		f.to = bufio.NewWriterSize(f.file, 256<<10)
		f.spill = segment.NewSpill(f.to)
		w.spill = f
	}
	f.schema = set.schema
	for bucket, b := range set.builders {
		if b.Rows() == 0 {
			delete(set.builders, bucket) // a file sorted by time is done with the bucket
			continue
		}
		if f.parts++; f.parts > maxParts {
			return fmt.Errorf("the rows are scattered over too many buckets of time: more than %d parts; sort the file by time, or split it", maxParts)
		}
		p, err := f.spill.Write(b)
		if err != nil {
			return err
		}
		at := f.buckets[bucket]
		if at == nil {
			at = &spilledBucket{}
			f.buckets[bucket] = at
		}
		at.parts = append(at.parts, p)
		at.rows += int64(p.Rows())
		at.ids += int64(p.IDs())
	}
	set.rows, set.last = 0, nil
	return nil
}

// close deletes the file.
func (f *spillFile) close(files *folder) {
	if err := f.file.f.Close(); err != nil {
		files.log.Warn("trail: close a temporary file", "path", f.file.path, "err", err)
	}
	files.discard(f.file.path)
}

// build makes segments of the rows that were spilled: one for each bucket and part of
// the users, in parallel.
func (w *runWriter) build() error {
	f := w.spill
	if f == nil {
		return nil
	}
	w.spill = nil
	defer f.close(w.files)
	if err := f.to.Flush(); err != nil {
		return err
	}
	var jobs []runJob
	for bucket, at := range f.buckets {
		parts := min(max(hashBits(at.rows*importedOf/importedTo, w.opt.rows), bits.Len64(uint64(at.ids/maxIDs))), segment.SpillBits)
		ranges := segment.SpillRanges >> parts
		for i := range 1 << parts {
			jobs = append(jobs, func(ctx context.Context, b *segment.Builder) (*source, error) {
				if err := b.Load(f.file.f, at.parts, i*ranges, (i+1)*ranges); err != nil {
					return nil, err
				}
				return w.makeRun(ctx, b, bucket, segment.HashRange{Bits: parts, Index: uint64(i)})
			})
		}
	}
	return w.inParallel(jobs, f.schema, f.terms)
}

// A runJob makes a run, with a builder that it must not keep.
type runJob func(ctx context.Context, b *segment.Builder) (*source, error)

// inParallel makes runs. Each of a few goroutines has a builder of its own.
func (w *runWriter) inParallel(jobs []runJob, schema event.Schema, terms *segment.Terms) error {
	if len(w.runs)+len(jobs) > maxRuns {
		return fmt.Errorf("the rows are scattered over too many buckets of time: more than %d sorted runs; sort the file by time, or split it", maxRuns)
	}
	var next atomic.Int64
	made := make([]*source, len(jobs))
	g, ctx := errgroup.WithContext(w.ctx)
	for range min(runtime.GOMAXPROCS(0), importing, len(jobs)) {
		b := segment.NewBuilder(schema)
		b.Share(terms) // not in the goroutine: it may add columns to the terms
		g.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(jobs) {
					return nil
				}
				var err error
				if made[i], err = jobs[i](ctx, b); err != nil {
					return err
				}
			}
		})
	}
	err := g.Wait()
	for _, src := range made {
		if src != nil {
			w.runs = append(w.runs, src)
		}
	}
	return err
}

// makeRun writes a temporary segment. It returns nil without rows.
func (w *runWriter) makeRun(ctx context.Context, b *segment.Builder, bucket int64, users segment.HashRange) (*source, error) {
	if b.Rows() == 0 {
		return nil, nil
	}
	f, err := w.files.create(ctx, w.files.tmpPath())
	if err != nil {
		return nil, err
	}
	to := bufio.NewWriterSize(f, 256<<10)
	err = b.Write(to)
	if err == nil {
		err = to.Flush()
	}
	if err = f.finish(err); err != nil {
		return nil, err
	}
	return w.openRun(f.path, bucket, users)
}

func (d *folder) tmpPath() string {
	return d.path(tmpDir, fmt.Sprintf("%012d.run", d.next.Add(1)-1))
}

func (w *runWriter) openRun(path string, bucket int64, users segment.HashRange) (*source, error) {
	seg, err := w.files.openSegment(path)
	if err != nil {
		w.files.discard(path)
		return nil, err
	}
	return &source{entry: entry{File: filepath.Base(path), Bucket: bucket, Hashes: users}.of(seg), seg: seg}, nil
}

// finish makes segments of all rows, one for each bucket and part of the users. The
// caller owns them.
func (w *runWriter) finish() ([]*source, error) {
	if err := w.spills.Wait(); err != nil {
		return nil, err
	}
	w.spare = nil // its memory is needed now
	if err := w.buildRest(); err != nil {
		return nil, err
	}
	var made []*source
	for _, runs := range grouped(w.runs, ofBucket) {
		if apart(runs) {
			made = append(made, runs...)
			continue
		}
		merged, err := w.mergeRuns(runs)
		made = append(made, merged...)
		w.runs = append(w.runs, merged...) // for close, until all buckets are done
		if err != nil {
			return nil, err
		}
	}
	w.runs = slices.DeleteFunc(w.runs, func(r *source) bool { return slices.Contains(made, r) })
	return made, nil
}

// buildRest makes segments of the rows that are in none: those in memory alone, which
// are few, without spilling them.
func (w *runWriter) buildRest() error {
	set := w.set
	w.set, set.schema = nil, w.schema
	if w.spill != nil {
		if err := w.write(set); err != nil {
			return err
		}
		return w.build()
	}
	var jobs []runJob
	for bucket, rows := range set.builders {
		jobs = append(jobs, func(ctx context.Context, _ *segment.Builder) (*source, error) {
			return w.makeRun(ctx, rows, bucket, segment.HashRange{})
		})
	}
	return w.inParallel(jobs, set.schema, set.terms)
}

// mergeRuns merges the runs of a bucket, of which several have the same users.
func (w *runWriter) mergeRuns(runs []*source) (made []*source, err error) {
	parts := hashBits(rowsOf(runs), w.opt.rows)
	for i := range uint64(1) << parts {
		users := segment.HashRange{Bits: parts, Index: i}
		var inputs []segment.Input
		for _, r := range runs {
			if !r.Hashes.Overlaps(users) {
				continue
			}
			inputs = append(inputs, segment.Input{Segment: r.seg, Hashes: users, From: math.MinInt64})
		}
		if inputs == nil {
			continue
		}
		path, err := w.files.merge(w.ctx, filepath.Base(w.files.tmpPath()), inputs)
		if err != nil {
			return made, err
		}
		if path == "" {
			continue
		}
		src, err := w.openRun(path, runs[0].Bucket, users)
		if err != nil {
			return made, err
		}
		made = append(made, src)
	}
	return made, nil
}

// close deletes what finish did not return.
func (w *runWriter) close() {
	_ = w.spills.Wait() // finish returns the error, unless the caller has another
	if w.spill != nil {
		w.spill.close(w.files)
		w.spill = nil
	}
	w.files.dropFiles(w.runs)
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
		err = c.each(func() error {
			if out[eventKey{c.user, c.time(), c.id()}] {
				return nil
			}
			values = c.values(values[:0])
			w.add(src.Bucket, c.user, c.time(), c.name(), c.id(), values, nil)
			if w.set.rows%importBatch == 0 {
				return w.flush()
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return w.finish()
}

func (d *folder) dropFiles(segments []*source) {
	for _, src := range segments {
		d.close(src)
		d.discard(src.seg.Name())
	}
}
