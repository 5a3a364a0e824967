package spool

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// The layout of the files is described in the package comment.
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

// checksum is CRC32C, for which processors have an instruction.
func checksum(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }

// A Kind says what a record holds.
type Kind uint8

const (
	// Data is a record with events of one lane.
	Data Kind = 1
	// Batch is a record that says which events are in a batch. It has no events
	// itself.
	Batch Kind = 2
)

func (k Kind) String() string {
	switch k {
	case Data:
		return "data"
	case Batch:
		return "batch"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// A Record is what Append writes and Recovered returns.
type Record struct {
	Kind  Kind
	Lane  uint16
	Epoch uint64 // of the writer; see Spool.Epoch
	// Seq is the number of the first event within its lane and epoch, from the
	// caller: the next record of both has Seq+Count. Recovery uses it to count the
	// events in a damaged place. A gap without damage does not count.
	Seq   uint64
	Count uint32 // events within, 0 for Batch
	// Payload is valid during the call of Append, or until the next step of the
	// iteration.
	Payload []byte
}

// Size returns the size of the record on disk in bytes.
func (r Record) Size() int64 { return recordHeader + int64(len(r.Payload)) }

// A Position identifies a record on disk, for Read, Durable and Ack. It is comparable,
// and valid until the record is acknowledged or the spool is closed. The zero Position
// identifies no record.
type Position struct {
	segment uint64
	offset  int64
	length  uint32 // of header and payload
	count   uint32 // events
}

func (p Position) String() string { return fmt.Sprintf("%016x+%d", p.segment, p.offset) }

func (p Position) end() int64 { return p.offset + int64(p.length) }

// Count returns the number of events in the record.
func (p Position) Count() int { return int(p.count) }

// Size returns the size of the record on disk in bytes.
func (p Position) Size() int64 { return int64(p.length) }

// appendRecord appends the record in the form on disk.
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

// recordLength returns the length of the record whose header is at the start of b. It
// returns false if there is no header.
func recordLength(b []byte) (int64, bool) {
	if len(b) < recordHeader || le.Uint32(b) != recordMagic {
		return 0, false
	}
	n := le.Uint32(b[4:])
	return recordHeader + int64(n), n <= maxPayload
}

// parseRecord reads a record that is all of b. The payload is a part of b.
func parseRecord(b []byte) (Record, bool) {
	n, ok := recordLength(b)
	if !ok || n != int64(len(b)) || checksum(b[12:]) != le.Uint32(b[8:]) {
		return Record{}, false
	}
	return headerFields(b), true
}

func headerFields(b []byte) Record {
	return Record{
		Kind:    Kind(b[12]), // b[13] holds flags; there are none yet
		Lane:    le.Uint16(b[14:]),
		Epoch:   le.Uint64(b[16:]),
		Seq:     le.Uint64(b[24:]),
		Count:   le.Uint32(b[32:]),
		Payload: b[recordHeader:],
	}
}

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

// parseSegmentHeader reads the first bytes of a segment. All versions have the same
// header.
func parseSegmentHeader(b []byte) (ver uint32, number, epoch uint64, ok bool) {
	if len(b) < segmentHeader || string(b[:8]) != segmentMagic ||
		checksum(b[12:segmentHeader]) != le.Uint32(b[8:]) {
		return 0, 0, 0, false
	}
	return le.Uint32(b[12:]), le.Uint64(b[16:]), le.Uint64(b[24:]), true
}
