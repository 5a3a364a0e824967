package web

import (
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/schema"
)

// An edge is what the fields of a listener add to each request and each answer. It is
// immutable.
type edge struct {
	proxies     request.Proxies
	fixed       []fixedHeader
	hsts        bool  // over HTTPS
	cors        *cors // nil without
	compression compression
}

func edgeFields() []*schema.Field {
	return []*schema.Field{
		schema.Strings("trusted_proxies").Doc("The addresses of proxies, such as `10.0.0.0/8` or `::1`. Requests that they pass on have the client, scheme and host of `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded`; a proxy must set or remove them. From others, these headers mean nothing."),
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

func newEdge(c schema.Config) (e edge, err error) {
	for _, text := range c.Strings("trusted_proxies") {
		p, err := request.ParseProxy(text)
		if err != nil {
			return e, c.Errorf("trusted_proxies", diag.CodeBadValue, "%q is neither an address nor a range of addresses", text).WithHint("write one such as 10.0.0.0/8 or 192.0.2.1")
		}
		e.proxies = append(e.proxies, p)
	}
	if e.fixed, err = newFixedHeaders(c); err != nil {
		return e, err
	}
	e.hsts = c.Bool("secure") && !leavesOut(c, "Strict-Transport-Security")
	if e.cors, err = newCORS(c); err != nil {
		return e, err
	}
	e.compression, err = newCompression(c.Group("compress"))
	return e, err
}

// A compression says which answers are compressed.
type compression struct {
	minBytes int
	types    []string // lower case; type/* is all of a type. nil is the ones that get smaller
	level    int      // index of the settings of each coding, or levelNone
}

const levelNone = -1

func newCompression(c schema.Config) (compression, error) {
	levels := map[string]int{"none": levelNone, "fast": 0, "default": 1, "best": 2}
	m := compression{minBytes: int(c.Int("min_bytes")), level: levels[c.String("level")]}
	for _, text := range c.Strings("types") {
		major, minor, ok := strings.Cut(strings.ToLower(text), "/")
		if !ok || !envelope.ValidToken(major) || !envelope.ValidToken(minor) {
			return m, c.Errorf("types", diag.CodeBadValue, "%q is not a media type", text).WithHint("write one such as application/json or text/*")
		}
		m.types = append(m.types, major+"/"+minor)
	}
	return m, nil
}

// admits reports whether bodies of a media type are compressed.
func (m *compression) admits(contentType string) bool {
	if m.types == nil {
		return compressible(contentType)
	}
	name, _, _ := strings.Cut(contentType, ";")
	name = strings.ToLower(strings.TrimSpace(name))
	for _, pattern := range m.types {
		major, all := strings.CutSuffix(pattern, "*")
		if name == pattern || all && (major == "*/" || strings.HasPrefix(name, major)) {
			return true
		}
	}
	return false
}
