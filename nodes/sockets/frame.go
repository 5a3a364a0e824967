package sockets

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/uniflow-labs/uniflow/node"
)

// A framing says where a message ends in a sequence of bytes.
type framing uint8

const (
	frameLines  framing = iota // a line feed, with or without a carriage return, ends each
	frameLength                // four bytes, the most significant first, say how long each is
	frameRaw                   // what a read returns is one
)

var framings = map[string]framing{"lines": frameLines, "length": frameLength, "raw": frameRaw}

// errTooLong ends a connection: the messages after it cannot be separated.
var errTooLong = errors.New("a message is longer than max_message")

const lengthBytes = 4

// A span is where a message is in a buffer.
type span struct{ start, end int }

// split appends where the messages at the beginning of data are, and returns how many
// bytes it has used. last says that nothing follows: a line without an end is a message
// then, and bytes that are not used are a torn message.
func (f framing) split(spans []span, data []byte, longest int, last bool) (more []span, used int, err error) {
	for rest := data; len(rest) > 0; rest = data[used:] {
		switch f {
		case frameRaw:
			n := min(len(rest), longest)
			spans = append(spans, span{used, used + n})
			used += n
		case frameLength:
			if len(rest) < lengthBytes {
				return spans, used, nil
			}
			n := binary.BigEndian.Uint32(rest)
			if uint64(n) > uint64(longest) {
				return spans, used, errTooLong
			}
			if len(rest)-lengthBytes < int(n) {
				return spans, used, nil
			}
			spans = append(spans, span{used + lengthBytes, used + lengthBytes + int(n)})
			used += lengthBytes + int(n)
		case frameLines:
			n, end := bytes.IndexByte(rest, '\n'), 1
			if n < 0 {
				if !last {
					if len(rest) > longest+1 { // with the carriage return
						return spans, used, errTooLong
					}
					return spans, used, nil
				}
				n, end = len(rest), 0
			}
			line := bytes.TrimSuffix(rest[:n], []byte("\r"))
			if len(line) > longest {
				return spans, used, errTooLong
			}
			spans = append(spans, span{used, used + len(line)})
			used += n + end
		}
	}
	return spans, used, nil
}

// append adds a message as it is sent.
func (f framing) append(dst, message []byte) ([]byte, error) {
	switch f {
	case frameLength:
		if uint64(len(message)) > 1<<32-1 {
			return dst, node.Unusable("", errors.New("a message is longer than four bytes can say"))
		}
		dst = binary.BigEndian.AppendUint32(dst, uint32(len(message)))
	case frameLines:
		if i := bytes.IndexByte(message, '\n'); i >= 0 {
			return dst, node.Unusable("", fmt.Errorf("a line must not have a line feed, and this one has one at byte %d", i))
		}
		return append(append(dst, message...), '\n'), nil
	}
	return append(dst, message...), nil
}
