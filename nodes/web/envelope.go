package web

import (
	"fmt"
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// The keys of requests and answers.
const (
	keyMethod   = "method"
	keyScheme   = "scheme"
	keyHost     = "host"
	keyPath     = "path"
	keyQuery    = "query"
	keyProtocol = "protocol"
	keyHeader   = "header"
	keyBody     = "body"
	keyStatus   = "status"
	keyParams   = "params"
	keyRemote   = "remote"
	keyID       = "id"
	keyAuth     = "auth"
	keyRaw      = "raw"
)

// requestOnly reports whether a key is one of requests, and of answers only if they are
// made of a request: a map with an id and a body, without a method, is a body.
func requestOnly(name string) bool {
	switch name {
	case keyRemote, keyID, keyAuth, keyRaw:
		return true
	}
	return false
}

// An envelope is a parsed map of status, header and body.
type envelope struct {
	status    int // 200 if the map has none
	header    value.Value
	body      value.Value
	hasBody   bool
	hasStatus bool
}

// openEnvelope parses an envelope. ok is false for a map that is a body: one with a
// key that no request or answer has, or with none of status, header and body.
//
// A status that cannot be sent is an error if the map is meant to be an answer: if it
// has a header or a body as well, or if the status is a number or reads like one. A
// map with nothing but a status such as "active" is a body.
func openEnvelope(v value.Value) (e envelope, ok bool, err error) {
	if v.Kind() != value.KindMap {
		return envelope{}, false, nil
	}
	e.status = http.StatusOK
	var bad value.Value // a status that cannot be sent
	isBad, answers := false, false
	ofRequest, hasMethod := false, false
	for name, field := range v.Fields() {
		switch name {
		case keyStatus:
			status, isInt := field.AsInt()
			if isInt && status >= http.StatusOK && status <= 599 {
				e.status, e.hasStatus, ok = int(status), true, true
			} else {
				bad, isBad = field, true
			}
		case keyHeader:
			e.header, ok, answers = field, true, true
		case keyBody:
			e.body, e.hasBody, ok, answers = field, true, true, true
		case keyMethod:
			hasMethod = true
		case keyScheme, keyHost, keyPath, keyQuery, keyProtocol, keyParams:
		default:
			if !requestOnly(name) {
				return envelope{}, false, nil
			}
			ofRequest = true
		}
	}
	if ofRequest && !hasMethod {
		return envelope{}, false, nil
	}
	if !isBad {
		return e, ok, nil
	}
	if !answers && !isNumber(bad) {
		return envelope{}, false, nil
	}
	shown := node.Clip(bad.String(), maxQuote)
	if bad.Kind() == value.KindString {
		shown = strconv.Quote(shown)
	}
	return envelope{}, false, fmt.Errorf("answer: status %s: want an integer from 200 to 599", shown)
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
