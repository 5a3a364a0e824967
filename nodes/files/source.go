package files

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/glob"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed file_source.md
var fileSourcePage string

func fileSource() stream.Source {
	return stream.Source{
		Kind:    "file_source",
		Summary: "Reads the records of files, such as lines, NDJSON and CSV.",
		Page:    node.ReadPage(fileSourcePage),
		Config: schema.Fields(append([]*schema.Field{
			schema.Strings("paths").Required().Doc("The files: paths, or patterns with `*`, `?`, `[a-z]`, and `**` between slashes for any number of folders. A file that two of them name is read once."),
			schema.Bool("follow").Default(false).Doc("Wait for more in the files, and for more files, instead of ending."),
			schema.Enum("settled", "keep", "delete", "move").Default("keep").Doc("What becomes of a file when all its records are settled. With `follow`, a file counts as whole when nothing was added to it for `idle`. A file that cannot be read stays."),
			schema.String("move_to").Doc("The folder that `settled: move` moves to, made if it is missing. A file of that name there gets a number behind it."),
			schema.Duration("idle").Default("10s").Range(0, float64(24*time.Hour)).Doc("With `follow`: how long after the last change a file is whole, for `settled`, and how long a file that is gone may still grow."),
			schema.Duration("rescan").Default("1s").Range(float64(time.Millisecond), float64(time.Hour)).Doc("With `follow`: how often to look for changes that the system does not report, such as those on network drives."),
		}, input.Fields("auto", format.Lines, format.NDJSON, format.CSV, format.JSON, format.Raw, format.Parquet)...)...),
		Traits: stream.Traits{Lanes: true, Positions: true, Checkpoints: true, Raw: true},
		Open:   openFileSource,
		Ends:   func(c schema.Config) bool { return !c.Bool("follow") },
	}
}

// A source reads files. The goroutine that calls Read owns what mu does not guard.
type source struct {
	paths        []string
	follow       bool
	settled      string
	moveTo       string
	idle, rescan time.Duration
	input        input.Input
	mustFind     bool // a file: it is a job that reads none otherwise
	log          *slog.Logger

	watch    *watcher // nil unless it follows
	queue    []*tail  // that may have something to read
	scans    time.Time
	records  []format.Record // of the last read, as read, to be used again
	read     []stream.Message
	warned   map[string]bool // paths that a warning has named
	suspects map[fileID]*suspect
	torn     []*tail // that have a rest

	mu struct {
		sync.Mutex
		tails       map[fileID]*tail   // the newest of each file
		byPath      map[string][]*tail // tails, during a scan; nil before they are looked for
		past        past
		cuts        map[fileID]int    // the last cut of each origin of tails and of the past
		kept        bool              // positions are
		changed     map[string]fileID // lanes whose position has changed otherwise, until the runtime asks
		lanes       int32             // in use
		total, done int64             // bytes, as files have them
	}
}

func openFileSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	s := &source{
		paths: c.Strings("paths"), follow: c.Bool("follow"), settled: c.String("settled"), moveTo: c.String("move_to"),
		idle: c.Duration("idle"), rescan: c.Duration("rescan"), log: init.Log, warned: map[string]bool{}, suspects: map[fileID]*suspect{},
	}
	s.mustFind = init.Job != nil && !init.Job.AllowEmpty && !s.follow
	s.mu.tails, s.mu.past, s.mu.cuts, s.mu.changed = map[fileID]*tail{}, newPast(), map[fileID]int{}, map[string]fileID{}
	var errs []error
	var err error
	if s.input, err = input.New(init); err != nil {
		errs = append(errs, err)
	}
	if err := checkPatterns(s.paths); err != nil {
		errs = append(errs, c.Errorf("paths", diag.CodeBadValue, "%s", err).WithHint("%s", patternHint))
	} else {
		warnMissing(init, s.follow)
	}
	if (s.settled == "move") != (s.moveTo != "") {
		at, hint := "settled", "add move_to, such as move_to: done"
		if c.Has("move_to") {
			at = "move_to"
		}
		if s.moveTo != "" {
			hint = "write settled: move, or remove it"
		}
		errs = append(errs, c.Errorf(at, diag.CodeBadValue, "settled: move needs move_to, and nothing else takes it").WithHint("%s", hint))
	} else if slices.ContainsFunc(s.paths, func(p string) bool { return s.moveTo != "" && inFolder(p, s.moveTo) }) {
		errs = append(errs, c.Errorf("move_to", diag.CodeBadValue, "%s is a folder that is read: files would come back", s.moveTo))
	}
	return s, errors.Join(errs...)
}

// Connect looks for the files, and fails if one that is named without a pattern cannot be
// read.
func (s *source) Connect(context.Context, stream.Host) error {
	for _, path := range s.paths {
		if glob.IsPattern(path) {
			continue
		}
		f, err := openRegular(path)
		if err == nil {
			err = f.Close()
		}
		if err != nil && !(s.follow && errors.Is(err, fs.ErrNotExist)) {
			return &stream.RefusedError{Field: "paths", Err: err}
		}
	}
	if s.follow && s.watch == nil {
		s.watch = newWatcher(s.log)
	}
	s.scan(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.mu.tails) == 0 && s.mustFind {
		return &stream.RefusedError{Field: "paths", Err: fmt.Errorf("no file matches %q; with --allow-empty that is right", s.paths)}
	}
	if len(s.mu.tails) == 0 {
		s.log.Warn("no file is there to read", "paths", s.paths, "follow", s.follow)
	}
	return nil
}

