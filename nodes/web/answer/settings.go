// Package answer makes the answers of a listener: a response, or an error, becomes a status,
// headers and a body, which is compressed.
//
// Read encode.go first. settings.go has what the fields of a listener say of all answers: their
// headers (headers.go), which pages may read them (cors.go), and which are compressed
// (compress.go). The package must not know how an answer is sent.
package answer

import (
	"github.com/uniflow-labs/uniflow/schema"
)

// Settings are what the fields of a listener say of all answers. They are immutable.
type Settings struct {
	CORS        *CORS // nil without
	fixed       []fixedHeader
	hsts        bool // over HTTPS
	compression compression
}

// Fields are the fields of a listener that [New] reads.
func Fields() []*schema.Field {
	return []*schema.Field{
		corsField(),
		schema.Any("headers").Doc("Headers of each answer that does not have them: a map of strings or lists of strings."),
		schema.Bool("secure").Default(false).Doc("Whether answers have headers that make browsers careful: `X-Content-Type-Options: nosniff`, `Content-Security-Policy: frame-ancestors 'self'`, `Referrer-Policy: strict-origin-when-cross-origin` and, over HTTPS, `Strict-Transport-Security`. `headers`, and answers, may have others; null in `headers` leaves one out."),
		schema.Group("compress", schema.Fields(
			schema.Bytes("min_bytes").Default("1KiB").Range(0, 1<<30).Doc("The smallest body that is compressed."),
			schema.Strings("types").Doc("The media types that are compressed, such as `application/json` or `text/*`. If left out: text, JSON, XML, JavaScript and others that get smaller."),
			schema.Enum("level", "none", "fast", "default", "best").Default("default").Doc("How hard to try."),
		)).Doc("How answers are compressed, for clients that accept it."),
	}
}

// New reads the settings of a listener.
func New(c schema.Config) (s Settings, err error) {
	if s.fixed, err = newFixedHeaders(c); err != nil {
		return s, err
	}
	s.hsts = c.Bool("secure") && !leavesOut(c, "Strict-Transport-Security")
	if s.CORS, err = newCORS(c); err != nil {
		return s, err
	}
	s.compression, err = newCompression(c.Group("compress"))
	return s, err
}
