package loader

import (
	"encoding/binary"
	"errors"
)

// A group is the batches that were written together. One record of the journal
// holds one group, and so does the mark of a [Store]:
//
//	byte     version: 2
//	uvarint  events before the group
//	uvarint  batches before the group
//	uvarint  file of the position after the group
//	uvarint  offset of that position
//	uvarint  number of batches
//	for each batch
//	    uvarint  length of the key, 0 without a key
//	             key
//	    uvarint  accepted events
//	    uvarint  length of the verdicts
//	             verdicts as JSON, without the brackets
//
// A group without batches says only what came before. The journal gets one after
// an error, see [journal.repair].
type group struct {
	events, batches uint64   // before the group
	end             position // of the events of the group and of all before
	records         []record
}

// A record is what the journal remembers of a batch.
type record struct {
	key      string // empty for none
	accepted uint64 // events
	rejected []byte // verdicts as JSON, without the brackets
}

// groupVersion is the first byte of a group. Earlier versions of the loader wrote
// lines of text, which begin with a hexadecimal digit.
const groupVersion = 2

var (
	// errGroup is the error for bytes that are not a group.
	errGroup = errors.New("not a record of a loader, or one of a newer version")

	// errOldGroup is the error for a mark of an earlier version.
	errOldGroup = errors.New("a record of an earlier version of the loader")
)

// after returns the totals after the group.
func (g *group) after() totals {
	t := totals{end: g.end, events: g.events, batches: g.batches + uint64(len(g.records))}
	for i := range g.records {
		t.events += g.records[i].accepted
	}
	return t
}

func (g *group) append(dst []byte) []byte {
	dst = append(dst, groupVersion)
	for _, v := range []uint64{g.events, g.batches, g.end.File, uint64(g.end.Offset), uint64(len(g.records))} {
		dst = binary.AppendUvarint(dst, v)
	}
	for i := range g.records {
		r := &g.records[i]
		dst = binary.AppendUvarint(dst, uint64(len(r.key)))
		dst = append(dst, r.key...)
		dst = binary.AppendUvarint(dst, r.accepted)
		dst = binary.AppendUvarint(dst, uint64(len(r.rejected)))
		dst = append(dst, r.rejected...)
	}
	return dst
}

// decode reads what append wrote. The verdicts share memory with b.
func (g *group) decode(b []byte) error {
	switch {
	case len(b) > 0 && b[0] == groupVersion:
	case len(b) > crcSize && b[crcSize-1] == ' ' && b[crcSize] == '{':
		return errOldGroup
	default:
		return errGroup
	}
	d := decoder{b[1:], true}
	*g = group{events: d.number(), batches: d.number(), end: position{d.number(), int64(d.number())}, records: g.records[:0]}
	n := d.number()
	d.ok = d.ok && g.end.Offset >= 0
	for ; n > 0 && d.ok; n-- {
		g.records = append(g.records, record{key: string(d.bytes()), accepted: d.number(), rejected: d.bytes()})
	}
	if !d.ok || len(d.b) > 0 {
		return errGroup
	}
	return nil
}

// crcSize is the length of the checksum at the beginning of a line of earlier
// versions, with the space after it.
const crcSize = 9

// A decoder reads numbers and texts. After an error ok stays false.
type decoder struct {
	b  []byte
	ok bool
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.b, d.ok = nil, false
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes() []byte {
	n := d.number()
	if n > uint64(len(d.b)) {
		d.b, d.ok = nil, false
		return nil
	}
	text := d.b[:n:n]
	d.b = d.b[n:]
	return text
}
