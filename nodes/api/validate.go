package api

import (
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"net/textproto"
	"slices"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed validate.md
var validatePage string

// The parts of a payload that can be checked.
const (
	onBody   = "body"
	onQuery  = "query"
	onParams = "params"
	onHeader = "header"
	onSelf   = "self"
)

func validateDef() *node.Def {
	return &node.Def{
		Kind:    "validate",
		Summary: "Lets payloads pass that match a JSON Schema.",
		Page:    node.ReadPage(validatePage),
		Config: schema.Fields(
			schema.Any("schema").Required().Doc("The schema: an object, or `false` to refuse everything."),
			schema.Enum("on", onBody, onQuery, onParams, onHeader, onSelf).Default(onBody).Doc("What to check: a part of the request or the message, or `self`, the payload as it is."),
			schema.Bool("coerce").Doc("Whether texts are read as what the schema asks for. Unless set, those of `query`, `params` and `header` are."),
			schema.Int("status").Range(400, 499).Default(http.StatusUnprocessableEntity).Doc("The status of the error."),
		),
		In:      []node.Port{{Name: "in", Doc: "A payload to check."}},
		Out:     []node.Port{{Name: "out", Doc: "A payload that matches."}},
		Error:   "The error of a payload that does not match. Without a link it is the answer.",
		OpenAPI: describe,
		Traits:  func(c schema.Config) node.Traits { return node.Traits{Shape: shape(c)} },
		Recall:  node.Always(node.Pure),
		New:     newValidate,
	}
}

func newValidate(init *node.Init) (node.Node, error) {
	c := init.Config
	s, err := jsonschema.Compile(c.Value("schema"), jsonschema.Options{Hidden: c.Hidden("schema")})
	if err != nil {
		return nil, jsonschema.At(c, "schema", err, "write one such as {type: object, properties: {count: {type: integer}}, required: [count]}")
	}
	n := &validate{schema: s, on: c.String("on"), status: int(c.Int("status"))}
	ignored := s.Ignored("remove it: headers stay as they came")
	if n.on != onHeader {
		n.defaults, ignored = s.Defaults()
	}
	jsonschema.Warn(init.Warn, c, "schema", slices.Concat(s.Doubts(), ignored))
	switch {
	case !coerces(c):
	case n.on == onHeader:
		n.coerce = s.Coercion(textproto.CanonicalMIMEHeaderKey)
	default:
		n.coerce = s.Coercion(nil)
	}
	return n, nil
}

// shape returns what is known of payloads that match.
func shape(c schema.Config) func(int, func() *schema.Shape) *schema.Shape {
	return func(_ int, in func() *schema.Shape) *schema.Shape {
		on := c.String("on")
		s, err := jsonschema.Compile(c.Value("schema"), jsonschema.Options{Hidden: c.Hidden("schema")})
		switch {
		case err != nil || on == onHeader: // New reports the error; headers have more fields
			return in()
		case on == onSelf:
			return s.Shape()
		}
		return in().With(on, s.Shape())
	}
}

// coerces reports whether a node reads texts.
func coerces(c schema.Config) bool {
	if c.Has("coerce") {
		return c.Bool("coerce")
	}
	return c.String("on") != onBody && c.String("on") != onSelf
}

// A validate is a node of that kind. It is immutable.
type validate struct {
	schema   *jsonschema.Schema
	on       string
	status   int
	coerce   *jsonschema.Coercion // nil if texts stay texts
	defaults *jsonschema.Defaults // nil if the schema has none
}

// maxProblems bounds what an error lists: a list of a million wrong elements has as many
// problems.
const maxProblems = 20

// Receive checks one payload.
func (n *validate) Receive(_ node.Process, pkt node.Packet) node.Result {
	part := pkt.Payload
	if n.on != onSelf {
		part, _ = pkt.Payload.Get(n.on)
	}
	checked, changed := part, false
	if n.coerce != nil {
		checked, changed = n.coerce.Apply(part), n.on != onHeader
	}
	if n.defaults != nil {
		filled, lacked := n.defaults.Apply(checked)
		checked, changed = filled, changed || lacked
	}
	if found := n.schema.Problems(checked, maxProblems); found != nil {
		return node.Fail(n.refusal(found))
	}
	switch {
	case !changed:
		return node.Send(0, pkt.Payload)
	case n.on == onSelf:
		return node.Send(0, checked)
	}
	return node.Send(0, pkt.Payload.With(n.on, checked))
}

// refusal makes the error of a payload that does not match.
func (n *validate) refusal(found []jsonschema.Problem) error {
	prefix := ""
	if n.on != onSelf {
		prefix = "/" + n.on
	}
	list := make([]value.Value, len(found))
	for i, p := range found {
		list[i] = problemShape.Map(value.String(prefix+p.Path), value.String(p.Message))
	}
	path := prefix + found[0].Path
	if path == "" {
		path = "the payload"
	}
	text := path + ": " + found[0].Message
	if len(found) > 1 {
		text = fmt.Sprintf("%s (and %d more)", text, len(found)-1)
	}
	return &node.Error{
		Err: errors.New(text), Status: n.status, Code: "invalid", Public: true,
		Data: value.Map(value.Field{Name: "errors", Value: value.List(list...)}),
	}
}

var problemShape = value.NewShape("path", "message")
