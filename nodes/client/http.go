package client

import (
	"context"
	_ "embed"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed http.md
var httpPage string

func httpDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "http",
		Summary: "Calls an HTTP service, and sends its answer on.",
		Page:    node.ReadPage(httpPage),
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.String("url").Required().Doc("Where requests go, such as https://api.example.com/v1. It may have a query."),
			schema.String("method").Words(true, "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS").Doc("The method, unless the payload has one."),
			expectField(),
			schema.Duration("timeout").Default("30s").Doc("How long a call may take, from its beginning to the end of the answer, with all redirects. 0 means no limit."),
			schema.String("idempotency").Default("Idempotency-Key").Doc("The header of a POST or PATCH of a durable process that has its idempotency key, which is the same for all attempts, also after a crash. Empty for none."),
			schema.Enum("redirects", httpclient.AllRedirects, httpclient.SameHost, httpclient.NoRedirects).Default(httpclient.AllRedirects).Doc("Which redirects are followed: all, those to the same host, port and scheme, or none. One that is not followed is the answer."),
		}, httpclient.Fields(), []*schema.Field{
			schema.Group("limits", schema.Fields(
				schema.Duration("connect_timeout").Default("10s").Doc("How long it may take to look up the name and to connect, and again for the TLS handshake. 0 means no limit."),
				schema.Duration("header_timeout").Default(time.Duration(0)).Doc("How long the service may take from the end of the request to the header of its answer. 0 means no limit."),
				schema.Duration("idle_timeout").Default("90s").Doc("How long a connection may be idle before it is closed. 0 means no limit."),
				schema.Bytes("header_bytes").Default("64KiB").Range(1<<10, 1<<30).Doc("Longest header of an answer."),
				schema.Bytes("body_bytes").Default("8MiB").Range(0, 1<<30).Doc("Longest body of an answer, compressed and decompressed. Bodies that are being decoded may take 256 MiB together, or 32 times this if that is more."),
				schema.Int("connections").Default(1024).Range(1, 1<<16).Doc("How many connections to a host there may be, idle ones included. Further calls wait for one, or share one with HTTP/2."),
				schema.Int("concurrency").Default(16).Range(1, 1<<10).Doc("How many packets of one process are sent concurrently; 1 keeps their order."),
			)).Doc("What a call may use."),
		})...),
		In:  []node.Port{{Name: "in", Doc: "What to send: a request, or a body."}},
		Out: []node.Port{{Name: "out", Doc: "The answer, with status, protocol, header and body."}},
		Traits: func(c schema.Config) node.Traits {
			t := node.Traits{Is: node.OwnStatus}
			if !c.Has("expect") {
				t.Is |= node.FailsByStatus
			}
			return t
		},
		Recall: node.Always(node.Effects), // but see Reads
		Lint:   field.LintTLS,
		New:    func(init *node.Init) (node.Node, error) { return newHTTP(init, o) },
	}
}

// An httpNode calls one service.
type httpNode struct {
	config      schema.Config
	owner       string
	pool        *node.Pool
	service     *httpclient.Endpoint
	base        http.Request // each request is a copy
	headers     [bodyForms]http.Header
	timeout     time.Duration
	redirects   string
	bodyBytes   int
	heldBytes   int64
	concurrency int
	idempotency string       // the header with the key of a durable process; empty for none
	expect      lang.Program // nil: see unexpected

	http     *http.Client   // from Open on
	metrics  *httpMetrics   // from Open on
	release  []func() error // from Open on
	held     *node.Account  // bytes of answers that are read
	accounts sync.Pool      // of *account
}

func newHTTP(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	lim := c.Group("limits")
	n := &httpNode{
		config:      c,
		owner:       init.Node.Namespace + "/" + init.Node.String(),
		pool:        init.Pool,
		held:        init.Memory.Account(init.Node.Kind),
		timeout:     c.Duration("timeout"),
		idempotency: c.String("idempotency"),
		redirects:   c.String("redirects"),
		bodyBytes:   int(lim.Int("body_bytes")),
		heldBytes:   content.MaxHeld(lim.Int("body_bytes")),
		concurrency: int(lim.Int("concurrency")),
	}
	n.accounts.New = func() any { return newAccount(n) }
	var err error
	n.service, err = httpclient.NewEndpoint(c, "http", httpclient.Settings{
		ConnectTimeout: lim.Duration("connect_timeout"),
		HeaderTimeout:  lim.Duration("header_timeout"),
		IdleTimeout:    lim.Duration("idle_timeout"),
		HeaderBytes:    lim.Int("header_bytes"),
		Connections:    int(lim.Int("connections")),
		Raw:            true, // the node decompresses, within its limits
	})
	n.base = n.service.Request()
	if err := errors.Join(err, n.setMethod(c), n.setExpect(init, o)); err != nil {
		return nil, err
	}
	n.setHeaders()
	warn(init)
	return n, nil
}

// warn reports what is allowed in the fields but probably not meant.
func warn(init *node.Init) {
	c := init.Config
	if strings.Contains(c.String("url"), "${") && !c.Hidden("url") {
		init.AddWarning(c.Errorf("url", diag.CodeNoEffect, "a url has no expressions, so ${ stays as it is").WithHint("send the rest of the path, and the query, as the payload: {\"path\": …, \"query\": …}"))
	}
	if c.Has("method") {
		field.WarnMethod(init, c, "method", c.String("method"))
	}
}

func (n *httpNode) setMethod(c schema.Config) error {
	n.base.Method = strings.ToUpper(c.String("method"))
	if n.base.Method != "" && !isRequestMethod(n.base.Method) {
		return c.Errorf("method", diag.CodeBadValue, "not a method that can be sent").WithHint("write one such as GET or POST")
	}
	return nil
}

// setHeaders makes the headers of requests that have none of their own, one for each form
// of body.
func (n *httpNode) setHeaders() {
	h := n.service.Header
	if _, ok := h["Accept-Encoding"]; !ok {
		h["Accept-Encoding"] = []string{"gzip, deflate, br, zstd"}
	}
	_, typed := h["Content-Type"]
	for form, contentType := range bodyTypes {
		n.headers[form] = h
		if contentType != "" && !typed {
			n.headers[form] = h.Clone()
			n.headers[form]["Content-Type"] = []string{contentType}
		}
	}
}

// Open makes the connection pool, or shares the pool of the generation before if it has the
// same settings.
func (n *httpNode) Open(context.Context) error {
	transport, release, err := n.service.Settings.Acquire(n.pool, "client.http "+n.owner, n.config)
	if err != nil {
		return err
	}
	n.release = append(n.release, release)
	m, release, err := node.Acquire(n.pool, "client.http counts "+n.owner, func() (*httpMetrics, error) { return new(httpMetrics), nil })
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.metrics, n.release = m, append(n.release, release)
	n.http = transport.Client(n.redirects)
	return nil
}

// Close closes the idle connections, unless a later generation uses them.
func (n *httpNode) Close() error {
	defer n.held.Close()
	var errs []error
	for _, release := range n.release {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Concurrency is how many packets of one process are sent concurrently.
func (n *httpNode) Concurrency() int { return n.concurrency }

func (n *httpNode) Measure(report func(node.Metric)) { n.metrics.measure(report) }

var _ interface {
	node.Opener
	node.Concurrent
	node.Measured
	io.Closer
} = (*httpNode)(nil)
