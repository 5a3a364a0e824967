package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The layout of the files; the package comment has it in words.
const (
	version = 1

	segmentMagic  = "spoolseg"
	segmentHeader = 32

	recordMagic  = 0x4C4F5053 // "SPOL" on disk
	recordHeader = 36

	// maxPayload keeps lengths within an int32, also on 32-bit systems.
	maxPayload = math.MaxInt32 - recordHeader
)

var (
	le         = binary.LittleEndian
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// checksum is CRC32C, which processors compute.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// Kind tells what a record holds.
type Kind uint8

const (
	// Data is a record with events of one lane.
	Data Kind = 1
	// Batch is a record with the composition of a batch about to be sent. It is
	// opaque to the spool.
	Batch Kind = 2
)

// String returns "data", "batch" or the number.
func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Batch:
		return "batch"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Record is what Append writes and recovery gives back.
type Record struct {
	Kind  Kind
	Lane  uint16
	Epoch uint64 // of the writer; see Spool.Epoch
	// Seq is the number of the first event within its lane and epoch, given by
	// the caller: the next record of both has Seq+Count. Recovery tells by it how
	// many events a damaged place held; records left out on purpose are no gap.
	Seq   uint64
	Count uint32 // events within, 0 for Batch
	// Payload is borrowed: valid during the call of Append, or until the next
	// step of the iteration.
	Payload []byte
}

// Size is the room that the record takes on disk, in bytes.
func (r Record) Size() int64 { return recordHeader + int64(len(r.Payload)) }

// A Position names a record on disk, for Read, Durable and Ack. It is
// comparable, and valid until the record is acknowledged or the spool closed.
// The zero Position names nothing.
type Position struct {
	segment uint64
	offset  int64
	length  uint32 // of header and payload
	count   uint32 // events
}

// IsZero reports whether the position names nothing.
func (p Position) IsZero() bool { return p == Position{} }

// String returns segment and offset, for logs.
func (p Position) String() string { return fmt.Sprintf("%016x+%d", p.segment, p.offset) }

func (p Position) end() int64 { return p.offset + int64(p.length) }

// Count is the number of events in the record.
func (p Position) Count() int { return int(p.count) }

// Size is the room that the record takes on disk, in bytes.
func (p Position) Size() int64 { return int64(p.length) }

// appendRecord appends the record as it stands on disk.
func appendRecord(dst []byte, r Record) []byte {
	start := len(dst)
	dst = le.AppendUint32(dst, recordMagic)
	dst = le.AppendUint32(dst, uint32(len(r.Payload)))
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint16(dst, uint16(r.Kind))
	dst = le.AppendUint16(dst, r.Lane)
	dst = le.AppendUint64(dst, r.Epoch)
	dst = le.AppendUint64(dst, r.Seq)
	dst = le.AppendUint32(dst, r.Count)
	dst = append(dst, r.Payload...)
	le.PutUint32(dst[start+8:], checksum(dst[start+12:]))
	return dst
}

// recordLength returns the length of the record whose header b begins with, or
// false if b does not begin with one.
func recordLength(b []byte) (int64, bool) {
	if len(b) < recordHeader || le.Uint32(b) != recordMagic {
		return 0, false
	}
	n := le.Uint32(b[4:])
	return recordHeader + int64(n), n <= maxPayload
}

// parseRecord reads the record that b consists of. The payload is part of b.
func parseRecord(b []byte) (Record, bool) {
	n, ok := recordLength(b)
	if !ok || n != int64(len(b)) || checksum(b[12:]) != le.Uint32(b[8:]) {
		return Record{}, false
	}
	return headerFields(b), true
}

func headerFields(b []byte) Record {
	return Record{
		Kind:    Kind(b[12]), // b[13] holds flags, of which there are none yet
		Lane:    le.Uint16(b[14:]),
		Epoch:   le.Uint64(b[16:]),
		Seq:     le.Uint64(b[24:]),
		Count:   le.Uint32(b[32:]),
		Payload: b[recordHeader:],
	}
}

// appendSegmentHeader appends the first bytes of a segment.
func appendSegmentHeader(dst []byte, number, epoch uint64) []byte {
	start := len(dst)
	dst = append(dst, segmentMagic...)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, version)
	dst = le.AppendUint64(dst, number)
	dst = le.AppendUint64(dst, epoch)
	le.PutUint32(dst[start+8:], checksum(dst[start+12:]))
	return dst
}

// parseSegmentHeader reads the first bytes of a segment. Other versions have the
// same header, whatever follows it.
func parseSegmentHeader(b []byte) (ver uint32, number, epoch uint64, ok bool) {
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic ||
		checksum(b[12:segmentHeader]) != le.Uint32(b[8:]) {
		return 0, 0, 0, false
	}
	return le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint64(b[24:]), true
}
