// Package guest is for programs that nodes of the kinds exec and of plugins run: it reads requests from
// standard input, and writes the answers to standard output.
//
//	func main() {
//		os.Exit(guest.Main(func(payload json.RawMessage) (any, error) {
//			var order Order
//			if err := json.Unmarshal(payload, &order); err != nil {
//				return nil, err
//			}
//			return order.Total(), nil
//		}))
//	}
//
// The package needs the standard library only, and must not know the engine.
package guest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
)

// A Handler answers a payload. It is called for one payload after the other. The payload is good until it
// returns; an answer that is a [json.RawMessage] is written as it is, and has no line breaks.
type Handler func(payload json.RawMessage) (answer any, err error)

// An Error is an error with more than a message.
type Error struct {
	Message string `json:"message"`
	Code    string `json:"code,omitempty"`
	Status  int    `json:"status,omitempty"` // of HTTP, from 400 to 599
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Main answers requests until standard input ends, and returns the status to exit with.
func Main(h Handler) (status int) {
	if err := Serve(os.Stdin, os.Stdout, h); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// Serve answers requests until r ends. What is answered is written when no more requests are there.
func Serve(r io.Reader, w io.Writer, h Handler) error {
	in, out := bufio.NewReaderSize(r, 64<<10), bufio.NewWriterSize(w, 64<<10)
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = nil
		}
		if len(line) > 0 && err == nil {
			if err := answer(out, line, h); err != nil {
				return err
			}
		}
		if err != nil || in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func answer(out *bufio.Writer, line []byte, h Handler) error {
	id, payload, err := request(line)
	if err != nil {
		return err
	}
	v, failed := h(payload)
	var data []byte
	field := `,"payload":`
	if failed == nil {
		if raw, ok := v.(json.RawMessage); ok {
			data = raw
		} else {
			data, failed = json.Marshal(v)
		}
	}
	if failed != nil {
		field = `,"error":`
		e, ok := errors.AsType[*Error](failed)
		if !ok {
			e = &Error{Message: failed.Error()}
		}
		if data, err = json.Marshal(e); err != nil {
			return err
		}
	}
	var number [20]byte
	for _, part := range [][]byte{[]byte(`{"id":`), strconv.AppendUint(number[:0], id, 10), []byte(field), data, []byte("}\n")} {
		if _, err := out.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// request reads a request. Those of the engine begin with the id, and have the payload after that.
func request(line []byte) (id uint64, payload json.RawMessage, err error) {
	line = bytes.TrimSpace(line)
	if rest, ok := bytes.CutPrefix(line, []byte(`{"id":`)); ok {
		number, rest, ok := bytes.Cut(rest, []byte(`,"payload":`))
		if id, err := strconv.ParseUint(string(number), 10, 64); ok && err == nil && bytes.HasSuffix(rest, []byte("}")) {
			return id, json.RawMessage(rest[:len(rest)-1]), nil
		}
	}
	var r struct {
		ID      uint64          `json:"id"`
		Payload json.RawMessage `json:"payload"`
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return 0, nil, fmt.Errorf("read a request: %w", err)
	}
	return r.ID, r.Payload, nil
}
