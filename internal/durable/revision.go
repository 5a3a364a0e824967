package durable

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/uniflow-labs/uniflow/journal"
	"github.com/uniflow-labs/uniflow/spec"
)

// A document is what a revision has of a [spec.Document].
type document struct{ File, Text string }

// Revision returns a workflow as runs are pinned to it: the documents as they are written. Values are
// not a part of it, so no secret is kept.
func Revision(documents []spec.Document) journal.Revision {
	stored := make([]document, len(documents))
	for i, d := range documents {
		stored[i] = document{d.File, string(d.Data)}
	}
	body, err := json.Marshal(stored)
	if err != nil {
		panic(err) // texts can be encoded
	}
	sum := sha256.Sum256(body)
	return journal.Revision{Hash: hex.EncodeToString(sum[:16]), Body: body}
}

// Documents returns the documents of a revision.
func Documents(rev journal.Revision) ([]spec.Document, error) {
	var stored []document
	if err := json.Unmarshal(rev.Body, &stored); err != nil {
		return nil, fmt.Errorf("revision %s: %w", rev.Hash, err)
	}
	documents := make([]spec.Document, len(stored))
	for i, d := range stored {
		documents[i] = spec.Document{File: d.File, Data: []byte(d.Text)}
	}
	return documents, nil
}
