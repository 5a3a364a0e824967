package batch

import (
	"encoding/binary"
	"errors"
)

// What a spool's record holds, little endian.
//
// Of kind Data, some events of one chunk:
//
//	0   version, 1
//	1   format of the events
//	2   lane
//	4   number of lanes of the processor
//	6   end of each event, from the start of the first: 4 bytes each
//	    the events, with their separators
//
// Of kind Batch, the chunks of a batch that is about to be sent:
//
//	0   version, 1
//	1   length of the key
//	2   the key
//	    for each chunk: shard, 2 bytes; epoch, 8; ordinal of its first event, 8;
//	    number of events, 4
const (
	recordVersion = 1
	dataHeader    = 6
	spanBytes     = 22
)

var errRecord = errors.New("record is not one of ours")

// appendData appends the payload of a record of some events of e, [from, to).
func appendData(dst []byte, f Format, lane, lanes int, e events, from, to int) []byte {
	le := binary.LittleEndian
	dst = append(dst, recordVersion, byte(f))
	dst = le.AppendUint16(dst, uint16(lane))
	dst = le.AppendUint16(dst, uint16(lanes))
	start := e.start(from)
	for _, end := range e.ends[from:to] {
		dst = le.AppendUint32(dst, end-uint32(start))
	}
	return append(dst, e.buf[start:e.ends[to-1]]...)
}

// data is the payload of a record, read.
type data struct {
	format      Format
	lane, lanes int
	ends        []byte // 4 bytes each
	events      []byte
}

// parseData reads a payload with count events. It checks everything that the
// other methods rely on.
func parseData(b []byte, count int) (data, error) {
	le := binary.LittleEndian
	if len(b) < dataHeader || b[0] != recordVersion || Format(b[1]) > Raw || count < 1 || (len(b)-dataHeader)/4 < count {
		return data{}, errRecord
	}
	d := data{
		format: Format(b[1]), lane: int(le.Uint16(b[2:])), lanes: int(le.Uint16(b[4:])),
		ends: b[dataHeader : dataHeader+4*count], events: b[dataHeader+4*count:],
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

// event is event i without its separator.
func (d data) event(i int) []byte {
	start := uint32(0)
	if i > 0 {
		start = d.end(i - 1)
	}
	return d.events[start : d.end(i)-uint32(d.format.separators())]
}

// A span is the events of one chunk of a batch, by what names them on disk.
type span struct {
	shard  uint16
	epoch  uint64
	base   uint64
	events int
}

func appendNote(dst []byte, key string, chunks []*chunk) []byte {
	le := binary.LittleEndian
	dst = append(dst, recordVersion, byte(len(key)))
	dst = append(dst, key...)
	for _, c := range chunks {
		dst = le.AppendUint16(dst, c.shard)
		dst = le.AppendUint64(dst, c.epoch)
		dst = le.AppendUint64(dst, c.base)
		dst = le.AppendUint32(dst, uint32(c.n))
	}
	return dst
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
