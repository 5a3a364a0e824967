package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// Inflate undoes the content encoding of a body (identity, gzip or zstd), to at
// most limit bytes.
func Inflate(body []byte, encoding string, limit int64) ([]byte, error) {
	var r io.Reader
	switch encoding {
	case "", "identity":
		return body, nil
	case "gzip":
		z, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, fmt.Errorf("gzip: %w", err)
		}
		r = z
	case "zstd":
		z, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("zstd: %w", err)
		}
		defer z.Close()
		r = z
	default:
		return nil, fmt.Errorf("content encoding %q", encoding)
	}
	out, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", encoding, err)
	}
	if int64(len(out)) > limit {
		return nil, errTooLarge
	}
	return out, nil
}

// Split returns the encoded events of a body: of NDJSON, whose last event too
// ends with a newline, or of a JSON array. The results share body's memory, or
// are copies.
func Split(body []byte, contentType string) ([][]byte, error) {
	kind, _, _ := strings.Cut(contentType, ";")
	switch strings.TrimSpace(kind) {
	case "application/x-ndjson":
		if len(body) == 0 || body[len(body)-1] != '\n' {
			return nil, fmt.Errorf("ndjson: %d bytes that do not end with a newline", len(body))
		}
		return bytes.Split(body[:len(body)-1], []byte("\n")), nil
	case "application/json":
		var list []json.RawMessage
		if err := json.Unmarshal(body, &list); err != nil {
			return nil, fmt.Errorf("array: %w", err)
		}
		if len(list) == 0 {
			return nil, fmt.Errorf("array: no events")
		}
		events := make([][]byte, len(list))
		for i, raw := range list {
			events[i] = raw
		}
		return events, nil
	}
	return nil, fmt.Errorf("content type %q", contentType)
}
