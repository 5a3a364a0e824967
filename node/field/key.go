package field

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/uniflow-labs/uniflow/value"
)

// longestKey is the longest key, in bytes, that is kept as it is.
const longestKey = 200

// KeyText returns a key as text: a text as it is, anything else as JSON, and the hash of a
// long one.
func KeyText(v value.Value) (string, error) {
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
