package s3

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed s3_source.md
var s3SourcePage string

func sourceDef() stream.Source {
	return stream.Source{
		Kind:    "s3_source",
		Summary: "Reads the records of the objects of a bucket, such as lines, NDJSON and CSV, or the objects themselves.",
		Page:    node.ReadPage(s3SourcePage),
		Config: withConnection(append([]*schema.Field{
			schema.String("prefix").Doc("Only objects whose keys begin so are read."),
			schema.Duration("interval").Default("10s").Range(float64(10*time.Millisecond), float64(24*time.Hour)).Doc("How long to wait after all objects were read until the bucket is listed again."),
			schema.Bool("ends").Default(false).Doc("Ends the source when all objects were read."),
			schema.Enum("settled", "keep", "delete", "move", "tag").Default("keep").Doc("What becomes of an object when all its records are settled. An object that cannot be read stays."),
			schema.String("move_to").Doc("The prefix that `settled: move` gives to keys instead of `prefix`, such as `done/`."),
			schema.String("tag").Doc("The tag that `settled: tag` adds to objects, such as `state=done`."),
			schema.Duration("timeout").Default("30s").Range(float64(time.Millisecond), float64(time.Hour)).Doc("How long the service may send nothing before a request counts as failed."),
		}, input.Fields("auto", format.Lines, format.NDJSON, format.CSV, format.JSON, format.Raw, format.Parquet, input.Object)...)...),
		Traits: stream.Traits{Lanes: true, Positions: true, Checkpoints: true, Raw: true},
		Open:   openSource,
		Ends:   func(c schema.Config) bool { return c.Bool("ends") },
	}
}

// A reader reads the objects of a prefix, one after the other. The goroutine that calls Read owns
// what mu does not guard.
type reader struct {
	settings *settings
	input    input.Input
	prefix   string
	interval time.Duration
	ends     bool
	settled  string
	moveTo   string
	tag      [2]string
	stall    time.Duration
	clock    node.Clock
	log      *slog.Logger

	store     *store // set by the first Connect
	host      stream.Host
	connected bool
	current   *object // that is being read
	listing   listing
	records   []format.Record  // of the last read, to be used again
	read      []stream.Message // likewise

	mu struct {
		sync.Mutex
		known   map[string]*object // by key: read, or begun
		changed map[string]bool    // keys whose position has changed without a mark
		lanes   int32              // in use
		free    []int32            // lanes that are settled as a whole
		done    int64              // bytes that were read
		total   int64              // of the objects that were found
	}
}

func openSource(init *node.Init) (stream.Reader, error) {
	c := init.Config
	r := &reader{
		prefix: c.String("prefix"), interval: c.Duration("interval"), ends: c.Bool("ends"), settled: c.String("settled"),
		moveTo: c.String("move_to"), stall: c.Duration("timeout"), clock: init.Clock, log: init.Log,
	}
	r.mu.known, r.mu.changed = map[string]*object{}, map[string]bool{}
	var errs []error
	var err error
	r.settings, err = newSettings(c, 1)
	errs = append(errs, err)
	r.input, err = input.New(init)
	errs = append(errs, err)
	for name, way := range map[string]string{"move_to": "move", "tag": "tag"} {
		if c.Has(name) && r.settled != way {
			errs = append(errs, c.Errorf(name, diag.CodeBadValue, "only settled: %s takes it", way).WithHint("write settled: %s, or remove it", way))
		} else if !c.Has(name) && r.settled == way {
			errs = append(errs, c.Errorf("settled", diag.CodeBadValue, "%s needs %s", way, name).WithHint("add %s", name))
		}
	}
	if r.settled == "move" && c.Has("move_to") && strings.HasPrefix(r.moveTo, r.prefix) {
		errs = append(errs, c.Errorf("move_to", diag.CodeBadValue, "keys that begin with %q are read: objects would come back", r.prefix).WithHint("write a prefix that does not begin so, such as done/, and a prefix to read, such as new/"))
	}
	if r.settled == "tag" && c.Has("tag") {
		name, value, ok := strings.Cut(c.String("tag"), "=")
		if r.tag = [2]string{name, value}; !ok || name == "" {
			errs = append(errs, c.Errorf("tag", diag.CodeBadValue, "want a name and a value").WithHint("write one such as state=done"))
		}
	}
	return r, errors.Join(errs...)
}

