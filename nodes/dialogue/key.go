package dialogue

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A keyError is a failure to find out which session a payload belongs to.
type keyError struct{ err error }

func (e *keyError) Error() string { return e.err.Error() }

// longestKey is the longest key, in bytes, that is kept as it is.
const longestKey = 200

// keyOf returns the key of the session of a payload.
func (n *sessionNode) keyOf(p node.Process, payload value.Value) (string, error) {
	if n.cookies != nil {
		return n.cookies.session(p.Context(), payload, n.clock.Now())
	}
	v, err := n.key.Eval(p.Context(), payload)
	if err != nil {
		return "", err
	}
	return keyText(v)
}

// keyText returns a key as text: a text as it is, anything else as JSON, and the hash of a
// long one.
func keyText(v value.Value) (string, error) {
	text, ok := v.AsString()
	if !ok && !v.IsNull() && !v.IsError() {
		text = v.String()
	}
	if text == "" {
		return "", errors.New("it is null or empty")
	}
	if len(text) > longestKey {
		sum := sha256.Sum256([]byte(text))
		text = "sha256:" + hex.EncodeToString(sum[:])
	}
	return text, nil
}
