package web

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node/envelope"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

// setURL checks the field url, whose scheme is "http" or "ws", or that with TLS. Nothing
// of it is in a message, as it may be a secret.
func (n *client) setURL(c schema.Config, scheme string) *diag.Diagnostic {
	bad := func(format string) *diag.Diagnostic {
		return c.Errorf("url", diag.CodeBadValue, "%s", format).WithHint("write one such as %ss://api.example.com/v1", scheme)
	}
	u, err := url.Parse(c.String("url"))
	switch {
	case err != nil:
		return bad("not a URL")
	case u.Scheme != scheme && u.Scheme != scheme+"s":
		return bad("want a URL of " + scheme + " or " + scheme + "s")
	case u.Hostname() == "":
		return bad("the URL has no host")
	case u.User != nil:
		return bad("a URL must not contain credentials").WithHint("write them as auth: {user: …, password: …}")
	case u.Fragment != "":
		return bad("a URL of a service has no fragment")
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && n.transport.public && !isPublic(addr) {
		return bad("egress: public does not allow this address").WithHint("remove egress, or call a public address")
	}
	n.base = http.Request{URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	n.label = u.Scheme + "://" + u.Host
	if !c.Hidden("url") {
		n.label += u.EscapedPath()
	}
	n.label += ": "
	return nil
}

func (n *client) setMethod(c schema.Config) *diag.Diagnostic {
	n.base.Method = strings.ToUpper(c.String("method"))
	if n.base.Method != "" && !isRequestMethod(n.base.Method) {
		return c.Errorf("method", diag.CodeBadValue, "not a method that can be sent").WithHint("write one such as GET or POST")
	}
	return nil
}

func (n *client) setAuth(c schema.Config) *diag.Diagnostic {
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
		n.auth = "Bearer " + token
	case user == "":
		return auth.Errorf("", diag.CodeBadValue, "neither a user nor a token").WithHint(hint)
	case strings.Contains(user, ":"):
		return auth.Errorf("user", diag.CodeBadValue, "the user of basic authentication cannot contain a colon").WithHint("put what is after the colon into password")
	default:
		n.auth = "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	return nil
}

// setHeader makes the headers of requests that have none of their own, one for each
// form of body.
func (n *client) setHeader(c schema.Config) *diag.Diagnostic {
	h := make(http.Header)
	// The error of setHeaders may contain what a template made.
	if _, err := envelope.SetHeaders(h, c.Value("header"), envelope.ServerHeader); err != nil {
		return c.Errorf("header", diag.CodeBadValue, "must be a map of text").WithHint("write one such as {X-Team: shop}")
	}
	if host := h.Get("Host"); host != "" {
		n.base.Host = host
		delete(h, "Host")
	}
	if _, ok := h["User-Agent"]; !ok {
		h["User-Agent"] = []string{"uniflow"}
	}
	if _, ok := h["Accept-Encoding"]; !ok {
		h["Accept-Encoding"] = []string{"gzip, deflate, br, zstd"}
	}
	if n.auth != "" {
		h["Authorization"] = []string{n.auth}
	}
	_, typed := h["Content-Type"]
	for form, contentType := range [...][]string{noBody: nil, textBody: headerText, octetsBody: headerOctets, jsonBody: headerJSON} {
		n.headers[form] = h
		if contentType != nil && !typed {
			n.headers[form] = h.Clone()
			n.headers[form]["Content-Type"] = contentType
		}
	}
	return nil
}

func (n *client) setTransport(c schema.Config) *diag.Diagnostic {
	if err := n.transport.checkProxy(); err != nil {
		return c.Errorf("proxy", diag.CodeBadValue, "%s", err).WithHint("write one such as http://proxy.example.com:3128, or none")
	}
	if c.Has("proxy_auth") && (n.transport.proxy == "" || n.transport.proxy == proxyNone) {
		return c.Errorf("proxy_auth", diag.CodeBadValue, "credentials without a proxy").WithHint("add proxy, or remove proxy_auth")
	}
	if n.transport.public && n.transport.proxy != "" && n.transport.proxy != proxyNone {
		return c.Errorf("proxy", diag.CodeBadValue, "a proxy looks up names itself, so egress: public cannot check the addresses").
			WithHint("remove proxy, or remove egress and let the proxy refuse addresses")
	}
	var err error
	var d *diag.Diagnostic
	n.transport.tls, err = stream.NewTLS(c)
	errors.As(err, &d)
	return d
}
