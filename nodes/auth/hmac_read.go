package auth

import (
	"hash"
	"strings"

	"github.com/uniflow-labs/uniflow/value"
)

// A signing is what a request has in addition to its body.
type signing struct {
	signatures    [][]byte
	timestamp, id string
}

// read reads a header with signatures. The errors are refusals.
func (f *format) read(text string, payload value.Value) (s signing, err error) {
	parts := []string{text}
	if f.split != "" {
		parts = strings.SplitN(text, f.split, 4*maxSignatures)
	}
	for _, part := range parts {
		if f.time != "" && strings.HasPrefix(part, f.time) && s.timestamp == "" {
			s.timestamp = part[len(f.time):]
			continue
		}
		encoded, ok := strings.CutPrefix(part, f.prefix)
		if !ok {
			continue // of another version
		}
		signature, err := f.decode(encoded)
		if err != nil {
			return s, errForm
		}
		if s.signatures = append(s.signatures, signature); len(s.signatures) > maxSignatures {
			return s, errForm
		}
	}
	if len(s.signatures) == 0 {
		return s, errForm
	}
	if f.timestamp != "" && f.time == "" {
		if s.timestamp, err = (place{header: f.timestamp}).find(payload); err != nil {
			return s, errTimestamp
		}
	}
	if f.id != "" {
		// A full stop in it could move the border to what follows.
		if s.id, err = (place{header: f.id}).find(payload); err != nil || strings.Contains(s.id, ".") {
			return s, refuse("the id of the message is missing, or malformed")
		}
	}
	return s, nil
}

// sign writes what is signed.
func (f *format) sign(to hash.Hash, s signing, body []byte) {
	rest := f.signed
	for {
		before, after, ok := strings.Cut(rest, "{")
		to.Write([]byte(before)) // never fails
		if !ok {
			return
		}
		switch {
		case strings.HasPrefix(after, "body}"):
			to.Write(body)
		case strings.HasPrefix(after, "timestamp}"):
			to.Write([]byte(s.timestamp))
		case strings.HasPrefix(after, "id}"):
			to.Write([]byte(s.id))
		default:
			to.Write([]byte("{"))
			rest = after
			continue
		}
		_, rest, _ = strings.Cut(after, "}")
	}
}
