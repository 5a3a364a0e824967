package chat

import (
	"errors"
	"net/http"

	"github.com/uniflow-labs/uniflow/value"
)

// A posted message is what a client sends.
type posted struct {
	conversation string // a token; empty for a new one
	id           string
	text         string
	data         value.Value // of a button
	wait         bool
}

// maxID is how long the id of a message may be.
const maxID = 64

// maxBody is how long the JSON of a message may be, whose text may be escaped.
func maxBody(maxText int) int { return 6*maxText + 4<<10 }

// read reads what a client sends. What it takes meanwhile is counted.
func (h *conversations) read(v value.Value, maxText int) (posted, error) {
	taken := int64(0)
	defer func() { h.held.Free(taken) }()
	return postedOf(v, maxText, func(bytes int) error {
		if !h.held.Take(int64(bytes)) {
			return busy(errMemory)
		}
		taken += int64(bytes)
		return nil
	})
}

// postedOf reads a body of JSON, which may have come as text: a page of another host may send
// that without asking before.
func postedOf(v value.Value, maxText int, reserve func(bytes int) error) (s posted, err error) {
	data, ok := v.AsBinary()
	if text, isText := v.AsString(); isText {
		data, ok = []byte(text), true
	}
	if ok {
		if len(data) > maxBody(maxText) {
			return s, public(http.StatusRequestEntityTooLarge, "the message is too long: %d bytes", len(data))
		}
		v, err = value.ParseJSONWith(data, value.JSONOptions{Reserve: reserve})
		if errors.Is(err, errMemory) {
			return s, err
		}
		if err != nil {
			return s, public(http.StatusBadRequest, "message: %v", err)
		}
	}
	if v.Kind() != value.KindMap {
		return s, public(http.StatusBadRequest, "want a map with text, got %s", v.Kind())
	}
	if s.conversation, err = fieldText(v, "conversation"); err == nil {
		if s.id, err = fieldText(v, "id"); err == nil {
			s.text, err = fieldText(v, "text")
		}
	}
	wait, _ := v.Get("wait")
	s.wait = wait.Truth()
	s.data, _ = v.Get("data")
	if b, isText := s.data.AsString(); isText && len(b) > maxText || !isText && !s.data.IsNull() {
		err = public(http.StatusUnprocessableEntity, "data: want text of at most %d bytes", maxText)
	}
	switch {
	case err != nil:
		return s, public(http.StatusUnprocessableEntity, "%v", err)
	case len(s.text) > maxText:
		return s, public(http.StatusRequestEntityTooLarge, "the message is too long: %d bytes, at most %d are read", len(s.text), maxText)
	case len(s.id) > maxID:
		return s, public(http.StatusUnprocessableEntity, "id: got %d bytes, want at most %d", len(s.id), maxID)
	}
	return s, nil
}
