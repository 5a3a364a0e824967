package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/openapi"
	"github.com/uniflow-labs/uniflow/value"
)

// Open finds the provider.
func (n *login) Open(context.Context) error { return n.tokens.open() }

// Close lets the provider go.
func (n *login) Close() error { return n.tokens.Close() }

// Ready implements [node.Readier].
func (n *login) Ready() error { return n.tokens.ready() }

func refused(code, format string, args ...any) *node.Error {
	return &node.Error{Err: fmt.Errorf(format, args...), Status: http.StatusForbidden, Code: code, Public: true}
}

var (
	errNoSession = errors.New("a session is needed")
	errCrossSite = refused("cross_site", "another site has caused the request")
	errProvider  = errors.New("the provider cannot be asked")
)

// unavailable is the error of a provider that does not answer as it should.
func unavailable(err error) *node.Error {
	return &node.Error{Err: fmt.Errorf("%w: %w", errProvider, err), Status: http.StatusServiceUnavailable, Code: "provider", RetryAfter: patience}
}

// Receive implements [node.Node].
func (n *login) Receive(p node.Process, pkt node.Packet) node.Result {
	path := textClaim(pkt.Payload, "path")
	method := textClaim(pkt.Payload, "method")
	if own, ok := strings.CutPrefix(path, n.path+"/"); ok {
		switch {
		case own != "login" && own != "callback" && own != "logout":
		case method != http.MethodGet && !(own == "logout" && method == http.MethodPost):
			allowed := "GET"
			if own == "logout" {
				allowed = "GET, POST"
			}
			handover.SetHeader(p.Context(), "Allow", allowed)
			return node.Fail(&node.Error{Err: errors.New("the method is not allowed"), Status: http.StatusMethodNotAllowed})
		case own == "login":
			target, _ := only(pkt.Payload, "query", "return_to")
			return node.Block(func(ctx context.Context) node.Result { return n.begin(ctx, pkt.Payload, local(target)) })
		case own == "callback":
			return node.Block(func(ctx context.Context) node.Result { return n.end(ctx, pkt.Payload) })
		default:
			return n.logout(pkt.Payload)
		}
	}
	s, text, ok := n.session(pkt.Payload)
	switch {
	case !ok && !n.required:
		return node.Send(0, pkt.Payload)
	case !ok:
		return n.missing(pkt.Payload, method)
	case changes(method) && n.crossSite(pkt.Payload):
		return node.Fail(errCrossSite)
	case s.Renew != 0 && s.Refresh != "" && n.clock.Now().Unix() >= s.Renew:
		return node.Block(func(ctx context.Context) node.Result { return n.renewed(ctx, pkt.Payload, method, s, text) })
	}
	return n.pass(pkt.Payload, s)
}

// pass sends a request of a session on.
func (n *login) pass(payload value.Value, s *session) node.Result {
	claims, err := value.ParseJSON(s.Claims)
	if err != nil {
		return node.Fail(err)
	}
	return node.Send(0, payload.With("auth", authShape.Map(value.String(s.Subject), texts(s.Scopes), claims, value.String("login"))))
}

// missing answers a request without a session: a browser that opens a page is sent to the
// provider.
func (n *login) missing(payload value.Value, method string) node.Result {
	if method == http.MethodGet && navigates(payload) {
		return node.Block(func(ctx context.Context) node.Result { return n.begin(ctx, payload, target(ctx, payload)) })
	}
	return node.Fail(&node.Error{
		Err: errNoSession, Status: http.StatusUnauthorized, Code: "credentials", Public: true,
		Challenges: []string{"Cookie realm=" + quoted(n.url.Host) + ", cookie-name=" + quoted(n.seal.name)},
	})
}

// navigates reports whether a browser opens a page. Browsers say so; without that, what
// accepts HTML is taken for one.
func navigates(payload value.Value) bool {
	mode, given := only(payload, "header", "Sec-Fetch-Mode")
	if given > 0 {
		return mode == "navigate"
	}
	accept, _ := only(payload, "header", "Accept")
	return strings.Contains(accept, "text/html")
}

// target returns the path and the query of a request, to come back to. A listener has them
// as they were sent.
func target(ctx context.Context, payload value.Value) string {
	if r := handover.Request(ctx); r != nil {
		return local(r.URL.RequestURI())
	}
	u := url.URL{Path: textClaim(payload, "path")}
	query := url.Values{}
	all, _ := payload.Get("query")
	for name, list := range all.Fields() {
		for _, v := range list.Elems() {
			text, _ := v.AsString()
			query.Add(name, text)
		}
	}
	u.RawQuery = query.Encode()
	return local(u.String())
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// crossSite reports whether a browser says that another site has caused a request.
func (n *login) crossSite(payload value.Value) bool {
	if site, given := only(payload, "header", "Sec-Fetch-Site"); given > 0 {
		return site != "same-origin" && site != "none"
	}
	origin, given := only(payload, "header", "Origin")
	return given > 0 && origin != n.url.String()
}

// redirect sends a browser elsewhere, with cookies.
func redirect(status int64, to string, cookies ...string) node.Result {
	return node.Answer(openapi.Object(
		"status", value.Int(status),
		"header", openapi.Object("Location", to, "Set-Cookie", texts(cookies), "Cache-Control", "no-store", "Referrer-Policy", "no-referrer"),
		"body", "",
	))
}

// setCookie adds a cookie to the answer of a process.
func setCookie(ctx context.Context, line string) bool {
	return handover.SetHeader(ctx, "Set-Cookie", line)
}
