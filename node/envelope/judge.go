package envelope

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

var errStatus = errors.New("the answer has a status of 400 or more")

// Failure returns why a process has failed whose answer has a status, or nil.
func Failure(status int) error {
	if status >= http.StatusBadRequest {
		return errStatus
	}
	return nil
}

// FailureStatus returns the status of an error if that is 4xx or 5xx, and 500
// otherwise.
func FailureStatus(e *node.Error) int {
	if e.Status >= 400 && e.Status <= 599 {
		return e.Status
	}
	return http.StatusInternalServerError
}

// Judge is the [node.Judge] of processes whose answers a client of HTTP could get: processes of
// a call, a test or a program that embeds the engine. Listeners decide likewise, but keep
// what they have encoded.
func Judge(resp node.Response) error {
	if resp.None {
		return nil
	}
	e, ok, err := Open(resp.Payload)
	if err != nil || !ok {
		return errors.Join(err, encodable("", resp.Payload))
	}
	contentType := ""
	if e.Header.Kind() != value.KindNull {
		if contentType, err = SetHeaders(make(http.Header), e.Header, ServerHeader); err != nil {
			return fmt.Errorf("answer: %w", err)
		}
	}
	if err := encodable(contentType, e.Body); err != nil {
		return err
	}
	return Failure(e.Status)
}

// encodable returns why a body cannot be written in the form of a Content-Type.
func encodable(contentType string, body value.Value) error {
	switch _, _, plain, err := PlainBody(ParseMedia(contentType), body); {
	case err != nil:
		return fmt.Errorf("answer: %w", err)
	case plain:
		return nil
	}
	buf, _ := scratch.Get().(*[]byte)
	if buf == nil {
		buf = new([]byte)
	}
	data, err := body.AppendJSON((*buf)[:0])
	if cap(data) <= mostScratch {
		*buf = data
		scratch.Put(buf)
	}
	if err != nil {
		return fmt.Errorf("answer: body: %w", err)
	}
	return nil
}

// scratch has buffers for JSON that is only made to see whether it can be.
var scratch sync.Pool // of *[]byte

// mostScratch is the largest buffer, in bytes, that is kept.
const mostScratch = 64 << 10
