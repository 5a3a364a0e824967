package durable

import (
	"encoding/json"
	"fmt"

	"github.com/uniflow-labs/uniflow/internal/effect"
	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

// The functions below are for those who look into a journal.

// Payload decodes what a run has begun with, or the payload of a record.
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

// Documents decodes the documents of a revision.
func Documents(rev journal.Revision) ([]spec.Document, error) {
	var stored []struct{ File, Text string }
	if err := json.Unmarshal(rev.Body, &stored); err != nil {
		return nil, fmt.Errorf("revision %s: %w", rev.Hash, err)
	}
	documents := make([]spec.Document, len(stored))
	for i, d := range stored {
		documents[i] = spec.Document{File: d.File, Data: []byte(d.Text)}
	}
	return documents, nil
}
