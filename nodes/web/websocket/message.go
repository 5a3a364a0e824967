package websocket

import (
	"errors"
	"net/http"
	"unicode/utf8"
	"unsafe"

	"github.com/coder/websocket"

	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

var errNotText = errors.New("a text message is not valid UTF-8")

// decodeMessage makes a value of a message, which may keep data. reserve is called before
// memory is allocated, and may refuse it with [content.ErrBusy]; nil grants all.
func decodeMessage(decode string, kind websocket.MessageType, data []byte, reserve func(bytes int) error) (value.Value, error) {
	if kind == websocket.MessageText && !utf8.Valid(data) {
		return value.Value{}, errNotText
	}
	switch decode {
	case "raw":
		if kind == websocket.MessageBinary {
			return value.Binary(data), nil
		}
	case "json":
		v, err := value.ParseJSONWith(data, value.JSONOptions{Reserve: reserve})
		if errors.Is(err, content.ErrBusy) {
			return value.Value{}, err
		}
		if err != nil {
			return value.String(string(data)), content.Errorf(http.StatusBadRequest, "message: %v", err)
		}
		return v, nil
	default:
		if !utf8.Valid(data) {
			return value.Binary(data), content.Errorf(http.StatusBadRequest, "message: not valid UTF-8")
		}
	}
	return value.String(string(data)), nil
}

// encodeMessage is how a value is sent. The data may be that of the value, or of buf.
func encodeMessage(v value.Value, buf []byte) (kind websocket.MessageType, data []byte, err error) {
	if s, ok := v.AsString(); ok {
		if !utf8.ValidString(s) {
			return 0, nil, errors.New("a text that is not valid UTF-8 cannot be sent: send a binary")
		}
		return websocket.MessageText, unsafe.Slice(unsafe.StringData(s), len(s)), nil
	}
	if b, ok := v.AsBinary(); ok {
		return websocket.MessageBinary, b, nil
	}
	data, err = v.AppendJSON(buf)
	return websocket.MessageText, data, err
}

// messageBody returns the body of a message, or of the packet that a process of a message
// began with.
func messageBody(v value.Value) (body value.Value, ok bool) {
	if v.Kind() != value.KindMap {
		return v, false
	}
	for name, field := range v.Fields() {
		switch name {
		case envelope.KeyBody:
			body, ok = field, true
		case "connection", envelope.KeyParams:
		default:
			return v, false
		}
	}
	return body, ok
}