// Connect implements [stream.Reader].
func (r *reader) Connect(ctx context.Context, host stream.Host) error {
	r.host = host
	if r.store == nil {
		store, err := r.settings.open()
		if err != nil {
			return err
		}
		r.store = store
	}
	err := r.store.check(ctx, r.prefix, true)
	if err != nil && !r.connected {
		r.store.close()
	}
	var refused *stream.RefusedError
	if errors.As(err, &refused) && r.connected {
		return refused.Err // it was right before, and may be again
	}
	r.connected = r.connected || err == nil
	return err
}

// Read returns records of one object.
func (r *reader) Read(ctx context.Context, room stream.Room) ([]stream.Message, error) {
	for {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if r.current == nil {
			r.release(ctx)
			o, err := r.next(ctx)
			switch {
			case err != nil:
				return nil, r.lost(ctx, err)
			case o == nil && r.ends:
				return nil, io.EOF
			case o == nil:
				if err := r.clock.Sleep(ctx, r.interval); err != nil {
					return nil, err
				}
				continue
			}
			r.current = o
		}
		messages, err := r.current.read(ctx, r, room)
		if r.current.finished() {
			r.current = nil
		}
		if err != nil || len(messages) > 0 {
			return messages, r.lost(ctx, err)
		}
	}
}

// mostFree is how many lanes the runtime may have that no message comes on any more.
const mostFree = 256

// release lets go of lanes of objects that are settled.
func (r *reader) release(ctx context.Context) {
	r.mu.Lock()
	var free []int32
	if len(r.mu.free) >= mostFree {
		free, r.mu.free = r.mu.free, nil
	}
	r.mu.Unlock()
	if free != nil {
		r.host.Release(ctx, free) // their positions are those that Moved returns, too
	}
}

// lost says that a request has failed, whatever the reason: the next one may succeed.
func (r *reader) lost(ctx context.Context, err error) error {
	switch {
	case err == nil || errors.Is(err, stream.ErrLost):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return fmt.Errorf("%w: %w", stream.ErrLost, r.store.failure(err, r.prefix))
}

// Size returns how many bytes were read, and how many the objects have that were found.
func (r *reader) Size() (done, total int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.mu.done, max(r.mu.done, r.mu.total)
}

// Close disconnects. What was read and not settled is read again by the next reader.
func (r *reader) Close(context.Context) error {
	if r.current != nil {
		r.current.close()
	}
	r.store.close()
	return nil
}

// A listing goes through the keys in their order, page by page.
type listing struct {
	page  []minio.ObjectInfo // not looked at yet
	after string             // the last key of the page before
	more  bool               // there may be another page
	round uint64             // of lists
}

// next returns the next object that is not done; nil if all are.
func (r *reader) next(ctx context.Context) (*object, error) {
	l := &r.listing
	if len(l.page) == 0 && !l.more {
		l.after, l.more = "", true
		l.round++
	}
	for {
		for len(l.page) > 0 {
			info := l.page[0]
			l.page = l.page[1:]
			if info.Size == 0 && strings.HasSuffix(info.Key, "/") {
				continue // it stands for a folder
			}
			if o := r.find(&info); o != nil {
				return o, nil
			}
		}
		if !l.more {
			r.forgetOthers()
			return nil, nil
		}
		page, err := r.list(ctx)
		if err != nil {
			return nil, err
		}
		if l.page, l.more = page, len(page) == maxPage; len(page) > 0 {
			l.after = page[len(page)-1].Key
		}
	}
}

func (r *reader) list(ctx context.Context) ([]minio.ObjectInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, r.stall)
	defer cancel()
	return r.store.list(ctx, minio.ListObjectsOptions{Prefix: r.prefix, Recursive: true, MaxKeys: maxPage, StartAfter: r.listing.after}, maxPage)
}

// find returns the object to read for one that was listed; nil if that was read, or is under way.
func (r *reader) find(info *minio.ObjectInfo) *object {
	etag := etagOf(info)
	r.mu.Lock()
	defer r.mu.Unlock()
	o := r.mu.known[info.Key]
	if o != nil {
		o.round = r.listing.round
		if o.etag == etag && (o.done || o.lane > 0) {
			return nil
		}
	}
	if o == nil || o.etag != etag {
		o = &object{key: info.Key, etag: etag, round: r.listing.round, start: position{line: 1}}
		r.mu.known[info.Key] = o
	}
	r.mu.lanes++
	o.lane, o.size, o.modified = r.mu.lanes, info.Size, info.LastModified
	o.end, o.settled = o.start, o.start
	r.mu.total += info.Size
	return o
}

// forgetOthers forgets the objects that the last list did not have.
func (r *reader) forgetOthers() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, o := range r.mu.known {
		if o.round != r.listing.round && (o.done || o.lane == 0) {
			delete(r.mu.known, key)
			r.mu.changed[key] = true
		}
	}
}
