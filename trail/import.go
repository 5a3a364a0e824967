package trail

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/tabular"
)

const (
	importBatch = 4096
	maxBadRows  = 100 // that are listed
)

// An EventParser reads JSON objects as events. It may be used concurrently.
type EventParser struct{ p *tabular.Parser }

// NewEventParser returns a parser with the columns, the time unit and the types of
// opt.
func NewEventParser(opt ImportOptions) (*EventParser, error) {
	p, err := tabular.NewParser(opt.tabular(nil))
	if err != nil {
		return nil, err
	}
	return &EventParser{p}, nil
}

// Parse reads one JSON object as an event, which the caller may keep. Objects in it
// become properties with dots in their names; null and empty members are left out;
// arrays are errors.
func (p *EventParser) Parse(object []byte) (event.Event, error) { return p.p.Parse(object) }

func (o ImportOptions) tabular(known event.Schema) tabular.Options {
	return tabular.Options{User: o.User, Time: o.Time, Event: o.Event, ID: o.ID, TimeUnit: o.TimeUnit, Types: o.Types, Known: known, Advice: o.Advice}
}

// ImportExtensions returns the extensions of files that Import reads, without the
// dot; the last ones are of compressed files.
func ImportExtensions() []string { return tabular.Extensions() }

// CheckImportName returns an error for a file whose extension is not of a format that
// Import reads.
func CheckImportName(file string) error { return tabular.CheckName(file) }

// Import adds the events of files: CSV, newline-delimited JSON and Parquet by
// their extension, the first two also packed (.gz, .zst); "-" is JSON from Stdin.
// A file is taken whole or not at all, and is durable when the next begins; the
// first error ends the import. Appends and queries can run during an import; one
// import runs at a time. Memory does not grow with the files.
//
// Rows that cannot be read are bad, and so are rows with a time outside of
// Options.Times. Rows older than the store's horizon are counted and left out. The
// error is a *BadRowsError if a file has more bad rows than are allowed. It wraps an
// *event.TypeError or an *event.InexactError if a property does not fit the store.
func (s *Store) Import(ctx context.Context, files []string, opt ImportOptions) (ImportResult, error) {
	var result ImportResult
	err := s.change(ctx, func(ctx context.Context) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case s.importing <- struct{}{}:
			defer func() { <-s.importing }()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := s.files.markImport(); err != nil {
			return fmt.Errorf("import: %w", err)
		}
		defer func() { s.files.discard(s.files.path(tmpDir, importMark)) }()
		for _, file := range files {
			im := &importer{
				env:   importEnv{s.committer.do, s.admission.admitSegments, s.catalog.replace},
				files: s.files, state: s.state, opt: s.opt, ctx: ctx, how: opt, file: ImportFile{File: file},
				seen: seen{log: s.log},
			}
			start := time.Now()
			err := im.run()
			im.file.Elapsed = time.Since(start)
			result.Files = append(result.Files, im.file)
			if ctx.Err() != nil && s.ctx.Err() != nil && err != nil {
				err = ErrClosed
			}
			if err != nil {
				return fmt.Errorf("import: %w", err)
			}
			notify(s.compactor.wake)
		}
		return nil
	})
	return result, err
}

// importMark is a file that is there while an import runs, and after one that was killed
// until the store is opened for writing again.
const importMark = "importing"

// UnfinishedImport is what queries and Verify say of a store without events if an import
// has left its mark.
const UnfinishedImport = "there are no events: an import has begun and did not end; run it again, unless it still runs"