// Read returns records of one file.
func (s *source) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.follow {
			s.look(time.Now())
		}
		if messages := s.afterCut(room); len(messages) > 0 {
			return messages, nil
		}
		if len(s.queue) == 0 {
			if !s.follow {
				return nil, io.EOF
			}
			if err := s.watch.wait(ctx, s.rescan); err != nil {
				return nil, err
			}
			continue
		}
		t := s.queue[0]
		messages, err := s.readTail(t, room)
		// Take turns, so that a file that grows fast does not hold the others up. One that
		// was truncated is not there any more.
		if s.queue[0] == t && (s.follow || !t.ready) {
			s.queue = s.queue[1:]
			if t.ready {
				s.queue = append(s.queue, t)
			}
		}
		if err != nil || len(messages) > 0 {
			return messages, err
		}
	}
}

// readTail reads from one file as far as there is room.
func (s *source) readTail(t *tail, room stream.Room) ([]stream.Message, error) {
	if t.done {
		t.ready = false
		return nil, nil
	}
	if t.file == nil {
		err := s.open(t)
		if errors.Is(err, errCut) && !t.fixed {
			s.replace(t)
			s.scans = time.Time{} // there may be a copy of it
			return nil, nil
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errOther) || errors.Is(err, errCut) { // a scan sees what is there now
			s.forget(t)
			s.scans = time.Time{}
			return nil, nil
		}
		if err != nil {
			return s.damaged(t, err), nil
		}
	} else if !t.last { // also without an end in between: a file is cut and filled in no time
		fp, changed, err := t.changed()
		if err != nil {
			return s.damaged(t, err), nil
		}
		if changed {
			s.replace(t)
			s.scans = time.Time{}
			return nil, nil
		}
		s.setPrint(t, fp, t.place)
	}
	if t.table != nil {
		next, _ := t.table.Rows()
		rows, err := t.table.Read(min(max(1, room.Messages), maxRows))
		if len(rows) > 0 {
			return s.rows(t, next, rows), nil
		}
		return s.atEnd(t, err), nil
	}
	records, err := t.reader.Read(s.records[:0], max(1, room.Messages), max(1, room.Bytes))
	s.records = records
	if len(records) > 0 {
		t.quiet = time.Time{}
		defer clear(records)
		return s.messages(t, records, t.reader.Decoder()), nil
	}
	return s.atEnd(t, err), nil
}

// open opens the file of a tail.
func (s *source) open(t *tail) error {
	t.last = t.last || !s.follow || s.input.Of(t.path).Packed()
	fp, at, err := t.open(s.input)
	if err == nil {
		s.setPrint(t, fp, at)
	}
	return err
}

// maxRows is how many rows of a table are read together: they are not bounded by bytes.
const maxRows = 256

// atEnd deals with a file in which there is nothing to read now, or with the reason.
func (s *source) atEnd(t *tail, err error) []stream.Message {
	t.ready = false
	if err != io.EOF {
		return s.damaged(t, err)
	}
	if t.quiet.IsZero() {
		t.quiet = time.Now()
	}
	if t.last {
		s.end(t)
	}
	return nil
}

func (s *source) setPrint(t *tail, fp fingerprint, at place) {
	s.mu.Lock()
	t.print, t.place = fp, at
	s.mu.Unlock()
}

// damaged ends a file that cannot be read: it is a message with the reason, at the place
// where the reading stopped.
func (s *source) damaged(t *tail, err error) []stream.Message {
	at := t.end
	if t.reader != nil {
		at.offset, at.line = t.reader.Offset()
	}
	if in := (*fs.PathError)(nil); errors.As(err, &in) {
		err = in.Err
	}
	s.mu.Lock()
	t.failed = true
	s.mu.Unlock()
	s.end(t)
	s.log.Warn("a file cannot be read", "path", t.path, "err", err)
	proof := t.place
	// Its position stays in front of it: it may be repaired.
	return []stream.Message{{Raw: []byte{}, Lane: t.lane, Offset: at.offset, Token: &token{Found: input.Found{Err: err, Line: max(1, at.line)}, tail: t, end: at, place: &proof, path: t.path}}}
}

// Size returns how many bytes were read, and how many the files have that are known.
func (s *source) Size() (done, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.done, max(s.mu.done, s.mu.total)
}

// Close closes the files.
func (s *source) Close(context.Context) error {
	var errs []error
	if s.watch != nil {
		errs = append(errs, s.watch.close())
		s.watch = nil
	}
	s.mu.Lock()
	tails := make([]*tail, 0, len(s.mu.tails))
	for _, t := range s.mu.tails {
		tails = append(tails, t)
	}
	s.mu.Unlock()
	for _, t := range append(tails, s.queue...) {
		errs = append(errs, t.close())
	}
	s.queue = nil
	return errors.Join(errs...)
}

// warnOnce logs what is wrong with a path, once until it is right.
func (s *source) warnOnce(path string, err error) {
	if s.warned[path] {
		return
	}
	s.warned[path] = true
	s.log.Warn("a path is passed over", "path", path, "err", err)
}
