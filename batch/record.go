package batch

import (
	"cmp"
	"encoding/binary"
	"errors"
)

// The payload of a record, little endian.
//
// Kind Data has some events of one chunk:
//
//	0   version, 1; 2 where lanes go by key
//	1   format of the events
//	2   lane
//	4   number of lanes of the processor
//	6   with version 2, fingerprint of Lanes.Key: 4 bytes; 0 if it has none
//	    end of each event, from the start of the first: 4 bytes each
//	    the events, with their separators
//
// Kind Batch has the chunks of a batch that is about to be sent:
//
//	0   version, 1
//	1   length of the key
//	2   the key
//	    for each chunk: shard, 2 bytes; epoch, 8; ordinal of its first event, 8;
//	    number of events, 4
const (
	recordVersion = 1
	keyedVersion  = 2
	dataHeader    = 6
	keyedHeader   = 10
	spanBytes     = 22
)

var errRecord = errors.New("record is not one of this program")

// A placement is the lane for which the events of a record were accepted.
type placement struct {
	lane, lanes    int
	byKey          bool
	keyFingerprint uint32 // of Lanes.Key; 0 if it has none
}

// appendData appends the payload of a record of some events of e, [from, to).
func appendData(dst []byte, f Format, at placement, e events, from, to int) []byte {
	le := binary.LittleEndian
	version := byte(recordVersion)
	if at.byKey {
		version = keyedVersion
	}
	dst = append(dst, version, byte(f))
	dst = le.AppendUint16(dst, uint16(at.lane))
	dst = le.AppendUint16(dst, uint16(at.lanes))
	if at.byKey {
		dst = le.AppendUint32(dst, at.keyFingerprint)
	}
	start := e.start(from)
	for _, end := range e.ends[from:to] {
		dst = le.AppendUint32(dst, end-uint32(start))
	}
	return append(dst, e.buf[start:e.ends[to-1]]...)
}

// data is the payload of a record, read.
type data struct {
	placement
	format Format
	ends   []byte // 4 bytes each
	events []byte
}

// parseData reads a payload with count events. It checks everything on which the
// other methods rely.
func parseData(b []byte, count int) (data, error) {
	le := binary.LittleEndian
	header := dataHeader
	if len(b) > 0 && b[0] == keyedVersion {
		header = keyedHeader
	}
	if len(b) < header || b[0] != recordVersion && b[0] != keyedVersion || Format(b[1]) > FormatRaw || count < 1 || (len(b)-header)/4 < count {
		return data{}, errRecord
	}
	d := data{
		placement: placement{lane: int(le.Uint16(b[2:])), lanes: int(le.Uint16(b[4:]))},
		format:    Format(b[1]),
		ends:      b[header : header+4*count], events: b[header+4*count:],
	}
	if b[0] == keyedVersion {
		d.byKey, d.keyFingerprint = true, le.Uint32(b[dataHeader:])
	}
	if d.lanes == 0 || d.lane >= d.lanes {
		return data{}, errRecord
	}
	last := uint32(0)
	for i := range count {
		end := d.end(i)
		if end < last+uint32(d.format.separators()) || end == last {
			return data{}, errRecord
		}
		last = end
	}
	if int64(last) != int64(len(d.events)) {
		return data{}, errRecord
	}
	return d, nil
}

func (d data) end(i int) uint32 { return binary.LittleEndian.Uint32(d.ends[4*i:]) }

// event returns event i without its separator.
func (d data) event(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = d.end(i - 1)
	}
	return d.events[start : d.end(i)-uint32(d.format.separators())]
}

// A span identifies the events of one chunk of a batch on disk.
type span struct {
	shard  uint16
	epoch  uint64
	base   uint64
	events int
}

// end returns the ordinal of the event after the last one.
func (s span) end() uint64 { return s.base + uint64(s.events) }

func (s span) compare(o span) int {
	return cmp.Or(cmp.Compare(s.epoch, o.epoch), cmp.Compare(s.shard, o.shard), cmp.Compare(s.base, o.base))
}

func appendNote(dst []byte, key string, spans []span) []byte {
	le := binary.LittleEndian
	dst = append(dst, recordVersion, byte(len(key)))
	dst = append(dst, key...)
	for _, s := range spans {
		dst = le.AppendUint16(dst, s.shard)
		dst = le.AppendUint64(dst, s.epoch)
		dst = le.AppendUint64(dst, s.base)
		dst = le.AppendUint32(dst, uint32(s.events))
	}
	return dst
}

// spans returns the spans of chunks, for a note.
func spans(chunks []*chunk) []span {
	all := make([]span, len(chunks))
	for i, c := range chunks {
		all[i] = span{c.shard, c.epoch, c.base, c.n}
	}
	return all
}

func parseNote(b []byte) (key string, spans []span, err error) {
	le := binary.LittleEndian
	if len(b) < 2 || b[0] != recordVersion || len(b) < 2+int(b[1]) {
		return "", nil, errRecord
	}
	key, b = string(b[2:2+b[1]]), b[2+int(b[1]):]
	if key == "" || len(b) == 0 || len(b)%spanBytes != 0 {
		return "", nil, errRecord
	}
	for ; len(b) > 0; b = b[spanBytes:] {
		spans = append(spans, span{le.Uint16(b), le.Uint64(b[2:]), le.Uint64(b[10:]), int(le.Uint32(b[18:]))})
	}
	return key, spans, nil
}