func (d *folder) markImport() error {
	f, err := d.fs.Create(d.path(tmpDir, importMark))
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// importUnfinished reports whether an import runs, or was killed.
func (d *folder) importUnfinished() (bool, error) {
	names, err := d.names(tmpDir)
	return slices.Contains(names, importMark), err
}

// An importer takes one file: it makes temporary segments of it, and commits these
// between two appends.
type importer struct {
	env   importEnv
	files *folder
	state *state
	opt   Options
	ctx   context.Context
	how   ImportOptions

	file   ImportFile
	sn     *snapshot // to look for duplicates in
	seen   seen
	reader *tabular.Reader
	read   int64 // good rows
}

// An importEnv is what an importer needs of its store.
type importEnv struct {
	// between runs a function while nothing is committed.
	between func(f func())
	// admit returns the schema of the store with segments, or why it cannot take them.
	admit func(segments []*source, schema event.Schema) (event.Schema, error)
	// replace is catalog.replace.
	replace func(out, made []*source, change func(m *manifest) error, apply func()) error
}

func (im *importer) run() (err error) {
	if im.sn, err = im.state.view(); err != nil {
		return err
	}
	defer func() { im.sn.unpin() }()
	im.seen.reset(im.sn.sources, im.sn.tombs)
	columns := im.how.tabular(im.sn.schema)
	columns.Coded = true
	times := im.opt.Times.window(im.opt.now())
	columns.Times = times.plausible
	im.reader, err = tabular.Open(im.file.File, im.how.Stdin, columns)
	if err != nil {
		return err
	}
	w := newRunWriter(im.ctx, im.files, im.opt)
	defer w.close()
	err = im.readAll(w)
	if err = errors.Join(err, im.reader.Close()); err != nil { // what it holds would be in the way
		return err
	}
	im.report("merge")
	segments, err := w.finish()
	if err != nil {
		return err
	}
	defer func() { im.files.dropFiles(segments) }() // the segments that were not taken
	if segments, err = im.install(segments, w.schema); err != nil {
		return err
	}
	im.file.Taken = true
	im.file.Duplicates = im.read - im.file.Dropped - im.file.Rows
	im.report("done")
	return nil
}

func (im *importer) report(phase string) {
	if im.how.Progress == nil {
		return
	}
	done, total := im.reader.Progress()
	im.how.Progress(ImportProgress{File: im.file.File, Bytes: done, Total: total, Rows: im.read, Phase: phase})
}

// readAll puts the rows of the file into runs, except for rows that the store has.
func (im *importer) readAll(w *runWriter) error {
	horizon := im.sn.kept()
	rows := make([]tabular.Row, importBatch)
	for {
		n, bad, err := im.reader.Next(rows)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if wrong := im.countBad(bad); wrong != nil {
			return wrong
		}
		if err := im.ctx.Err(); err != nil {
			return err
		}
		w.extend(im.reader.Schema())
		w.dictionaries(im.reader.Terms)
		for i := range rows[:n] {
			r := &rows[i]
			im.read++
			if r.Time < horizon {
				im.file.Dropped++
				continue
			}
			bucket := bucketOf(r.Time, im.sn.width)
			id := uint64(0)
			if r.ID != "" {
				id = event.HashID(r.ID)
				if im.seen.has(bucket, r.User, r.Time, id) {
					continue
				}
			}
			if r.Codes != nil {
				w.recode(r.Codes)
			}
			w.add(bucket, r.User, r.Time, r.Name, id, r.Values, r.Codes)
		}
		if err := w.flush(); err != nil {
			return err
		}
		im.report("read")
		if err != nil {
			return nil
		}
	}
}

func (im *importer) countBad(rows []tabular.BadRow) error {
	for _, b := range rows {
		im.file.Bad++
		if len(im.file.BadRows) < maxBadRows {
			im.file.BadRows = append(im.file.BadRows, BadRow{b.Line, b.Reason})
		}
	}
	if im.file.Bad > int64(im.how.MaxBad) {
		return &BadRowsError{File: im.file.File, Bad: im.file.Bad, Max: im.how.MaxBad, First: im.file.BadRows[0]}
	}
	return nil
}

// install commits the segments. Before that it removes rows that appends have added
// meanwhile with the same user, time and id, and repeats that until no more come. It
// returns the segments that it did not commit.
func (im *importer) install(segments []*source, schema event.Schema) ([]*source, error) {
	again, err := im.newlyStored(segments)
	for {
		if err != nil {
			return segments, err
		}
		if again != nil {
			w := newRunWriter(im.ctx, im.files, im.opt)
			w.extend(schema)
			fresh, err := w.rewriteWithout(segments, again)
			w.close()
			if err != nil {
				return segments, err
			}
			im.files.dropFiles(segments)
			segments = fresh
		}
		done := false
		im.env.between(func() {
			if again, err = im.newlyStored(segments); err == nil && again == nil {
				err = im.take(segments, schema)
				done = err == nil
			}
		})
		if err != nil {
			return segments, err
		}
		if done {
			im.file.Rows += rowsOf(segments)
			return nil, nil
		}
	}
}

// An eventKey identifies equal events.
type eventKey struct {
	user string
	time int64
	id   uint64
}

// newlyStored returns the events of the segments that the store has got since the
// importer's snapshot; nil for none.
func (im *importer) newlyStored(segments []*source) (found map[eventKey]bool, err error) {
	err = guarded(func() (err error) {
		found, err = im.findCommon(segments)
		return err
	})
	return found, err
}

func (im *importer) findCommon(segments []*source) (map[eventKey]bool, error) {
	sn, err := im.state.view()
	if err != nil {
		return nil, err
	}
	before := im.sn.commit
	im.sn.unpin()
	im.sn = sn
	var found map[eventKey]bool
	for _, src := range sn.sources {
		if src.Commit <= before || !src.IDs || !src.mergeable() {
			continue
		}
		var here []*source // that may have the same events
		for _, seg := range segments {
			if seg.Bucket == src.Bucket && seg.IDs {
				here = append(here, seg)
			}
		}
		if here == nil {
			continue
		}
		c, err := openCursor(src.seg, nil, sn.tombs.of(&src.entry), event.MinTime)
		if err != nil {
			return nil, err
		}
		err = c.each(func() error {
			i := slices.IndexFunc(here, func(seg *source) bool { return seg.Hashes.Has(c.hash) })
			if c.id() == 0 || i < 0 {
				return nil
			}
			has, err := im.seen.find(here[i].seg, c.hash, c.user, c.time(), c.id())
			if has {
				if found == nil {
					found = make(map[eventKey]bool)
				}
				found[eventKey{c.user, c.time(), c.id()}] = true
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

// take commits temporary segments. Nothing else is committed meanwhile, because it may
// change the schema.
func (im *importer) take(segments []*source, schema event.Schema) error {
	wide, err := im.env.admit(segments, schema)
	if err != nil || len(segments) == 0 {
		return err
	}
	commit := im.state.nextCommit()
	installed, err := im.move(segments, commit)
	if err != nil {
		im.files.dropUncommitted(installed, nil)
		return err
	}
	err = im.env.replace(nil, installed, func(m *manifest) error {
		m.Schema = schemaFields(wide)
		return nil
	}, func() { im.state.mu.schema, im.state.mu.visible = wide, commit })
	if err != nil {
		return err
	}
	for _, tmp := range segments {
		im.files.close(tmp)
	}
	return nil
}

// move puts temporary segments into their place, durably. It returns the segments that it has
// moved.
func (im *importer) move(segments []*source, commit uint64) (installed []*source, err error) {
	for _, tmp := range segments {
		e := tmp.entry
		e.Commit, e.Applied, e.File = commit, commit, im.files.segmentName(commit)
		src, err := im.files.install(tmp.seg.Name(), e)
		if err != nil {
			return installed, err
		}
		installed = append(installed, src)
	}
	return installed, im.files.syncSegments()
}
