package loader

import (
	"bytes"
	"fmt"
	"strconv"
	"unicode/utf8"

	"github.com/uniflow-labs/uniflow/internal/ground/jsonscan"
)

// A reason is a class of events that are not taken.
type reason uint8

const (
	// notJSON is an event that is not one JSON value.
	notJSON reason = iota
	// notUTF8 is an event with bytes that are not UTF-8.
	notUTF8
	// oversized is an event over Options.MaxEvent.
	oversized
	// unfit is an event that Options.Store does not take.
	unfit

	reasons = 4
)

// String returns the label of the reason in metrics.
func (r reason) String() string { return [...]string{"json", "utf8", "size", "unfit"}[r] }

// maxRejected is how many verdicts a batch may have. Batches with more are refused
// as a whole: the answer to a body of two-byte lines, which must be remembered,
// would have thirty times its size.
const maxRejected = 1000

// errRejected refuses a batch with more verdicts than maxRejected.
var errRejected = fmt.Errorf("more than %d of its events cannot be taken", maxRejected)

// A splitter makes lines of a body: one event a line. It is reused for the next
// batch, and so is the memory of its results.
type splitter struct {
	scan  jsonscan.Scanner
	limit int   // bytes of an event
	batch Batch // of the store, which also gets the events; nil without a store

	out      []byte // shares the memory of the body
	events   int
	index    int          // of the current event
	rejected []byte       // verdicts as JSON, without the brackets
	refused  [reasons]int // how many for each reason
	verdicts int          // how many in all
	places   []uint32     // indexes in the body of the events that are taken; nil without a store
}

// reset makes the splitter ready for a body.
func (s *splitter) reset(body []byte, limit int) {
	*s = splitter{scan: s.scan, limit: limit, batch: s.batch, out: body[:0], rejected: s.rejected[:0], places: s.places[:0]}
	if s.batch != nil {
		s.batch.Reset()
	}
}

// array makes lines of a JSON array, in place. The error is a *jsonscan.Error, or
// errRejected.
func (s *splitter) array(body []byte, limit int) error {
	s.reset(body, limit)
	i := jsonscan.Space(body, 0)
	if i >= len(body) || body[i] != '[' {
		return jsonscan.Unexpected(body, i, `the "[" of an array of events`)
	}
	if i = jsonscan.Space(body, i+1); i < len(body) && body[i] == ']' {
		return end(body, i+1)
	}
	for {
		after, err := s.scan.Value(body, i)
		if err != nil {
			return err
		}
		// The newline of the event has the room of the bracket or comma before it. So
		// writing never overtakes reading.
		next := jsonscan.Space(body, after)
		var sep byte
		if next < len(body) {
			sep = body[next]
		}
		if sep != ',' && sep != ']' {
			return jsonscan.Unexpected(body, next, `"," or "]" after an event`)
		}
		if err := s.take(body[i:after]); err != nil {
			return err
		}
		if sep == ']' {
			return end(body, next+1)
		}
		i = jsonscan.Space(body, next+1)
	}
}

// end returns an error unless only white space follows from i on.
func end(body []byte, i int) error {
	if i = jsonscan.Space(body, i); i < len(body) {
		return jsonscan.Unexpected(body, i, "nothing after the array")
	}
	return nil
}

// lines makes lines of NDJSON, in place. If the last line ends without a newline,
// the body must have room for one more byte. Empty lines are not events. The error
// is errRejected.
func (s *splitter) lines(body []byte, limit int) error {
	s.reset(body, limit)
	for rest := body; len(rest) > 0; {
		line, after := rest, rest[len(rest):]
		if n := bytes.IndexByte(rest, '\n'); n >= 0 {
			line, after = rest[:n], rest[n+1:]
		}
		rest = after
		i := jsonscan.Space(line, 0)
		if i == len(line) {
			continue
		}
		stop := i
		var err error
		if len(line)-i <= s.limit { // otherwise it is refused without reading
			if stop, err = s.scan.Value(line, i); err == nil && jsonscan.Space(line, stop) < len(line) {
				err = jsonscan.Unexpected(line, jsonscan.Space(line, stop), "the end of the line")
			}
			if err != nil {
				if err := s.refuse(notJSON, err.Error()); err != nil {
					return err
				}
				continue
			}
		} else {
			stop = len(bytes.TrimRight(line, " \t\r"))
		}
		if err := s.take(line[i:stop]); err != nil {
			return err
		}
	}
	return nil
}

// take makes a line of an event, or refuses it.
func (s *splitter) take(event []byte) error {
	if len(event) > s.limit {
		return s.refuse(oversized, strconv.Itoa(len(event))+" bytes, more than "+strconv.Itoa(s.limit))
	}
	if !utf8.Valid(event) {
		return s.refuse(notUTF8, "not UTF-8")
	}
	if s.batch != nil {
		if err := s.batch.Add(event); err != nil {
			return s.refuse(unfit, reasonText(err))
		}
		s.places = append(s.places, uint32(s.index))
	}
	n := len(s.out)
	if bytes.IndexByte(event, '\n') >= 0 || bytes.IndexByte(event, '\r') >= 0 {
		room := s.out[n : n+len(event)]
		s.out = s.out[:n+jsonscan.Compact(room, event)]
	} else {
		s.out = append(s.out, event...) // a move: the body has the room
	}
	s.out = append(s.out, '\n')
	s.events++
	s.index++
	return nil
}

// refuse adds a verdict.
func (s *splitter) refuse(r reason, why string) error {
	if s.verdicts == maxRejected {
		return errRejected
	}
	s.verdicts++
	s.refused[r]++
	if len(s.rejected) > 0 {
		s.rejected = append(s.rejected, ',')
	}
	s.rejected = append(s.rejected, `{"index":`...)
	s.rejected = strconv.AppendInt(s.rejected, int64(s.index), 10)
	s.rejected = append(s.rejected, `,"reason":`...)
	s.rejected = appendString(s.rejected, why)
	s.rejected = append(s.rejected, `,"retry":false}`...)
	s.index++
	return nil
}

// appendString appends text as a JSON string. A byte that is not printable ASCII
// is written as the character of that number, so that any bytes can be read back.
func appendString(dst []byte, text string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < 0x20 || c >= 0x7f:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, '"')
}
