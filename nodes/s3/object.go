package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/uniflow-labs/uniflow/format"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/input"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A position is a place in an object, after unpacking; of a table, in rows.
type position struct{ offset, line int64 }

// An object is one that is read, or was: a lane of the source. Another ETag is another object. The
// goroutine that calls Read owns it, except for what the reader guards.
type object struct {
	key, etag string // immutable
	size      int64
	modified  time.Time
	start     position // where reading goes on

	body   *body // nil unless it is open
	input  input.Input
	reader *format.Reader
	table  *format.ParquetReader // instead of reader
	cancel context.CancelFunc

	// Guarded by the reader.
	lane    int32    // 0 before it is read
	round   uint64   // of the last list that had it
	end     position // of what was read
	settled position
	done    bool // nothing more is read
	failed  bool // what it has cannot be read
	away    bool // dealt with as the field settled says
}

// etagOf returns the ETag of an object, or what stands for it with a service that has none.
func etagOf(info *minio.ObjectInfo) string {
	return cmp.Or(info.ETag, fmt.Sprintf("%s%d-%d", noETag, info.LastModified.Unix(), info.Size))
}

const noETag = "no-etag-"

// condition returns the ETag that a request is for; "" for any, if the service has none.
func condition(etag string) string {
	if strings.HasPrefix(etag, noETag) {
		return ""
	}
	return etag
}

// A token is what a message knows of its place.
type token struct {
	input.Found
	object *object
	end    position
}

// finished reports whether nothing more is read.
func (o *object) finished() bool { return o.done } // only this goroutine sets it

// read returns records as far as there is room; none at the end. The error is one of the connection.
func (o *object) read(ctx context.Context, r *reader, room stream.Room) (messages []stream.Message, err error) {
	if r.input.Options.Name == input.Object {
		return r.whole(o), nil
	}
	if o.body == nil {
		o.open(r)
	}
	stop := context.AfterFunc(ctx, o.cancel)
	defer stop()
	if o.reader == nil && o.table == nil {
		err = o.begin()
	}
	switch {
	case err != nil:
	case o.table != nil:
		next, _ := o.table.Rows()
		var rows []value.Value
		if rows, err = o.table.Read(min(max(1, room.Messages), maxRows)); len(rows) > 0 {
			return r.rows(o, next, rows), nil
		}
	default:
		r.records, err = o.reader.Read(r.records[:0], max(1, room.Messages), max(1, room.Bytes))
		if len(r.records) > 0 {
			return r.messages(o), nil
		}
	}
	if err == io.EOF && o.body.err == nil {
		return nil, r.finish(ctx, o)
	}
	if o.body.err != nil { // what unpacks and decodes may hide it
		err = o.body.err
	}
	o.close()
	return r.broken(ctx, o, err)
}

// maxRows is how many rows of a table are read together: they are not bounded by bytes.
const maxRows = 256

// open prepares reading from where it was left.
func (o *object) open(r *reader) {
	var ctx context.Context
	ctx, o.cancel = context.WithCancel(context.Background())
	o.input = r.input.Of(o.key)
	o.body = &body{store: r.store, key: o.key, etag: o.etag, size: o.size, stall: r.stall, ctx: ctx}
}

// begin makes what finds records.
func (o *object) begin() error {
	if o.input.Table() {
		if o.input.Packing != "" {
			return errors.New("a table cannot be in a compressed object")
		}
		blocks := &blocks{body: o.body, kept: make(map[int64][]byte)}
		var err error
		o.table, err = format.NewParquetReader(blocks, o.size, o.start.offset)
		return err
	}
	options := o.input.Options
	if o.start.offset > 0 && options.Name == format.CSV && options.Columns == nil {
		var err error
		if options, err = o.input.Header(o.body); err != nil {
			return err
		}
		o.body.seek(0)
	}
	if o.input.Packing == "" {
		o.body.seek(o.start.offset)
	}
	src, err := o.input.Unpack(o.body, o.start.offset)
	if err != nil {
		return err
	}
	o.reader = format.NewReader(src, options, o.start.offset, o.start.line)
	o.reader.End()
	return nil
}

// close gives up what is open. Reading may go on from where it ended.
func (o *object) close() {
	if o.body == nil {
		return
	}
	o.cancel()
	o.body.close()
	if o.table != nil {
		_ = o.table.Close() // it holds memory alone
	}
	o.body, o.reader, o.table = nil, nil, nil
	o.start = o.end
}

// finish ends an object that was read to its end.
func (r *reader) finish(ctx context.Context, o *object) error {
	o.close()
	r.mu.Lock()
	o.done = true
	r.mu.changed[o.key] = true
	whole := r.wholeLocked(nil, o)
	r.mu.Unlock()
	if err := r.putAway(ctx, whole); err != nil {
		r.log.Error("an object without records stays", "key", o.key, "error", err)
	}
	return nil
}

// broken deals with an object that could not be read on. What it has is the fault of the object: a
// message with the reason, at the place where the reading stopped.
func (r *reader) broken(ctx context.Context, o *object, err error) ([]stream.Message, error) {
	var broken *brokenError
	var failure *node.Error
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &broken):
		return nil, err
	case isGone(err) || isReplaced(err):
		r.log.Warn("an object is not there any more as it was listed", "key", o.key, "etag", o.etag, "line", o.end.line)
		r.drop(o)
		return nil, nil
	}
	if _, answered := answerOf(err); answered {
		if err = r.store.failure(err, o.key); errors.As(err, &failure) && failure.Outage {
			return nil, err
		}
	}
	r.log.Warn("an object cannot be read", "key", o.key, "error", err)
	at := o.end
	o.start = position{at.offset + 1, at.line}
	r.mu.Lock()
	o.end, o.done, o.failed = o.start, true, true
	r.mu.Unlock()
	return []stream.Message{{Raw: []byte{}, Key: o.key, Time: o.modified, Lane: o.lane, Offset: at.offset, Token: &token{Found: input.Found{Err: err, Line: max(1, at.line)}, object: o, end: o.start}}}, nil
}

// drop forgets an object that is not there.
func (r *reader) drop(o *object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	o.done = true
	if r.mu.known[o.key] == o {
		delete(r.mu.known, o.key)
		r.mu.changed[o.key] = true
	}
}
