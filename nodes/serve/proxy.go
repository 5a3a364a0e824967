package serve

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/handover"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed proxy.md
var proxyPage string

func proxyDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "proxy",
		Summary: "Answers the request of a listener with the answer of another server.",
		Page:    node.ReadPage(proxyPage),
		Config: schema.Fields(
			schema.Strings("target").Required().Doc("The URL of the server, such as `http://127.0.0.1:8081/base`; several are used in turn. The path of the request is appended."),
			schema.String("strip").Doc("What is removed from the beginning of the path, such as `/api`. A path that does not begin with it is not found."),
			schema.String("host").Default("target").Words(true, "target", "client").Doc("The `Host` that the server sees: that of the `target`, that of the `client`, or a name."),
			schema.Any("header").Secret().Doc("Headers of the request: a map of text, in place of what the client has sent. Texts may hold expressions, such as `${self.auth.subject}`; a header of null is removed."),
			schema.Any("answer_header").Doc("Headers of the answer: a map of text, in place of what the server has sent; a header of null is removed."),
			schema.Int("retries").Default(1).Range(0, 10).Doc("How often a request is sent again, at most."),
			schema.Bytes("body_bytes").Range(0, 1<<50).Doc("Longest body of a request, as it is sent; past it the answer is 413. `limits.body_bytes` of the listener unless set. 0 means no limit."),
			schema.Duration("timeout").Default(30*time.Second).Doc("How long until the answer begins, retries included. While a body passes through, the time begins again with each piece that the target takes, and the time in which the client is waited for does not count. 0 means no limit."),
			schema.Duration("connect_timeout").Default(5*time.Second).Doc("How long it may take to connect, and again for the TLS handshake."),
			schema.Int("connections").Default(4096).Range(1, 1<<16).Doc("How many connections to a server there may be, WebSockets included. Further requests wait for one."),
			field.NewTLS("How servers are trusted over HTTPS. The files are read when the node starts, so also at each reload."),
		),
		In:     []node.Port{{Name: "in", Doc: "The request of a listener."}},
		Error:  "No server has answered.",
		Traits: node.Fixed(node.Traits{Is: node.SendsParts | node.NeedsRaw | node.IgnoresBody, Needs: []node.Need{handover.Needed()}}),
		Lint:   field.LintTLS,
		Recall: node.Always(node.Attached),
		New:    func(init *node.Init) (node.Node, error) { return newProxy(init, o) },
	}
}

// A proxy sends requests on.
type proxy struct {
	ref      node.Ref
	pool     *node.Pool
	config   schema.Config
	clock    node.Clock
	strip    string
	host     string            // empty for the host of the target
	client   bool              // the host is the one that the client has sent
	header   template.Template // a map of text or null
	answered []headerChange
	timeout  time.Duration
	settings upstreamSettings

	bodyBytes int64 // -1 for the limit of the listener

	upstream *upstream // from Open on
	release  func() error
}

// A headerChange is what becomes of a header.
type headerChange struct {
	name   string
	values []string // nil removes it
}

func newProxy(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	n := &proxy{
		ref: init.Node, pool: init.Pool, config: c, clock: init.Clock, timeout: c.Duration("timeout"), bodyBytes: bodyLimit(c),
		settings: upstreamSettings{
			retries: int(c.Int("retries")),
			http: httpclient.Settings{
				Proxy: httpclient.NoProxy, ConnectTimeout: c.Duration("connect_timeout"), IdleTimeout: 90 * time.Second,
				HeaderBytes: 1 << 20, Connections: int(c.Int("connections")), Raw: true, // the answer is the client's
			},
		},
	}
	var err error
	if n.strip, err = stripOf(c); err != nil {
		return nil, err
	}
	if n.settings.targets, err = targetsOf(c); err != nil {
		return nil, err
	}
	switch host := c.String("host"); host {
	case "target":
	case "client":
		n.client = true
	default:
		if !validHost(host) {
			return nil, c.Errorf("host", diag.CodeBadValue, "want target, client, or the name of a host")
		}
		n.host = host
	}
	if n.header, err = template.OfField(c, "header", template.Compiler(o.Languages, o.Language)); err != nil {
		return nil, err
	}
	if raw := c.Raw("header"); raw != nil && raw.Kind != schema.RawMap {
		return nil, c.Errorf("header", diag.CodeBadValue, "must be a map of text")
	}
	if n.header.Constant() {
		doc, _, err := n.header.Render(context.Background(), value.Null())
		if err == nil {
			_, err = changesOf(doc)
		}
		if err != nil {
			return nil, c.Errorf("header", diag.CodeBadValue, "%v", err)
		}
	}
	if n.answered, err = changesOf(c.Value("answer_header")); err != nil {
		return nil, c.Errorf("answer_header", diag.CodeBadValue, "%v", err)
	}
	n.settings.http.TLS, err = field.TLSOf(c)
	return n, err
}

// Open makes the connections, or shares the connections of the generation before.
func (n *proxy) Open(context.Context) error {
	s := n.settings
	var err error
	if s.http.TLS, err = s.http.TLS.Load(); err != nil {
		return field.Place(err, n.config)
	}
	n.upstream, n.release, err = node.Acquire(n.pool, "serve.proxy "+n.ref.Namespace+"/"+n.ref.String()+" "+field.Sum(s), func() (*upstream, error) {
		return newUpstream(s, n.clock)
	})
	return field.Place(err, n.config)
}

// Close closes the connections, unless a later generation uses them.
func (n *proxy) Close() error { return n.release() }

// Receive sends a request on, and leaves what has come back until then.
func (n *proxy) Receive(p node.Process, pkt node.Packet) node.Result {
	r := handover.Request(p.Context())
	if r == nil {
		return node.Fail(errors.New("want the request of a listener: there is nothing else to send on"))
	}
	t := &transit{proxy: n}
	if err := t.read(p.Context(), r, pkt.Payload); err != nil {
		return node.Fail(err)
	}
	return node.Block(func(ctx context.Context) node.Result {
		if err := t.begin(ctx, r); err != nil {
			return node.Fail(err)
		}
		if !handover.Leave(ctx, t) {
			return node.Fail(errors.Join(errTaken, t.Close()))
		}
		return node.None()
	})
}

// changesOf reads a map of headers.
func changesOf(v value.Value) ([]headerChange, error) {
	if v.IsNull() {
		return nil, nil
	}
	if v.Kind() != value.KindMap {
		return nil, errors.New("must be a map of text")
	}
	var changes []headerChange
	for name, field := range v.Fields() {
		key := http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("%.100q is not the name of a header", name)
		}
		switch key {
		case "Connection", "Content-Length", "Host", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
			return nil, fmt.Errorf("%s is up to the connection", key)
		}
		change := headerChange{name: key}
		switch field.Kind() {
		case value.KindNull:
		case value.KindString, value.KindInt, value.KindUint, value.KindFloat, value.KindBool:
			text := field.String()
			if !httpguts.ValidHeaderFieldValue(text) {
				return nil, fmt.Errorf("%s has characters that a header cannot have", key)
			}
			change.values = []string{text}
		default:
			return nil, fmt.Errorf("%s is a %s, want text", key, field.Kind())
		}
		changes = append(changes, change)
	}
	return changes, nil
}

// validHost reports whether a text may be a host with or without a port.
func validHost(host string) bool {
	return host != "" && !strings.ContainsFunc(host, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`/\?#@%"<>`, r) })
}

func change(h http.Header, changes []headerChange) {
	for _, c := range changes {
		if c.values == nil {
			delete(h, c.name)
		} else {
			h[c.name] = c.values
		}
	}
}
