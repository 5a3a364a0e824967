package s3

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/tags"

	"github.com/uniflow-labs/uniflow/node/stream"
)

// Settle deals with objects that are settled as a whole.
func (r *reader) Settle(ctx context.Context, settled stream.Settled) error {
	var whole []*object
	r.mu.Lock()
	for _, m := range settled.Marks {
		tok := m.Token.(*token)
		tok.object.settled = tok.end
		whole = r.wholeLocked(whole, tok.object)
	}
	r.mu.Unlock()
	return r.putAway(ctx, whole)
}

// wholeLocked appends an object if all its records are settled. It is to be dealt with now, as the
// field settled says.
func (r *reader) wholeLocked(whole []*object, o *object) []*object {
	if !o.done || o.away || o.settled.offset < o.end.offset || r.mu.known[o.key] != o {
		return whole
	}
	o.away = true
	r.mu.free = append(r.mu.free, o.lane)
	if o.failed || r.settled == "keep" {
		return whole
	}
	return append(whole, o)
}

// putAway deletes, moves or tags objects that are still as they were read.
func (r *reader) putAway(ctx context.Context, whole []*object) error {
	var errs []error
	for _, o := range whole {
		err := r.putOneAway(ctx, o)
		r.mu.Lock()
		switch {
		case err != nil && !isGone(err) && !isReplaced(err):
			errs = append(errs, fmt.Errorf("%s a settled object: %w", r.settled, r.store.failure(err, o.key)))
			o.away = false
		case r.settled != "tag" && r.mu.known[o.key] == o: // another one may get the key
			delete(r.mu.known, o.key)
			r.mu.changed[o.key] = true
		}
		r.mu.Unlock()
	}
	return errors.Join(errs...)
}

// putOneAway asks for the ETag first: the service deletes and tags by the key alone. An object
// that replaces it in the moment after that is deleted or tagged.
func (r *reader) putOneAway(ctx context.Context, o *object) error {
	info, err := r.store.api.StatObject(ctx, r.store.bucket, o.key, minio.StatObjectOptions{})
	if err != nil {
		return err
	}
	if etagOf(&info) != o.etag {
		return minio.ErrorResponse{Code: minio.PreconditionFailed}
	}
	switch r.settled {
	case "tag":
		all, err := r.store.api.GetObjectTagging(ctx, r.store.bucket, o.key, minio.GetObjectTaggingOptions{})
		if codeOf(err) == minio.NoSuchTagSet {
			all, err = tags.NewTags(nil, true)
		}
		if err == nil {
			err = all.Set(r.tag[0], r.tag[1])
		}
		if err != nil {
			return err
		}
		return r.store.api.PutObjectTagging(ctx, r.store.bucket, o.key, all, minio.PutObjectTaggingOptions{})
	case "move":
		to := minio.CopyDestOptions{Bucket: r.store.bucket, Object: r.moveTo + strings.TrimPrefix(o.key, r.prefix)}
		from := minio.CopySrcOptions{Bucket: r.store.bucket, Object: o.key, MatchETag: condition(o.etag)}
		if _, err := r.store.api.ComposeObject(ctx, to, from); err != nil { // in parts, if it is large
			return err
		}
	}
	return r.store.api.RemoveObject(ctx, r.store.bucket, o.key, minio.RemoveObjectOptions{})
}

// positionAt returns what is kept of an object.
func (o *object) positionAt(at position) string {
	if o.done && at.offset >= o.end.offset {
		return o.etag + " done"
	}
	return fmt.Sprintf("%s %d %d", o.etag, at.offset, at.line)
}

// Position implements [stream.Resumer].
func (r *reader) Position(m stream.Mark) (key, kept string) {
	tok := m.Token.(*token)
	r.mu.Lock()
	defer r.mu.Unlock()
	if tok.object != r.mu.known[tok.object.key] {
		return tok.object.key, r.keptLocked(tok.object.key)
	}
	return tok.object.key, tok.object.positionAt(tok.end)
}

func (r *reader) keptLocked(key string) string {
	if o := r.mu.known[key]; o != nil && (o.done || o.settled.offset > 0) {
		return o.positionAt(o.settled)
	}
	return ""
}

// Moved returns the positions that have changed without a mark: of objects that are gone, and of
// those whose end was found after their last record was settled.
func (r *reader) Moved() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	moved := make(map[string]string, len(r.mu.changed))
	for key := range r.mu.changed {
		moved[key] = r.keptLocked(key)
	}
	clear(r.mu.changed)
	return moved
}

// Resume implements [stream.Resumer].
func (r *reader) Resume(positions map[string]string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for key, kept := range positions {
		o := &object{key: key}
		words := strings.Fields(kept)
		ok := len(words) == 2 && words[1] == "done"
		if ok {
			o.etag, o.done, o.away = words[0], true, true
		} else if len(words) == 3 {
			var err1, err2 error
			o.etag = words[0]
			o.start.offset, err1 = strconv.ParseInt(words[1], 10, 64)
			o.start.line, err2 = strconv.ParseInt(words[2], 10, 64)
			ok = errors.Join(err1, err2) == nil && o.start.offset >= 0 && o.start.line > 0
		}
		if !ok {
			return fmt.Errorf("position %q of %q: it is not one of an object", kept, key)
		}
		r.mu.known[key] = o
	}
	return nil
}
