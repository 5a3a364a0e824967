package web

import (
	"net/http"
	"net/textproto"
	"slices"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/schema"
)

// A fixedHeader is a header that each answer has, unless the workflow has set it. Vary is
// added to what the answer has: each of them says what the answer depends on.
type fixedHeader struct {
	name string // canonical
	list []string
}

// secureHeaders are those of the field secure, without TLS.
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

// setFixed sets the headers that each answer has, unless the workflow has set them: the id
// of the request, if it has one, and those of the listener's fields.
func (x *exchange) setFixed(h http.Header, id string) {
	if x.parts != nil { // what nodes have left for it
		x.parts.slot.AddTo(h)
	}
	if id != "" && len(h[headerRequestID]) == 0 {
		h[headerRequestID] = []string{id}
	}
	e := &x.gen.edge
	for i := range e.fixed {
		switch f := &e.fixed[i]; {
		case len(h[f.name]) == 0:
			h[f.name] = f.list
		case f.name == "Vary":
			vary(h, f.list)
		}
	}
	if e.hsts && x.from.Scheme == "https" && len(h["Strict-Transport-Security"]) == 0 {
		h["Strict-Transport-Security"] = headerHSTS
	}
	if alt := x.s.altSvc.Load(); alt != nil && x.r.ProtoMajor < 3 && len(h["Alt-Svc"]) == 0 {
		h["Alt-Svc"] = *alt
	}
	if e.cors != nil {
		e.cors.mark(h, x.r)
	}
}
