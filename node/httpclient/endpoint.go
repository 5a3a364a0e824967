package httpclient

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
)

// An Endpoint is a service, as the fields of a node describe it. It is immutable.
type Endpoint struct {
	URL      *url.URL
	Host     string      // that the service sees
	Header   http.Header // of requests, with the credentials; they may replace all but these
	HasAuth  bool        // there are credentials, in the header Authorization
	Settings Settings

	// Label begins messages: the URL, a colon and a space. It has no query, and no path
	// if that may be a secret.
	Label string
}

// NewEndpoint reads the field url, whose scheme is "http" or "ws", or that with TLS, and
// the [Fields] of a config. s has what they do not say. The error has all that is wrong.
func NewEndpoint(c schema.Config, scheme string, s Settings) (*Endpoint, error) {
	s.Public = c.String("egress") == "public"
	s.Proxy = c.String("proxy")
	s.ProxyUser, s.ProxyPassword = c.Group("proxy_auth").String("user"), c.Group("proxy_auth").String("password")
	e := &Endpoint{Settings: s, Header: make(http.Header)}
	var found diag.List
	for _, d := range []*diag.Diagnostic{e.setURL(c, scheme), e.setHeader(c), e.setAuth(c), e.setTransport(c)} {
		if d != nil {
			found.Add(d)
		}
	}
	return e, found.Err()
}

// Request returns a request to the service, without a header.
func (e *Endpoint) Request() http.Request {
	return http.Request{URL: e.URL, Host: e.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// setURL checks the field url. Nothing of it is in a message, as it may be a secret.
func (e *Endpoint) setURL(c schema.Config, scheme string) *diag.Diagnostic {
	bad := func(text string) *diag.Diagnostic {
		return c.Errorf("url", diag.CodeBadValue, "%s", text).WithHint("write one such as %ss://api.example.com/v1", scheme)
	}
	u, err := field.ParseURL(c.String("url"), scheme, scheme+"s")
	switch {
	case errors.Is(err, field.ErrCredentials):
		return bad(err.Error()).WithHint("write them as auth: {user: …, password: …}")
	case err != nil:
		return bad(err.Error())
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && e.Settings.Public && !isPublic(addr) {
		return bad("egress: public does not allow this address").WithHint("remove egress, or call a public address")
	}
	e.URL, e.Host = u, u.Host
	e.Label = u.Scheme + "://" + u.Host
	if !c.Hidden("url") {
		e.Label += u.EscapedPath()
	}
	e.Label += ": "
	return nil
}

func (e *Endpoint) setAuth(c schema.Config) *diag.Diagnostic {
	if !c.Has("auth") {
		return nil
	}
	auth := c.Group("auth")
	user, password, token := auth.String("user"), auth.String("password"), auth.String("token")
	const hint = "write user and password, or token"
	switch {
	case auth.Has("token") && (auth.Has("user") || auth.Has("password")):
		return auth.Errorf("token", diag.CodeBadValue, "both a user and a token").WithHint(hint)
	case auth.Has("token") && (token == "" || !envelope.ValidHeaderValue(token)):
		return auth.Errorf("token", diag.CodeBadValue, "the token is empty or has control characters").WithHint("check the variable that it comes from")
	case auth.Has("token"):
		e.Header["Authorization"] = []string{"Bearer " + token}
	case user == "":
		return auth.Errorf("", diag.CodeBadValue, "neither a user nor a token").WithHint(hint)
	case strings.Contains(user, ":"):
		return auth.Errorf("user", diag.CodeBadValue, "the user of basic authentication cannot contain a colon").WithHint("put what is after the colon into password")
	default:
		e.Header["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))}
	}
	e.HasAuth = true
	return nil
}

// SetHeader adds what the field header of a config has: a map of strings or lists of strings.
func SetHeader(h http.Header, c schema.Config) *diag.Diagnostic {
	// The error of SetHeaders may contain what a template made.
	if _, err := envelope.SetHeaders(h, c.Value("header"), envelope.ServerHeader); err != nil {
		return c.Errorf("header", diag.CodeBadValue, "must be a map of text").WithHint("write one such as {X-Team: shop}")
	}
	return nil
}

func (e *Endpoint) setHeader(c schema.Config) *diag.Diagnostic {
	h := e.Header
	if d := SetHeader(h, c); d != nil {
		return d
	}
	if host := h.Get("Host"); host != "" {
		e.Host = host
		delete(h, "Host")
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{"uniflow"}
	}
	return nil
}

func (e *Endpoint) setTransport(c schema.Config) *diag.Diagnostic {
	if err := e.Settings.checkProxy(); err != nil {
		return c.Errorf("proxy", diag.CodeBadValue, "%s", err).WithHint("write one such as http://proxy.example.com:3128, or none")
	}
	if c.Has("proxy_auth") && (e.Settings.Proxy == "" || e.Settings.Proxy == NoProxy) {
		return c.Errorf("proxy_auth", diag.CodeBadValue, "credentials without a proxy").WithHint("add proxy, or remove proxy_auth")
	}
	if e.Settings.Public && e.Settings.Proxy != "" && e.Settings.Proxy != NoProxy {
		return c.Errorf("proxy", diag.CodeBadValue, "a proxy looks up names itself, so egress: public cannot check the addresses").
			WithHint("remove proxy, or remove egress and let the proxy refuse addresses")
	}
	var err error
	var d *diag.Diagnostic
	e.Settings.TLS, err = field.TLSOf(c)
	errors.As(err, &d)
	return d
}
