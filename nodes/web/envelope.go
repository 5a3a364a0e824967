package web

import (
	"net/http"

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
)

// An envelope is a map that says how to answer, taken apart.
type envelope struct {
	status  int // 200 if the map has none
	header  value.Value
	body    value.Value
	hasBody bool
	own     bool // it has a status of its own
}

// openEnvelope takes a map apart. It is no envelope, but a body, if it has a key
// that no request or answer has, or none of status, header and body, or a status
// that is no status.
func openEnvelope(v value.Value) (e envelope, ok bool) {
	if v.Kind() != value.KindMap {
		return envelope{}, false
	}
	e.status = http.StatusOK
	for name, field := range v.Fields() {
		switch name {
		case keyStatus:
			status, isInt := field.AsInt()
			if !isInt || status < 100 || status > 599 {
				return envelope{}, false
			}
			e.status, e.own, ok = int(status), true, true
		case keyHeader:
			e.header, ok = field, true
		case keyBody:
			e.body, e.hasBody, ok = field, true, true
		case keyMethod, keyScheme, keyHost, keyPath, keyQuery, keyProtocol, keyParams:
		default:
			return envelope{}, false
		}
	}
	return e, ok
}
