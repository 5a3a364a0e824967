package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A target is what a sink writes to at its end. The goroutine of the sink calls write and
// tick; the others are called by any.
type target interface {
	encode(dst []byte, v value.Value) ([]byte, error)
	write(b *batch) []written // one for each record
	tick() error              // about once a second
	name() string
}

// A sink writes files. One goroutine writes what Write has encoded.
type sink struct {
	root    string // the folder that paths stay in, with templates
	path    string // without templates
	acquire func(path string) (target, error)
	release func(target) error
	receipt bool
	log     *slog.Logger

	wg      sync.WaitGroup
	pending chan struct{} // capacity 1: there is something to write, or the end
	room    chan struct{} // capacity 1: something was written

	mu struct {
		sync.Mutex
		batches map[string]*batch              // by path
		bytes   int                            // of them
		spare   *batch                         // was written
		open    *simplelru.LRU[string, target] // by path; those that were used last may be among batches
		closing bool
	}
}

// A batch is what is written to one file together.
type batch struct {
	out     target
	data    []byte
	records []pending
}

// A pending record is in the data of its batch up to end.
type pending struct {
	end   int
	i     int
	calls int // of the first record of a call that is here as a whole: how many it has
	done  func(i int, receipt value.Value, err error)
}

const (
	maxPending = 4 << 20 // bytes that wait for being written; one record may be longer
	maxSpare   = 1 << 20 // bytes that are kept for the next batch
	maxOpen    = 128     // files of one sink
	mostOpen   = 256     // the same, while those are written that are too many
	maxDepth   = 32      // folders between the folder of the field and a file
)

func newSink(init *node.Init, acquire func(path string) (target, error), release func(target) error) *sink {
	s := &sink{
		acquire: acquire, release: release, receipt: init.Config.String("answer") == "receipt", log: init.Log,
		pending: make(chan struct{}, 1), room: make(chan struct{}, 1),
	}
	s.mu.batches, s.mu.open = map[string]*batch{}, newOpen()
	return s
}

// newOpen returns a list of open files. They are closed by evictAll, so it has room for all.
func newOpen() *simplelru.LRU[string, target] {
	open, err := simplelru.NewLRU[string, target](2*mostOpen, nil)
	if err != nil { // of a size that is not positive
		panic(err)
	}
	return open
}

// Connect opens the file, if there is one.
func (s *sink) Connect(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root == "" {
		if _, err := s.outputLocked(s.path); err != nil {
			return refuse(err)
		}
	} else if err := os.MkdirAll(s.root, 0o777); err != nil {
		return refuse(err)
	}
	s.mu.closing = false
	s.wg.Go(s.run)
	return nil
}

// refuse returns what Connect says about an error: a full disk may get room.
func refuse(err error) error {
	if isFull(err) {
		return err
	}
	return &stream.RefusedError{Field: "path", Err: err}
}

// unwritten returns why a record was not written, for its process: a full disk is an outage.
func unwritten(err error) error {
	if !isFull(err) {
		return err
	}
	return &node.Error{Err: err, Code: "full", Status: http.StatusServiceUnavailable, Outage: true}
}

// outputLocked returns the open file of a path.
func (s *sink) outputLocked(path string) (target, error) {
	if out, ok := s.mu.open.Get(path); ok {
		return out, nil
	}
	if s.root != "" {
		if err := unlinked(filepath.Clean(s.root), path); err != nil {
			return nil, node.Unusable("path", err)
		}
	}
	out, err := s.acquire(path)
	if err != nil {
		return nil, unwritten(err)
	}
	s.mu.open.Add(path, out)
	return out, nil
}

// Write encodes records, for the goroutine to write them.
func (s *sink) Write(ctx context.Context, records []stream.Record, done func(i int, receipt value.Value, err error)) {
	for i := 0; i < len(records); {
		if err := s.wait(ctx); err != nil {
			done(i, value.Null(), err)
			i++
			continue
		}
		i = s.put(records, i, done)
	}
}

// Take encodes a record on the goroutine of its process.
func (s *sink) Take(r stream.Record, i int, done func(i int, receipt value.Value, err error)) (taken bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fullLocked() {
		return false, nil
	}
	if _, err := s.putLocked(&r, pending{i: i, done: done}); err != nil {
		return false, err
	}
	select {
	case s.pending <- struct{}{}:
	default:
	}
	return true, nil
}

// fullLocked reports whether records wait for those before to be written: there are too many
// bytes of them, or too many files are open.
func (s *sink) fullLocked() bool { return s.mu.bytes >= maxPending || s.mu.open.Len() >= mostOpen }

