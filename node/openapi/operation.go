package openapi

import (
	"maps"
	"slices"

	"github.com/uniflow-labs/uniflow/value"
)

// An operation is an Operation Object that is being collected.
type operation struct {
	pathNames  []string // parameters of the path, as the document has them
	renamed    []string // the same, as the route has them
	parameters []value.Value
	body       value.Value
	security   []value.Value
	secured    bool
	responses  map[string]value.Value
	early      []early
	route      string // the path of the route; empty in front of all routes
	least      string // responses with a lesser status are not the answer
	handled    bool   // the workflow makes the answers to errors
	unrouted   bool   // and those to requests without a route
	ends       bool   // the flow may end with an answer that no node describes
	open       bool   // it may end with one whose status is not known
}

// An early is a response that only requests with some method get.
type early struct {
	method, status string
	response       value.Value
}

func newOperation() *operation { return &operation{responses: make(map[string]value.Value)} }

func (o *operation) clone() *operation {
	c := *o
	c.parameters, c.security, c.early = slices.Clone(o.parameters), slices.Clone(o.security), slices.Clone(o.early)
	c.responses = maps.Clone(o.responses)
	return &c
}

// answerEarly adds the responses that a node gives to requests with a method, instead of
// sending them on.
func (o *operation) answerEarly(method string, responses value.Value) {
	for status, response := range responses.Fields() {
		if status >= o.least {
			o.early = append(o.early, early{method, status, response})
		}
	}
}

// respond adds a response. Of two with a status, the first describes the content; the
// descriptions are joined.
func (o *operation) respond(status string, response value.Value) {
	if status < o.least {
		return
	}
	old, ok := o.responses[status]
	if !ok {
		o.responses[status] = response
		return
	}
	before, _ := old.Get("description")
	more, _ := response.Get("description")
	if !before.Equal(more) {
		o.responses[status] = mergeContent(old, response).With("description", text(before.String()+" Or: "+more.String()))
	}
}
