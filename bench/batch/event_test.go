package batch_test

import "strconv"

// An event is what is shipped: 32 bytes without a pointer, so that no design
// pays for the garbage collector's interest in it.
type event struct {
	Seq   uint64 // counts from 0 in a run
	Time  int64  // when it came to be, or should have: Unix nanoseconds
	User  uint64
	Value uint64
}

// jsonSize is the size of an event of the protocol in bytes, as JSON.
const jsonSize = 150

// filler is what JSON events are filled up with.
const filler = "The quick brown fox jumps over the lazy dog while the five boxing wizards jump quickly; pack my box with five dozen liquor jugs. "

// appendJSON appends the event as a JSON object of size bytes, or of as many as
// it takes if that is more.
func appendJSON(dst []byte, e *event, size int) []byte {
	start := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"time":`...)
	dst = strconv.AppendInt(dst, e.Time, 10)
	dst = append(dst, `,"user":`...)
	dst = strconv.AppendUint(dst, e.User, 10)
	dst = append(dst, `,"value":`...)
	dst = strconv.AppendUint(dst, e.Value, 10)
	dst = append(dst, `,"payload":"`...)
	for left := size - (len(dst) - start) - len(`"}`); left > 0; {
		n := min(left, len(filler))
		dst = append(dst, filler[:n]...)
		left -= n
	}
	return append(dst, `"}`...)
}

// appendFlat appends the event as 32 bytes, little endian: the cheapest there is.
func appendFlat(dst []byte, e *event) []byte {
	for _, n := range [...]uint64{e.Seq, uint64(e.Time), e.User, e.Value} {
		dst = append(dst, byte(n), byte(n>>8), byte(n>>16), byte(n>>24), byte(n>>32), byte(n>>40), byte(n>>48), byte(n>>56))
	}
	return dst
}

// appendArray appends the events as a JSON array.
func appendArray(dst []byte, events []event, size int) []byte {
	dst = append(dst, '[')
	for i := range events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendJSON(dst, &events[i], size)
	}
	return append(dst, ']')
}
