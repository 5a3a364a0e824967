// Package answer makes the answers of a listener: a response, or an error, becomes a status,
// headers and a body, which is compressed.
//
// Read encode.go first. settings.go has what the fields of a listener say of all answers: their
// headers, which pages may read them (cors.go), and which are compressed (compress.go). The
// package must not know how an answer is sent.
package answer

import (
	"net/http"
	"net/textproto"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
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

// HeaderRequestID is the header that an id of a request comes in, and leaves in.
const HeaderRequestID = "X-Request-Id"

// Header values that many answers share. net/http does not change them.
var (
	Text   = []string{envelope.TypeText}
	Octets = []string{envelope.TypeOctets}
	Close  = []string{"close"}

	headerJSON    = []string{envelope.TypeJSON}
	headerProblem = []string{envelope.TypeProblem}
)

// What answers may depend on, for [Vary].
var (
	VaryAccept   = []string{"Accept"}
	varyEncoding = []string{"Accept-Encoding"}
	varyOrigin   = []string{"Origin"}
)

// A fixedHeader is a header that each answer has, unless the workflow has set it. Vary is
// added to what the answer has: each of them says what the answer depends on.
type fixedHeader struct {
	name string // canonical
	list []string
}

// secureHeaders are the headers of the field secure, without TLS.
func secureHeaders() []fixedHeader {
	return []fixedHeader{
		{"Content-Security-Policy", []string{"frame-ancestors 'self'"}},
		{"Referrer-Policy", []string{"strict-origin-when-cross-origin"}},
		{"X-Content-Type-Options", []string{"nosniff"}},
	}
}

// headerHSTS is the header of the field secure over HTTPS: two years.
var headerHSTS = []string{"max-age=63072000"}

// newFixedHeaders returns the headers of the fields secure and headers, of which the latter
// wins. A header that is null there is not set.
func newFixedHeaders(c schema.Config) ([]fixedHeader, error) {
	h := make(http.Header)
	if _, err := envelope.SetHeaders(h, c.Value("headers"), envelope.ServerHeader); err != nil {
		return nil, c.Errorf("headers", diag.CodeBadValue, "%v", err).WithHint("write a map of text such as {Cache-Control: no-store}")
	}
	if c.Bool("secure") {
		for _, f := range secureHeaders() {
			if _, ok := h[f.name]; !ok && !leavesOut(c, f.name) {
				h[f.name] = f.list
			}
		}
	}
	var fixed []fixedHeader
	for name, list := range h {
		fixed = append(fixed, fixedHeader{name, slices.Clip(list)})
	}
	return fixed, nil
}

// leavesOut reports whether a header is null in the field headers.
func leavesOut(c schema.Config, header string) bool {
	for name, v := range c.Value("headers").Fields() {
		if v.IsNull() && textproto.CanonicalMIMEHeaderKey(name) == header {
			return true
		}
	}
	return false
}

// Set sets the headers that each answer has, unless the workflow has set them: the id of the
// request, if it is not empty, and the ones of the settings. The scheme is the client's.
func (s *Settings) Set(h http.Header, r *http.Request, id, scheme string) {
	if id != "" && len(h[HeaderRequestID]) == 0 {
		h[HeaderRequestID] = []string{id}
	}
	for i := range s.fixed {
		switch f := &s.fixed[i]; {
		case len(h[f.name]) == 0:
			h[f.name] = f.list
		case f.name == "Vary":
			Vary(h, f.list)
		}
	}
	if s.hsts && scheme == "https" && len(h["Strict-Transport-Security"]) == 0 {
		h["Strict-Transport-Security"] = headerHSTS
	}
	if s.CORS != nil {
		s.CORS.mark(h, r)
	}
}
