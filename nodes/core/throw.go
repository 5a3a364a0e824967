package core

import (
	_ "embed"
	"errors"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed throw.md
var throwPage string

func throwDef() *node.Def {
	return &node.Def{
		Kind:    "throw",
		Summary: "Answers each packet with an error made of its payload.",
		Page:    node.ReadPage(throwPage),
		Config: schema.Fields(
			schema.Int("status").Range(100, 599).Doc("The HTTP status of the answer to a client."),
			schema.Bool("public").Doc("Whether a client may read the message."),
		),
		In: in("What the error is made of."),
		OpenAPI: func(c schema.Config) value.Value {
			status := int(c.Int("status"))
			if status < 400 { // the payload has it, or it is 500
				return openapi.Thrown()
			}
			return value.Map(value.Field{Name: "responses", Value: openapi.Failure(status, "")})
		},
		Recall: node.Always(node.Pure),
		New: func(init *node.Init) (node.Node, error) {
			return throw{status: int(init.Config.Int("status")), public: init.Config.Bool("public")}, nil
		},
	}
}

type throw struct {
	status int // 0 if unset
	public bool
}

func (t throw) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Answer(value.Error(t.errorOf(pkt.Payload)))
}

func (t throw) errorOf(payload value.Value) error {
	e := &node.Error{Status: t.status, Public: t.public}
	switch payload.Kind() {
	case value.KindError:
		again := *node.Describe(payload.AsError())
		if again.Status == 0 {
			again.Status = t.status
		}
		again.Public = again.Public || t.public
		return &again
	case value.KindMap:
		t.fromMap(e, payload)
	case value.KindList:
		var messages []string // one error: a chain of a million would hold each message a million times
		for _, part := range payload.Elems() {
			if !part.IsNull() {
				messages = append(messages, part.String())
			}
		}
		if len(messages) > 0 {
			slices.Reverse(messages)
			e.Err = errors.New(strings.Join(messages, ": "))
		}
	case value.KindNull:
	default:
		e.Err = errors.New(payload.String())
	}
	if e.Err == nil {
		e.Err = errors.New("error")
	}
	return e
}

func (throw) fromMap(e *node.Error, payload value.Value) {
	if message, ok := payload.Get("message"); ok {
		e.Err = errors.New(message.String())
	} else {
		// Errors are logged, and the headers of a request contain credentials.
		e.Err = errors.New(payload.Without("header").String())
	}
	if status, ok := payload.Get("status"); ok {
		if n, ok := status.AsInt(); ok && n >= 100 && n <= 599 {
			e.Status = int(n)
		}
	}
	if code, ok := payload.Get("code"); ok {
		e.Code = code.String()
	}
	if public, ok := payload.Get("public"); ok {
		e.Public = public.Truth()
	}
}
