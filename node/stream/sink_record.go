package stream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A format says how a body becomes bytes.
type format uint8

const (
	formatNone format = iota // values are not encoded
	formatJSON
	formatText
	formatRaw
)

var formats = map[string]format{"json": formatJSON, "text": formatText, "raw": formatRaw}

// append encodes a body.
func (f format) append(dst []byte, body value.Value) ([]byte, error) {
	switch f {
	case formatJSON:
		return body.AppendJSON(dst)
	case formatText:
		return append(dst, body.String()...), nil
	case formatRaw:
		if b, ok := body.AsBinary(); ok {
			return append(dst, b...), nil
		}
		text, ok := body.AsString()
		if !ok {
			return dst, fmt.Errorf("body: must be text or binary, got %s; encode: json takes any value", body.Kind())
		}
		return append(dst, text...), nil
	}
	return dst, nil
}

// scratch has buffers to encode into, so that each record gets bytes of its size.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// maxSpaceBytes is how much memory records that are gathered share, at most: eight of a size. A
// record that is kept keeps it.
const maxSpaceBytes = 4 << 10

// maxScratch is the largest buffer that is kept.
const maxScratch = 64 << 10

// encode encodes the body of a record: into what is left of space, which makes room for others
// after it, or into memory of its own without space.
func (f format) encode(r *Record, space *[]byte) (err error) {
	buf := scratch.Get().(*[]byte)
	if *buf, err = f.append((*buf)[:0], r.Body); err == nil {
		n := len(*buf)
		switch {
		case space == nil:
			r.Raw = append(make([]byte, 0, n), *buf...)
		case n > len(*space):
			*space = make([]byte, max(n, min(8*n, maxSpaceBytes)))
			fallthrough
		default:
			r.Raw = (*space)[:n:n]
			*space = (*space)[copy(r.Raw, *buf):]
		}
	}
	if cap(*buf) <= maxScratch {
		scratch.Put(buf)
	}
	return err
}

// records makes the records of a payload. The error contains the error of each record that could
// not be made.
func (n *sinkNode) records(ctx context.Context, d *delivery, payload value.Value) error {
	if payload.Kind() != value.KindList {
		d.records, d.count = d.one[:1], 1
		if err := n.record(ctx, &d.records[0], d.texts[:0], nil, payload); err != nil {
			return undelivered(encodeError(err), payload)
		}
		d.size = size(&d.records[0])
		return nil
	}
	d.list, d.count = true, payload.Len()
	if n.sink.Bodies {
		var ok bool
		if d.bodies, ok = n.bodies(payload); ok {
			d.size = d.bodies.Size()
			if err := d.packBodies(); err != nil {
				return undelivered(err, payload)
			}
			return nil
		}
	}
	d.records = slices.Grow(d.space[:0], payload.Len())[:payload.Len()]
	var errs []error
	for i, item := range payload.Elems() {
		if err := n.record(ctx, &d.records[i], nil, nil, item); err != nil {
			errs = append(errs, undeliveredAt(i, encodeError(err), item))
		}
		d.size += size(&d.records[i])
	}
	return errors.Join(errs...)
}

// packBodies packs the bodies, if the writer does that.
func (d *delivery) packBodies() error {
	p := d.outlet.packer
	if p == nil || d.receipt {
		return nil
	}
	return guard(d.outlet.log, "Pack", func() error {
		d.pack = p.Pack(d.bodies)
		return nil
	})
}

// bodyOf returns the body of a message of a source, or of what has no field body. It is not ok
// for what may be a record, whose other fields have to be checked.
func bodyOf(payload value.Value) (body value.Value, ok bool) {
	body, has := payload.Get("body")
	switch message := isMessage(payload); {
	case !has && !message:
		return payload, true
	case !message:
		return value.Value{}, false
	}
	return body, true
}

// bodies returns the bodies of a list of messages of sources, or of what has no field body. It
// is not ok if another element may be a record, whose other fields have to be checked.
func (n *sinkNode) bodies(list value.Value) (bodies value.Value, ok bool) {
	var made []value.Value
	for i, item := range list.Elems() {
		body, ok := bodyOf(item)
		switch {
		case !ok:
			return value.Value{}, false
		case made == nil && isMessage(item):
			made = make([]value.Value, 0, list.Len())
			for before := range i {
				made = append(made, list.At(before))
			}
		}
		if made != nil {
			made = append(made, body)
		}
	}
	if made == nil {
		return list, true
	}
	return value.List(made...), true
}

