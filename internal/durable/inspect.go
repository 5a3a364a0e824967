package durable

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// The functions below are for those who look into a journal.

// Input decodes what a run has begun with.
func Input(data []byte) (value.Value, error) {
	payload, _, err := decodeInput(data)
	return payload, err
}

// Payload decodes the payload of a record.
func Payload(data []byte) (value.Value, error) { return decode(data) }

// Answer decodes the answer of a run that has ended.
func Answer(data []byte) (node.Response, error) { return decodeResponse(data) }

// Outcome says what a node has made of a packet, by the record of its result: answer, none, error or
// send. It is empty for other records. Only of send there is a port.
func Outcome(r *journal.Record) string {
	if r.Type != journal.Result {
		return ""
	}
	switch op := effect.Op(r.Op); op {
	case effect.Answer:
		return "answer"
	case effect.None:
		return "none"
	case effect.Fail:
		return "error"
	case effect.Send:
		return "send"
	default:
		return fmt.Sprintf("unknown (%d)", op)
	}
}
