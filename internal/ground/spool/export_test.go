package spool

// SegmentHeader is a segment's header of any version.
func SegmentHeader(ver uint32, number, epoch uint64) []byte {
	b := appendSegmentHeader(nil, number, epoch)
	le.PutUint32(b[12:], ver)
	le.PutUint32(b[8:], checksum(b[12:]))
	return b
}