// encodeError is the error of a message that is not one.
func encodeError(err error) error {
	return node.Unusable("encode", err)
}

// record makes the record of one message. texts is where its texts may be kept, and space where
// its bytes may be: see [format.encode].
func (n *sinkNode) record(ctx context.Context, r *Record, texts []string, space *[]byte, payload value.Value) (err error) {
	r.Body = payload
	if message := isMessage(payload); message || n.isRecord(payload) {
		if !message {
			r.Fields = payload
		}
		if err := r.take(payload); err != nil {
			return err
		}
	}
	if r.Texts = n.fixed; r.Texts == nil {
		for i := range n.texts {
			text, err := n.texts[i].Text(ctx, payload)
			if err != nil {
				return fmt.Errorf("%s: %w", n.sink.Texts[i], err)
			}
			texts = append(texts, text)
		}
		r.Texts = texts
	}
	if n.format != formatNone {
		return n.format.encode(r, space)
	}
	return nil
}

// isMessage reports whether a payload is a message of a source, as the source made it.
func isMessage(payload value.Value) bool {
	source, ok := value.FieldSourceOf(payload)
	if !ok {
		return false
	}
	_, ok = source.(interface{ streamMessage() })
	return ok
}

// isRecord reports whether a payload has a body, and no fields that would be lost.
func (n *sinkNode) isRecord(payload value.Value) bool {
	if _, has := payload.Get("body"); !has {
		return false
	}
	for name := range payload.Fields() {
		switch name {
		case "body", "key", "header", "time", "id":
		default:
			if !slices.Contains(n.sink.Keys, name) {
				return false
			}
		}
	}
	return true
}

// take fills in the fields of a message.
func (r *Record) take(payload value.Value) (err error) {
	r.Body, _ = payload.Get("body")
	if key, _ := payload.Get("key"); !key.IsNull() {
		r.Key, r.HasKey = text(key), true
	}
	if id, _ := payload.Get("id"); !id.IsNull() {
		r.ID = text(id)
	}
	if at, _ := payload.Get("time"); !at.IsNull() {
		var ok bool
		if r.Time, ok = at.AsTime(); !ok {
			s, _ := at.AsString()
			if r.Time, err = time.Parse(time.RFC3339Nano, s); err != nil {
				return fmt.Errorf("time: must be a time, or a text as in RFC 3339, got %s", at.Kind())
			}
		}
	}
	header, _ := payload.Get("header")
	r.Header, err = headerOf(header)
	return err
}

// text returns a key or an id, whose bytes count if it is binary.
func text(v value.Value) string {
	if b, ok := v.AsBinary(); ok {
		return string(b)
	}
	return v.String()
}

// headerOf returns a header of texts and lists of texts.
func headerOf(header value.Value) (value.Value, error) {
	switch header.Kind() {
	case value.KindNull:
		return header, nil
	case value.KindMap:
	default:
		return header, fmt.Errorf("header: must be a map, got %s", header.Kind())
	}
	made := header
	for name, v := range header.Fields() {
		switch v.Kind() {
		case value.KindString:
		case value.KindList:
			texts := make([]value.Value, 0, v.Len())
			for _, e := range v.Elems() {
				if e.Kind() == value.KindList || e.Kind() == value.KindMap {
					return header, fmt.Errorf("header.%s: must be text, or a list of texts", name)
				}
				texts = append(texts, value.String(e.String()))
			}
			made = made.With(name, value.List(texts...))
		case value.KindMap, value.KindError:
			return header, fmt.Errorf("header.%s: must be text, or a list of texts, got %s", name, v.Kind())
		case value.KindNull:
			made = made.Without(name)
		default:
			made = made.With(name, value.String(v.String()))
		}
	}
	return made, nil
}

// undelivered returns the error of a message, with the message.
func undelivered(err error, payload value.Value) *node.Error {
	e := *node.Describe(err)
	e.Data = payload
	return &e
}

// undeliveredAt is undelivered for a message of a list.
func undeliveredAt(i int, err error, payload value.Value) error {
	e := undelivered(err, payload)
	e.Err = fmt.Errorf("message %d: %w", i, e.Err)
	return e
}
