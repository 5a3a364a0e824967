package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

func clientDef() *node.Def {
	return &node.Def{
		Kind:    "http",
		Summary: "Calls an HTTP service, and sends its answer on.",
		Doc: `A payload that is a map of nothing but ` + "`method`, `path`, `query`, `header` and `body`" + ` (one of them is enough; the other keys of a request, such as ` + "`host`" + `, may be there and are ignored) says what to send.
Any other payload is the body. To send a map with only these keys as the body, write ` + "`{body: …}`" + ` around it.

The method is that of the payload, else that of the node, else GET, or POST if there is a body. A body of null sends none.
` + "`path`" + ` is not encoded; it continues the path of ` + "`url`" + ` and cannot leave it, so ` + "`..`" + ` in it is an error.
` + "`query`" + ` is added to that of ` + "`url`" + `. A header of the payload replaces that of the node.
The payload cannot choose the host, the credentials of ` + "`auth`, `Accept-Encoding`" + `, or what is about the connection.
The body is encoded as its ` + "`Content-Type`" + ` says (JSON, form, multipart, text); without one a string is sent as text, a binary as octets, all else as JSON.

What goes to ` + "`out`" + ` is a map of ` + "`status`, `protocol`, `header` and `body`" + `, also for a status of 400 and more. The body is decompressed, and decoded as its ` + "`Content-Type`" + ` says, like that of a request at a listener.

Without an answer, and with one that cannot be decoded, an error goes to ` + "`error`" + `, with a ` + "`code`" + `:
` + "`connect`, `tls`, `timeout`, `answer` (malformed or cut off), `body` (not what its type says), `too_large`, `redirect`, `egress`, `request`" + ` (the payload cannot be sent) or ` + "`busy`" + `.
Its status is 502, 504 for a timeout and 503 if busy; if the service has answered, ` + "`data.status`" + ` is what it said. The message has neither the query nor credentials.

Ten redirects are followed, and the eleventh is an error. To another host, port or scheme only headers that cannot be credentials go along, such as ` + "`Accept` and `Content-Type`" + `.

With ` + "`egress: public`" + `, connections to addresses that are not public are refused: of this machine, private, link-local (so also metadata services), shared (100.64.0.0/10), multicast and reserved ones, in each of their IPv6 forms.
The address is checked when the connection is made, after the name was looked up, and again for each redirect. A proxy would look up names itself, so none is used.

Packets of one process are sent concurrently, so they may arrive at the service in any order: see ` + "`limits.concurrency`" + `. The timeouts are of the real clock, also in tests with another.
A process that is part of a trace sends ` + "`traceparent`" + `.`,
		Example: `- kind: http
  name: users
  url: https://api.example.com/v1
  timeout: 5s
  ports:
    out:
      - name: body
        port: in
    error:
      - name: sorry
        port: in

- kind: snippet
  name: body
  language: cel
  code: 'status == 200 ? body : {"status": 502}'

- kind: snippet
  name: sorry
  language: cel
  code: '{"status": 503, "body": {"reason": code}}'
`,
		Config: schema.Fields(
			schema.String("url").Required().Doc("Where requests go, such as https://api.example.com/v1. It may have a query."),
			schema.String("method").Words(true, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS").Doc("The method, unless the payload has one."),
			headerField(),
			authField(),
			schema.Duration("timeout").Default("30s").Doc("How long a call may take, from its beginning to the end of the answer, with all redirects. 0 means no limit."),
			schema.Enum("redirects", "follow", "same_host", "none").Default("follow").Doc("Which redirects are followed: all, those to the same host, port and scheme, or none. One that is not followed is the answer."),
			egressField(),
			proxyField(),
			proxyAuthField(),
			stream.TLSField(tlsDoc),
			schema.Group("limits", schema.Fields(
				schema.Duration("connect_timeout").Default("10s").Doc("How long it may take to look up the name and to connect, and again for the TLS handshake. 0 means no limit."),
				schema.Duration("header_timeout").Default(time.Duration(0)).Doc("How long the service may take from the end of the request to the header of its answer. 0 means no limit."),
				schema.Duration("idle_timeout").Default("90s").Doc("How long a connection may be idle before it is closed. 0 means no limit."),
				schema.Bytes("header_bytes").Default("64KiB").Range(1<<10, 1<<30).Doc("Longest header of an answer."),
				schema.Bytes("body_bytes").Default("8MiB").Range(0, 1<<30).Doc("Longest body of an answer, compressed and decompressed. Bodies that are being decoded may take 256 MiB together, or 32 times this if that is more."),
				schema.Int("connections").Default(1024).Range(1, 1<<16).Doc("How many connections to a host there may be, idle ones included. Further calls wait for one, or share one with HTTP/2."),
				schema.Int("concurrency").Default(16).Range(1, 1<<10).Doc("How many packets of one process are sent concurrently; 1 keeps their order."),
			)).Doc("What a call may use."),
		),
		In:     []node.Port{{Name: "in", Doc: "What to send: a request, or a body."}},
		Out:    []node.Port{{Name: "out", Doc: "The answer, with status, protocol, header and body."}},
		Recall: node.Always(node.Effects), // also with method: GET, as the payload may have another
		Lint:   stream.LintTLS,
		New:    newClient,
	}
}

// maxRedirects is how many redirects of one request are followed.
const maxRedirects = 10

// A client calls one service.
type client struct {
	config      schema.Config
	ref         node.Ref
	log         *slog.Logger
	pool        *node.Pool
	base        http.Request // each request is a copy
	label       string       // the URL for messages, without its query, and without its path if that may be a secret
	auth        string       // the header Authorization; empty for none
	headers     [bodyForms]http.Header
	timeout     time.Duration
	redirects   string
	bodyBytes   int
	heldBytes   int64
	concurrency int
	transport   transportSettings

	http     *http.Client   // from Open on
	metrics  *clientMetrics // from Open on
	release  []func() error // from Open on
	bytes    atomic.Int64   // reserved for bodies of answers
	accounts sync.Pool      // of *account
}

func newClient(init *node.Init) (node.Node, error) {
	c := init.Config
	lim := c.Group("limits")
	n := &client{
		config:      c,
		ref:         init.Node,
		log:         init.Log,
		pool:        init.Pool,
		timeout:     c.Duration("timeout"),
		redirects:   c.String("redirects"),
		bodyBytes:   int(lim.Int("body_bytes")),
		heldBytes:   max(minHeld, 32*lim.Int("body_bytes")),
		concurrency: int(lim.Int("concurrency")),
		transport: transportSettings{
			public:         c.String("egress") == "public",
			proxy:          c.String("proxy"),
			proxyUser:      c.Group("proxy_auth").String("user"),
			proxyPassword:  c.Group("proxy_auth").String("password"),
			connectTimeout: lim.Duration("connect_timeout"),
			headerTimeout:  lim.Duration("header_timeout"),
			idleTimeout:    lim.Duration("idle_timeout"),
			headerBytes:    lim.Int("header_bytes"),
			connections:    int(lim.Int("connections")),
		},
	}
	n.accounts.New = func() any { return newAccount(n) }
	var found diag.List
	add := func(d *diag.Diagnostic) {
		if d != nil {
			found.Add(d)
		}
	}
	add(n.setURL(c, "http"))
	add(n.setMethod(c))
	add(n.setAuth(c))
	add(n.setHeader(c))
	add(n.setTransport(c))
	if err := found.Err(); err != nil {
		return nil, err
	}
	return n, nil
}

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
	case auth.Has("token") && (token == "" || !validHeaderValue(token)):
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
	if _, err := setHeaders(h, c.Value("header"), isServerHeader); err != nil {
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

// Open makes the connection pool, or takes that of the generation before if it has the
// same settings.
func (n *client) Open(context.Context) error {
	t := n.transport
	var err error
	if t.tls, err = t.tls.Load(); err != nil {
		return stream.Place(err, n.config)
	}
	owner := n.ref.Namespace + "/" + n.ref.String()
	sum := sha256.Sum256(fmt.Appendf(nil, "%#v", t)) // a key is shown in messages, and t contains secrets
	transport, release, err := node.Acquire(n.pool, "web.client "+owner+" "+hex.EncodeToString(sum[:]), t.open)
	if err != nil {
		return stream.Place(err, n.config)
	}
	n.release = append(n.release, release)
	m, release, err := node.Acquire(n.pool, "web.client counts "+owner, func() (*clientMetrics, error) { return new(clientMetrics), nil })
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.metrics, n.release = m, append(n.release, release)
	n.http = &http.Client{Transport: transport, CheckRedirect: n.checkRedirect}
	return nil
}

// Close closes the idle connections, unless a later generation uses them.
func (n *client) Close() error {
	var errs []error
	for _, release := range n.release {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Concurrency is how many packets of one process are sent concurrently.
func (n *client) Concurrency() int { return n.concurrency }

// Measure reports the calls of the node.
func (n *client) Measure(report func(node.Metric)) { n.metrics.measure(report) }

// Receive makes one call.
func (n *client) Receive(_ node.Process, pkt node.Packet) node.Result {
	return node.Block(func(ctx context.Context) node.Result { return n.call(ctx, pkt) })
}

// call makes one call. The deadlines are of the network, so they are not measured by
// the clock of the engine.
func (n *client) call(ctx context.Context, pkt node.Packet) node.Result {
	limited := ctx
	if n.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, n.timeout)
		defer cancel()
	}
	req, err := n.newRequest(limited, pkt.Payload)
	if err != nil {
		return node.Fail(n.failure(codeRequest, 0, err))
	}
	start := time.Now()
	n.metrics.inFlight.Add(1)
	defer n.metrics.inFlight.Add(-1)
	resp, err := n.http.Do(req)
	if err != nil {
		n.metrics.add(0, time.Since(start))
		return node.Fail(n.describe(ctx, limited, err))
	}
	answer, err := n.read(resp)
	if closeErr := resp.Body.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		n.metrics.add(0, time.Since(start))
		return node.Fail(withStatus(n.describe(ctx, limited, err), resp.StatusCode))
	}
	n.metrics.add(resp.StatusCode, time.Since(start))
	return node.Send(0, answer)
}

// checkRedirect decides on a redirect, and removes the headers that are not for another
// host. Once a redirect has left the host, one back to it does not get them either.
func (n *client) checkRedirect(req *http.Request, via []*http.Request) error {
	first := via[0].URL
	away := !sameOrigin(first, req.URL)
	for _, r := range via[1:] {
		away = away || !sameOrigin(first, r.URL)
	}
	switch {
	case n.redirects == "none" || n.redirects == "same_host" && !sameOrigin(first, req.URL):
		return http.ErrUseLastResponse
	case len(via) > maxRedirects:
		return errRedirects
	case req.URL.Scheme != "http" && req.URL.Scheme != "https":
		return errRedirectScheme
	}
	delete(req.Header, "Referer") // net/http has set it, and its query may be a secret
	if away {
		for name := range req.Header {
			if !isHarmless(name) {
				delete(req.Header, name)
			}
		}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && portOf(a) == portOf(b)
}

func portOf(u *url.URL) string {
	if p := u.Port(); p != "" {
		return p
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// isHarmless reports whether a header cannot be a credential, and may go to a host that
// the workflow does not name.
func isHarmless(name string) bool {
	switch name {
	case "Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Cache-Control", "Content-Encoding", "Content-Language", "Content-Type",
		"If-Match", "If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Range", "Traceparent", "Tracestate", "User-Agent":
		return true
	}
	return false
}

var _ interface {
	node.Opener
	node.Concurrent
	node.Measured
	io.Closer
} = (*client)(nil)