// wait waits for room.
func (s *sink) wait(ctx context.Context) error {
	for {
		s.mu.Lock()
		full := s.fullLocked()
		s.mu.Unlock()
		if !full {
			return nil
		}
		select {
		case <-s.room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// put encodes records from the one at i on, at least that one, as far as there is room. It
// returns which is next.
func (s *sink) put(records []stream.Record, i int, done func(i int, receipt value.Value, err error)) (next int) {
	from := i
	var errs map[int]error
	s.mu.Lock()
	for ; i == from || i < len(records) && !s.fullLocked(); i++ {
		b, err := s.putLocked(&records[i], pending{i: i, done: done})
		if err != nil {
			if errs == nil {
				errs = make(map[int]error)
			}
			errs[i] = err
		} else if i == len(records)-1 && from == 0 && len(errs) == 0 && s.root == "" {
			b.records[len(b.records)-len(records)].calls = len(records)
		}
	}
	s.mu.Unlock()
	select {
	case s.pending <- struct{}{}:
	default:
	}
	for i, err := range errs {
		done(i, value.Null(), err)
	}
	return i
}

func (s *sink) putLocked(r *stream.Record, p pending) (*batch, error) {
	path := s.path
	if s.root != "" {
		path = filepath.Clean(r.Texts[0])
		if err := inside(s.root, path); err != nil {
			return nil, node.Unusable("path", err)
		}
	}
	b := s.mu.batches[path]
	if b == nil {
		out, err := s.outputLocked(path)
		if err != nil {
			return nil, err
		}
		if b, s.mu.spare = s.mu.spare, nil; b == nil {
			b = new(batch)
		}
		b.out = out
		s.mu.batches[path] = b
	}
	data, err := b.out.encode(b.data, r.Body)
	if err != nil {
		return nil, node.Unusable("encode", err)
	}
	s.mu.bytes += len(data) - len(b.data)
	b.data, p.end = data, len(data)
	b.records = append(b.records, p)
	return b, nil
}

// inside returns why a path leaves its folder, which is what the texts of the field have in
// common. The folder may be a link, but what a record adds to it may not lead through one.
func inside(root, path string) error {
	rel, err := filepath.Rel(root, path)
	if err != nil || !filepath.IsLocal(rel) || rel == "." || strings.ContainsRune(path, 0) {
		return fmt.Errorf("the path %q is not in the folder %s", path, root)
	}
	if strings.Count(rel, string(filepath.Separator)) > maxDepth {
		return fmt.Errorf("the path %q has more than %d folders below %s", node.Clip(path, 200), maxDepth, root)
	}
	return nil
}

// unlinked returns why a path below a folder leads through a link. What does not exist yet is
// made, and is none.
func unlinked(root, path string) error {
	for at := path; at != root; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case info.Mode()&fs.ModeSymlink != 0:
			return fmt.Errorf("the path %q leads through the link %s", path, at)
		}
	}
	return nil
}

// run writes batches until the sink closes.
func (s *sink) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		tick := false
		select {
		case <-s.pending:
		case <-ticker.C:
			tick = true
		}
		s.mu.Lock()
		var batches map[string]*batch
		closing := s.mu.closing
		if len(s.mu.batches) > 0 {
			batches, s.mu.batches = s.mu.batches, make(map[string]*batch, len(s.mu.batches))
			s.mu.bytes = 0
		}
		s.mu.Unlock()
		s.roomier()
		for _, b := range batches {
			s.write(b)
		}
		if s.evictAll() {
			s.roomier()
		}
		if tick {
			s.tick()
		}
		if closing {
			return
		}
	}
}

// roomier lets one of those that wait for room look again.
func (s *sink) roomier() {
	select {
	case s.room <- struct{}{}:
	default:
	}
}

// write writes a batch, and reports the result of each record.
func (s *sink) write(b *batch) {
	at := b.out.write(b)
	failed := func(w written) bool { return w.err != nil }
	for i := 0; i < len(b.records); i++ {
		r := &b.records[i]
		switch receipt := value.Null(); {
		case r.calls > 0 && !s.receipt && !slices.ContainsFunc(at[i:i+r.calls], failed):
			r.done(stream.Rest, receipt, nil)
			i += r.calls - 1
		case at[i].err != nil:
			r.done(r.i, receipt, unwritten(at[i].err))
		case s.receipt:
			r.done(r.i, receiptShape.Map(value.String(b.out.name()), value.Int(at[i].offset)), nil)
		default:
			r.done(r.i, receipt, nil)
		}
	}
	if cap(b.data) > maxSpare {
		return
	}
	clear(b.records)
	b.out, b.data, b.records = nil, b.data[:0], b.records[:0]
	s.mu.Lock()
	s.mu.spare = b
	s.mu.Unlock()
}

var receiptShape = value.NewShape("path", "offset")

// tick makes files durable that have to be.
func (s *sink) tick() {
	s.mu.Lock()
	open := s.mu.open.Values()
	s.mu.Unlock()
	for _, out := range open {
		if err := out.tick(); err != nil {
			s.log.Warn("a file was not made durable", "path", out.name(), "err", err)
		}
	}
}

// evictAll closes the files that are too many, those first that were not used for longest, and
// reports whether there were any. All that have a batch were used after the others.
func (s *sink) evictAll() (evicted bool) {
	for {
		s.mu.Lock()
		path, out, ok := s.mu.open.GetOldest()
		if !ok || s.mu.open.Len() <= maxOpen || s.mu.batches[path] != nil {
			s.mu.Unlock()
			return evicted
		}
		s.mu.open.RemoveOldest()
		s.mu.Unlock()
		evicted = true
		if err := s.release(out); err != nil {
			s.log.Warn("a file was not closed", "path", out.name(), "err", err)
		}
	}
}

// Close writes what is pending, and closes the files.
func (s *sink) Close(context.Context) error {
	s.mu.Lock()
	s.mu.closing = true
	s.mu.Unlock()
	select {
	case s.pending <- struct{}{}:
	default:
	}
	s.wg.Wait() // files do not block for long
	s.mu.Lock()
	open := s.mu.open.Values()
	s.mu.open.Purge()
	s.mu.Unlock()
	var errs []error
	for _, out := range open {
		if err := s.release(out); err != nil && !errors.Is(err, fs.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
