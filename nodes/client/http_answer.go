package client

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/value"
)

// An answerPayload is the memory of an answer's payload: one allocation for its view and
// its fields, with room for one more. It does not refer to the connection.
type answerPayload struct {
	fields [5]value.Field
	header content.AnswerView
}

// read makes the payload of an answer.
func (n *httpNode) read(resp *http.Response) (value.Value, error) {
	body, size, err := n.readBody(resp)
	if err != nil {
		return value.Value{}, err
	}
	dropHopByHop(resp.Header, resp.Header["Connection"])
	a := &answerPayload{header: content.AnswerView{View: content.View{Header: resp.Header}, Empty: size == 0}}
	f := &a.fields
	f[0] = value.Field{Name: envelope.KeyStatus, Value: value.Int(int64(resp.StatusCode))}
	f[1] = value.Field{Name: envelope.KeyProtocol, Value: value.String(resp.Proto)}
	f[2] = value.Field{Name: envelope.KeyHeader, Value: value.LazyMap(&a.header, 256*len(resp.Header), content.ViewDepth)}
	f[3] = value.Field{Name: envelope.KeyBody, Value: body}
	return value.UniqueMap(f[:4]), nil
}

// readBody reads and decodes the body of an answer, and removes the headers that are
// about its encoding. size is the length of the decompressed body, in bytes.
func (n *httpNode) readBody(resp *http.Response) (v value.Value, size int, err error) {
	if resp.StatusCode < http.StatusContinue {
		return value.Value{}, 0, fmt.Errorf("the service answered with the status %03d, which is not one of HTTP", resp.StatusCode)
	}
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return value.Value{}, 0, errors.New("the service answered 101 Switching Protocols, for which nothing has asked")
	}
	if resp.Request.Method == http.MethodHead || !content.HasBody(resp.StatusCode) {
		return value.Null(), 0, nil
	}
	a := n.accounts.Get().(*account)
	defer a.end()
	var r io.Reader = resp.Body
	length := resp.ContentLength
	if encodings := resp.Header["Content-Encoding"]; len(encodings) > 0 && length != 0 {
		decoded, err := content.NewReader(&httpclient.Limited{R: resp.Body, Left: int64(n.bodyBytes)}, encodings, a.reserve)
		switch {
		case errors.Is(err, io.EOF): // there is no body
		case errors.Is(err, content.ErrUnknownCoding):
			return value.Value{}, 0, &bodyError{err}
		case err != nil:
			return value.Value{}, 0, err
		default:
			defer decoded.Close()
			r = decoded
		}
		length = -1
		delete(resp.Header, "Content-Encoding")
		delete(resp.Header, "Content-Length")
	}
	if length > int64(n.bodyBytes) {
		return value.Value{}, 0, content.TooLarge(n.bodyBytes)
	}
	data, err := content.ReadAll(r, length, n.bodyBytes, a.reserve)
	if err != nil {
		return value.Value{}, 0, err
	}
	contentType := ""
	if list := resp.Header["Content-Type"]; len(list) > 0 {
		contentType = list[0]
	}
	v, _, err = content.Decode(contentType, data, a.reserve)
	if err != nil && !errors.Is(err, content.ErrBusy) {
		return value.Value{}, 0, &bodyError{err}
	}
	return v, len(data), err
}

// An account counts the bytes that one answer reserves while it is read.
type account struct {
	n       *httpNode
	held    int64
	reserve func(bytes int) error
}

func newAccount(n *httpNode) *account {
	a := &account{n: n}
	a.reserve = a.take
	return a
}

func (a *account) take(bytes int) error {
	n := int64(bytes)
	switch {
	case n < 0:
		a.n.held.Free(-n)
	case !a.n.held.TakeWithin(n, a.n.heldBytes):
		return fmt.Errorf("%w: those that are read may take %d bytes together (raise limits.body_bytes, of which that is a multiple), and not more than the program has left (raise --memory)", content.ErrBusy, a.n.heldBytes)
	}
	a.held += n
	return nil
}

// end releases what the account holds.
func (a *account) end() {
	a.n.held.Free(a.held)
	a.held = 0
	a.n.accounts.Put(a)
}
