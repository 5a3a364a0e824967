package oracle

import (
	"bytes"
	"fmt"
	"strconv"
)

// An Event is one event of a run. It is encoded as JSON with a payload of Pad
// bytes, each of which follows from ID.
type Event struct {
	ID  uint64 // from 1, unique in a run
	Key uint64 // what PerKey keeps in order
	Seq uint64 // place among the events of Key, from 1
	Pad int    // bytes of payload
}

// alphabet are the 64 bytes of a payload. JSON escapes none of them.
const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+./=()<>@$%^*~|#!?;{}[]abc"

func (e Event) Append(dst []byte) []byte {
	dst = append(dst, `{"id":`...)
	dst = strconv.AppendUint(dst, e.ID, 10)
	dst = append(dst, `,"key":`...)
	dst = strconv.AppendUint(dst, e.Key, 10)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendUint(dst, e.Seq, 10)
	dst = append(dst, `,"len":`...)
	dst = strconv.AppendInt(dst, int64(e.Pad), 10)
	dst = append(dst, `,"pad":"`...)
	state := e.ID
	for left := e.Pad; left > 0; {
		// SplitMix64: ten letters of each number.
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		for i := 0; i < 10 && left > 0; i++ {
			dst = append(dst, alphabet[z&63])
			z >>= 6
			left--
		}
	}
	return append(dst, `"}`...)
}

// Encode is Append with the signature of batch.Options.Encode.
func Encode(dst []byte, e *Event) ([]byte, error) { return e.Append(dst), nil }

// maxPad is the largest payload that Parse accepts.
const maxPad = 64 << 20

// Parse decodes an event. Every byte must be as Append writes it.
func Parse(raw []byte) (Event, error) {
	var e Event
	rest := raw
	for _, f := range []struct {
		before string
		to     *uint64
	}{
		{`{"id":`, &e.ID},
		{`,"key":`, &e.Key},
		{`,"seq":`, &e.Seq},
	} {
		var err error
		if *f.to, rest, err = number(rest, f.before); err != nil {
			return Event{}, corrupt(raw, err)
		}
	}
	pad, rest, err := number(rest, `,"len":`)
	if err != nil {
		return Event{}, corrupt(raw, err)
	}
	if pad > maxPad || pad > uint64(len(rest)) {
		return Event{}, corrupt(raw, fmt.Errorf("a payload of %d bytes, %d bytes are left", pad, len(rest)))
	}
	e.Pad = int(pad)
	want := e.Append(make([]byte, 0, len(raw)))
	if !bytes.Equal(raw, want) {
		at := 0
		for at < len(raw) && at < len(want) && raw[at] == want[at] {
			at++
		}
		return Event{}, corrupt(raw, fmt.Errorf("differs from event %d at byte %d of %d", e.ID, at, len(want)))
	}
	return e, nil
}

func number(raw []byte, before string) (n uint64, rest []byte, err error) {
	rest, ok := bytes.CutPrefix(raw, []byte(before))
	if !ok {
		return 0, nil, fmt.Errorf("no %q", before)
	}
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err = strconv.ParseUint(string(rest[:end]), 10, 64)
	return n, rest[end:], err
}

func corrupt(raw []byte, err error) error {
	return fmt.Errorf("corrupt event %.120q: %w", raw, err)
}
