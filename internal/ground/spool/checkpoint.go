package spool

import (
	"cmp"
	"math"
	"slices"
)

const (
	checkpointMagic  = "spoolchk"
	checkpointHeader = 48
	segmentState     = 40
	spanState        = 16

	// slotBytes is the size of the two checkpoint files from the start, so that a
	// checkpoint needs no more space when the disk is full. 1,600 segments fit.
	slotBytes = 64 << 10

	// unknown is the count of events in a state that does not know it.
	unknown = math.MaxUint64
)

// slots are the files with checkpoints. They are written in turn: while one is being
// written, the other is valid.
var slots = [2]string{"checkpoint.a", "checkpoint.b"}

// A checkpoint says which records are acknowledged.
type checkpoint struct {
	generation uint64
	epoch      uint64
	next       uint64 // no segment has this number or a higher one
	segments   []state
}

// A state is the part of a checkpoint about one segment.
type state struct {
	number uint64
	mark   int64  // everything before is acknowledged
	synced int64  // everything before was durable
	events uint64 // before synced and not acknowledged, or unknown
	acked  []span // beyond mark, sorted
}

// appendCheckpoint appends the content of a checkpoint's file.
func appendCheckpoint(dst []byte, c checkpoint) []byte {
	start := len(dst)
	dst = append(dst, checkpointMagic...)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, version)
	dst = le.AppendUint32(dst, 0)
	dst = le.AppendUint32(dst, uint32(len(c.segments)))
	dst = le.AppendUint64(dst, c.generation)
	dst = le.AppendUint64(dst, c.epoch)
	dst = le.AppendUint64(dst, c.next)
	for _, s := range c.segments {
		dst = le.AppendUint64(dst, s.number)
		dst = le.AppendUint64(dst, uint64(s.mark))
		dst = le.AppendUint64(dst, uint64(s.synced))
		dst = le.AppendUint64(dst, s.events)
		dst = le.AppendUint64(dst, uint64(len(s.acked)))
		for _, a := range s.acked {
			dst = le.AppendUint64(dst, uint64(a.from))
			dst = le.AppendUint64(dst, uint64(a.to))
		}
	}
	le.PutUint32(dst[start+16:], uint32(len(dst)-start))
	le.PutUint32(dst[start+8:], checksum(dst[start+12:]))
	return dst
}

// parseCheckpoint reads the content of a checkpoint's file, or returns the problem with
// it.
func parseCheckpoint(b []byte) (c checkpoint, problem string) {
	if len(b) < checkpointHeader || string(b[:8]) != checkpointMagic {
		return c, "not a checkpoint"
	}
	if n := le.Uint32(b[16:]); n < checkpointHeader || int64(n) > int64(len(b)) {
		return c, "cut short"
	} else {
		b = b[:n]
	}
	if checksum(b[12:]) != le.Uint32(b[8:]) {
		return c, "wrong checksum"
	}
	if le.Uint32(b[12:]) != version {
		return c, "unknown version"
	}
	count := int(le.Uint32(b[20:]))
	c.generation, c.epoch, c.next = le.Uint64(b[24:]), le.Uint64(b[32:]), le.Uint64(b[40:])
	if c.generation >= maxCounter || c.next >= maxCounter {
		return checkpoint{}, "numbers out of range"
	}
	b = b[checkpointHeader:]
	for range count {
		if len(b) < segmentState {
			return checkpoint{}, "a segment is missing"
		}
		s := state{
			number: le.Uint64(b), mark: int64(le.Uint64(b[8:])), synced: int64(le.Uint64(b[16:])),
			events: le.Uint64(b[24:]),
		}
		spans := le.Uint64(b[32:])
		b = b[segmentState:]
		if uint64(len(b)/spanState) < spans {
			return checkpoint{}, "acknowledgements are missing"
		}
		s.acked = make([]span, spans)
		for i := range s.acked {
			s.acked[i] = span{int64(le.Uint64(b)), int64(le.Uint64(b[8:]))}
			b = b[spanState:]
		}
		if !s.sane() {
			return checkpoint{}, "positions out of order"
		}
		c.segments = append(c.segments, s)
	}
	return c, ""
}

// sane reports whether the positions are in order, on which the rest relies.
func (s state) sane() bool {
	at := s.mark
	for _, a := range s.acked {
		if a.from < at || a.to <= a.from {
			return false
		}
		at = a.to
	}
	return s.mark >= 0 && s.synced >= 0
}

// An ackSet is the acknowledged part of one segment: everything before mark, and single
// records beyond. The zero ackSet is empty.
//
// Records are acknowledged almost in order, so the map stays small. With a map, an
// acknowledgement costs the same in every order.
type ackSet struct {
	mark   int64
	beyond map[int64]int64 // ends of spans by their start
}

// add reports whether the span was new.
func (a *ackSet) add(s span) bool {
	if s.from < a.mark || s.to <= s.from {
		return false
	}
	if s.from > a.mark {
		if _, dup := a.beyond[s.from]; dup {
			return false
		}
		if a.beyond == nil {
			a.beyond = make(map[int64]int64)
		}
		a.beyond[s.from] = s.to
		return true
	}
	a.mark = s.to
	for len(a.beyond) > 0 {
		end, ok := a.beyond[a.mark]
		if !ok {
			break
		}
		delete(a.beyond, a.mark)
		a.mark = end
	}
	return true
}

// spans appends the acknowledged spans beyond mark, sorted and joined.
func (a *ackSet) spans(dst []span) []span {
	start := len(dst)
	for from, to := range a.beyond {
		dst = append(dst, span{from, to})
	}
	return dst[:start+len(joined(dst[start:]))]
}

// joined sorts spans and joins adjacent ones, in place.
func joined(spans []span) []span {
	slices.SortFunc(spans, func(x, y span) int { return cmp.Compare(x.from, y.from) })
	out := spans[:0]
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].to >= s.from {
			out[n-1].to = max(out[n-1].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}
