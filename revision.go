package uniflow

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/uniflow-labs/uniflow/journal"
)

// revision returns the workflow of a source as durable runs are pinned to it: the documents as they
// are written. Values are not a part of it, so no secret is kept.
func revision(source Source) journal.Revision {
	type document struct{ File, Text string }
	documents := make([]document, len(source.Documents))
	for i, d := range source.Documents {
		documents[i] = document{d.File, string(d.Data)}
	}
	body, err := json.Marshal(documents)
	if err != nil {
		panic(err) // texts can be encoded
	}
	sum := sha256.Sum256(body)
	return journal.Revision{Hash: hex.EncodeToString(sum[:16]), Body: body}
}
