package openapi

import (
	"net/http"
	"strconv"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/value"
)

// The fields of a fragment for payloads that a node sends, of which nodes downstream make an answer or an error.
const (
	keySends  = "sends"  // true: the responses are what payloads are as answers, also those of status 400 and more
	keyOpen   = "open"   // true: payloads may be any other answer
	keyStatus = "status" // what statuses the payloads have as errors, and "default" if that is not known
	keyThrows = "throws" // true: the node makes errors of payloads, with the status that they have
)

// anyStatus is the key of a Responses Object for a status that is not known.
const anyStatus = "default"

// SentValue returns what a node adds that always sends v, for a [node.Def.OpenAPI].
func SentValue(v value.Value) value.Value {
	thrown := strconv.Itoa(http.StatusInternalServerError)
	if status, ok := v.Get(envelope.KeyStatus); ok {
		thrown = thrownStatus(status)
	}
	return value.Map(field("responses", Answer(v)), field(keySends, value.Bool(true)), field(keyStatus, value.List(text(thrown))))
}

// Sent is SentValue for a node whose payloads have one of some outcomes.
func Sent(outcomes ...lang.Outcome) value.Value {
	responses, thrown := value.Map(), make([]value.Value, 0, len(outcomes))
	open := false
	for _, s := range outcomes {
		answer, err := strconv.Itoa(http.StatusOK), strconv.Itoa(http.StatusInternalServerError)
		switch v := value.Map(s.Fields...); {
		case s.Map:
			status, has := v.Get(envelope.KeyStatus)
			if has {
				err = thrownStatus(status)
			}
			if e, ok, bad := envelope.Open(v); bad != nil && !status.IsNull() {
				answer = strconv.Itoa(http.StatusInternalServerError)
			} else if ok && e.HasStatus {
				answer = strconv.Itoa(e.Status)
			} else if has && status.IsNull() {
				answer = anyStatus
			}
		case !s.Other:
			answer, err = anyStatus, anyStatus
		}
		thrown = append(thrown, text(err))
		if answer == anyStatus {
			open = true
			continue
		}
		n, _ := strconv.Atoi(answer)
		responses = responses.With(answer, value.Map(field("description", text(describe(n)))))
	}
	return value.Map(field("responses", responses), field(keySends, value.Bool(true)), field(keyOpen, value.Bool(open)), field(keyStatus, value.List(thrown...)))
}

// thrownStatus returns the status of an error that is made of a payload with a status, which
// is null if it is not known.
func thrownStatus(v value.Value) string {
	if n, ok := v.AsInt(); ok {
		return strconv.Itoa(envelope.FailureStatus(&node.Error{Status: int(n)}))
	}
	return anyStatus
}

// Thrown returns what a node adds that makes errors of payloads, with the status that they
// have or else 500, for a [node.Def.OpenAPI].
func Thrown() value.Value {
	return value.Map(field("responses", value.Map()), field(keyThrows, value.Bool(true)))
}

// throws adds the errors that a node makes of what those nodes before it send that requests come to.
func (o *operation) throws(v *node.Vertex, visited map[*node.Vertex]bool) {
	for _, up := range v.In {
		if !visited[up] {
			continue
		}
		statuses := value.List(text(anyStatus))
		if up.Def != nil && up.Def.OpenAPI != nil && sends(up, v) {
			if known, ok := up.Def.OpenAPI(up.Config).Get(keyStatus); ok {
				statuses = known
			}
		}
		for _, s := range statuses.Elems() {
			status, _ := s.AsString()
			n, _ := strconv.Atoi(status)
			response, _ := Failure(n, "").Get(strconv.Itoa(n))
			o.respond(status, response)
		}
	}
}

// sends reports whether a node sends payloads to another, by a port that is not for errors.
func sends(from, to *node.Vertex) bool {
	for _, port := range from.Out {
		for _, t := range port {
			if t.Node == to {
				return true
			}
		}
	}
	return false
}
