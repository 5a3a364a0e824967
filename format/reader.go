package format

import (
	"io"

	"github.com/uniflow-labs/uniflow/internal/records"
)

// A Record is one record of a sequence, as it was found.
type Record = records.Record

// A HeaderError says why the first record of CSV does not name the columns. Nothing can be
// read then.
type HeaderError = records.HeaderError

// A Reader splits a stream of bytes into records. It is not for concurrent use.
type Reader struct {
	in      *records.Reader
	o       Options
	decoder *Decoder // nil until the columns are known
}

// NewReader returns a reader of src, which stands at an offset and line of the whole:
// 0 and 1 at its beginning. Elsewhere, CSV needs Options.Columns: see [Reader.Columns].
func NewReader(src io.Reader, o Options, offset, line int64) *Reader {
	o = o.withDefaults()
	framing := map[string]records.Framing{NDJSON: records.JSON, CSV: records.CSV, JSON: records.Whole, Raw: records.Whole}[o.Name]
	in := records.New(src, records.Options{Framing: framing, Delimiter: o.Delimiter, MaxRecord: o.MaxRecord, Mark: o.Name == Raw}, offset, line)
	r := &Reader{in: in, o: o}
	if o.Name != CSV || o.Columns != nil {
		r.decoder = newDecoder(o)
	}
	return r
}

// Decoder returns what makes values of the records that were read; nil before the names
// of the columns are known.
func (r *Reader) Decoder() *Decoder { return r.decoder }

// Columns returns the names of the columns of CSV, nil before they are known.
func (r *Reader) Columns() []string { return r.o.Columns }

// Return gives the records of earlier calls back: their memory is used again.
func (r *Reader) Return() { r.in.Return() }

// Offset returns where the bytes begin that were read and not returned.
func (r *Reader) Offset() (offset, line int64) { return r.in.Offset() }

// End says that no more bytes come than src has now: what is left without a line end is a
// record.
func (r *Reader) End() { r.in.End() }

// Rest returns what was read of a record whose end will not come, without reading.
func (r *Reader) Rest() (rec Record, ok bool) { return r.in.Rest() }

// Fill reads once from src, for [Reader.Buffered]. The error is io.EOF if there is nothing
// now.
func (r *Reader) Fill() error { return r.in.Fill() }

// Read appends records to dst until it has limit records, or room bytes, or src is empty;
// the last one may exceed room. Once it has records, it returns instead of reading from
// src again. The error is io.EOF if src was at its end and there are no records: Read may
// be called again when src has more, or after [Reader.End]. After another error, of src
// or a *HeaderError, the reader is unusable.
func (r *Reader) Read(dst []Record, limit int, room int64) ([]Record, error) {
	n := len(dst)
	for limit > 0 && room > 0 {
		var err error
		if dst, err = r.take(dst, limit, room); err != nil || len(dst) > n {
			return dst, err
		}
		if err := r.in.More(); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// Buffered is [Reader.Read] of what was read before: it does not read, and returns none if
// it would have to.
func (r *Reader) Buffered(limit int, room int64) (records []Record, err error) {
	return r.take(nil, limit, room)
}

func (r *Reader) take(dst []Record, limit int, room int64) ([]Record, error) {
	for limit > 0 && room > 0 {
		rec, ok := r.in.Next()
		if !ok {
			break
		}
		if r.decoder == nil {
			names, err := records.Header(rec, r.o.Delimiter)
			if err != nil {
				return dst, err
			}
			r.o.Columns = names
			r.decoder = newDecoder(r.o)
			continue
		}
		dst = append(dst, rec)
		limit--
		room -= int64(len(rec.Raw))
	}
	return dst, nil
}
