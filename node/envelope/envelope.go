// Package envelope reads payloads as requests and answers of HTTP: maps of status, header
// and body. Whatever asks what an answer means to a client asks this package, so that a
// listener, a test and a description of an API agree.
//
// Read [Envelope] and [Open] first, then [Judge]. The package must not know servers, nor how
// answers are sent.
package envelope

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// The keys of requests and answers.
const (
	KeyMethod   = "method"
	KeyScheme   = "scheme"
	KeyHost     = "host"
	KeyPath     = "path"
	KeyQuery    = "query"
	KeyProtocol = "protocol"
	KeyHeader   = "header"
	KeyBody     = "body"
	KeyStatus   = "status"
	KeyParams   = "params"
	KeyRemote   = "remote"
	KeyID       = "id"
	KeyAuth     = "auth"
	KeyRaw      = "raw"
)

// MaxQuote is how many bytes of a payload an error may contain.
const MaxQuote = 200

// RequestOnly reports whether a key is one of requests, and of answers only if they are
// made of a request: a map with an id and a body, without a method, is a body.
func RequestOnly(name string) bool {
	switch name {
	case KeyRemote, KeyID, KeyAuth, KeyRaw:
		return true
	}
	return false
}

// An Envelope is a parsed map of status, header and body.
type Envelope struct {
	Status    int // 200 if the map has none
	Header    value.Value
	Body      value.Value
	HasBody   bool
	HasStatus bool
}

// Open parses an envelope. ok is false for a map that is a body: one with a
// key that no request or answer has, or with none of status, header and body.
//
// A status that cannot be sent is an error if the map is meant to be an answer: if it
// has a header or a body as well, or if the status is a number or reads like one. A
// map with nothing but a status such as "active" is a body.
func Open(v value.Value) (e Envelope, ok bool, err error) {
	if v.Kind() != value.KindMap {
		return Envelope{}, false, nil
	}
	e.Status = http.StatusOK
	var bad value.Value // a status that cannot be sent
	isBad, answers := false, false
	ofRequest, hasMethod := false, false
	for name, field := range v.Fields() {
		switch name {
		case KeyStatus:
			status, isInt := field.AsInt()
			if isInt && status >= http.StatusOK && status <= 599 {
				e.Status, e.HasStatus, ok = int(status), true, true
			} else {
				bad, isBad = field, true
			}
		case KeyHeader:
			e.Header, ok, answers = field, true, true
		case KeyBody:
			e.Body, e.HasBody, ok, answers = field, true, true, true
		case KeyMethod:
			hasMethod = true
		case KeyScheme, KeyHost, KeyPath, KeyQuery, KeyProtocol, KeyParams:
		default:
			if !RequestOnly(name) {
				return Envelope{}, false, nil
			}
			ofRequest = true
		}
	}
	if ofRequest && !hasMethod {
		return Envelope{}, false, nil
	}
	if !isBad {
		return e, ok, nil
	}
	if !answers && !isNumber(bad) {
		return Envelope{}, false, nil
	}
	shown := node.Clip(bad.String(), MaxQuote)
	if bad.Kind() == value.KindString {
		shown = strconv.Quote(shown)
	}
	return Envelope{}, false, fmt.Errorf("answer: status %s: want an integer from 200 to 599", shown)
}

// isNumber reports whether a value is a number, or a string that reads like one.
func isNumber(v value.Value) bool {
	switch v.Kind() {
	case value.KindInt, value.KindUint, value.KindFloat:
		return true
	}
	s, ok := v.AsString()
	_, err := strconv.ParseFloat(s, 64)
	return ok && err == nil
}
