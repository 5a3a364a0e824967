package web

import (
	"context"
	_ "embed"
	"errors"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/web/answer"
	"github.com/uniflow-labs/uniflow/nodes/web/certs"
	"github.com/uniflow-labs/uniflow/nodes/web/counts"
	"github.com/uniflow-labs/uniflow/nodes/web/pace"
	"github.com/uniflow-labs/uniflow/nodes/web/request"
	"github.com/uniflow-labs/uniflow/schema"
)

//go:embed listener.md
var listenerPage string

func listenerDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind: "listener",
		Role: node.HasClient,
		Traits: func(c schema.Config) node.Traits {
			return node.Traits{Is: field.DurableTrait(c), Gives: append(field.DurabilityGives(c), node.GivesRequest, node.GivesParts), Runs: field.RunsOf(c)}
		},
		Summary: "Serves HTTP: each request starts a process, whose response is the answer.",
		Page:    node.ReadPage(listenerPage),
		Config: schema.Fields(slices.Concat([]*schema.Field{
			schema.Enum("protocol", "http").Default("http").Doc("What is spoken."),
			schema.String("host").Doc("The name or address to listen on; all addresses of the machine if left out."),
			schema.Int("port").Range(0, 65535).Required().Doc("The port to listen on. 0 picks a free one, which is logged and kept across reloads."),
			certs.Field(),
			field.NewDurability(field.Requests),
			schema.Bool("http3").Default(false).Doc("Whether to serve HTTP/3, too, at the same port of UDP. It takes `tls`. Other answers tell clients of it."),
			schema.Group("limits", schema.Fields(
				schema.Bytes("header_bytes").Default("64KiB").Range(1<<10, 1<<30).Doc("Longest header of a request; past it the answer is 431."),
				schema.Bytes("body_bytes").Default("8MiB").Range(0, 1<<30).Doc("Longest body of a request, decompressed; past it the answer is 413."),
				schema.Int("processes").Default(16384).Range(1, 1<<30).Doc("How many requests may be in flight; past it the answer is 503. The same applies when their bodies, decoded, would take more than 256 MiB in all, or 32 times `body_bytes` if that is more. 4,096 answers may wait for their clients; past it the connection without progress for the longest time is closed."),
				schema.Duration("header_timeout").Default(5*time.Second).Doc("How long a client may take to send the header, and how long until the minimum rate of 1 KiB a second applies to its body and its answer. 0 means no limit for all of these."),
				schema.Duration("idle_timeout").Default(120*time.Second).Doc("How long a connection may be idle between requests. 0 means no limit."),
				schema.Duration("request_timeout").Default(time.Duration(0)).Doc("How long a process may take; past it the answer is 503. An answer in parts has that time to its first part, and from one part to the next. 0 means no limit."),
			)).Doc("What one client, or all together, may use."),
			schema.Strings("trusted_proxies").Doc("The addresses of proxies, such as `10.0.0.0/8` or `::1`. Requests that they pass on have the client, scheme and host of `X-Forwarded-For`, `-Proto` and `-Host`, or `Forwarded`; a proxy must set or remove them. From others, these headers mean nothing."),
		}, answer.Fields(), []*schema.Field{
			schema.Bool("fast_path").Default(fastPath).Doc("Whether plain requests of HTTP/1.1 without TLS are served faster and with less memory. Answers are the same without."),
			schema.Bool("access_log").Default(false).Doc("Whether to log each request: its method, host, path, route, protocol, client and ids, and the status, size and duration of its answer."),
			schema.Enum("request_ids", "echo", "always").Default("echo").Doc("Whether only requests that come with an `X-Request-Id` have an id, or all of them."),
		})...),
		Out:    []node.Port{{Name: "out", Doc: "The request."}},
		Lint:   lintListeners,
		Recall: node.Always(node.Effects),
		New:    func(init *node.Init) (node.Node, error) { return newListener(o, init) },
	}
}

const (
	// minRate is how many bytes per second a client must send of a body, and take
	// of an answer, once the header timeout has passed.
	minRate = 1 << 10

	// bodyWindow is how long a client that sends a body may be silent, however much
	// it has sent before. If the header timeout is longer, that applies instead.
	bodyWindow = 10 * time.Second

	// maxPendingAnswers is how many answers may wait for their clients.
	maxPendingAnswers = 4096

	// pendingAfter is how long an answer over HTTP/2 may take until it counts as one that waits.
	pendingAfter = 100 * time.Millisecond
)

// A listener serves HTTP for one generation.
type listener struct {
	generation // cert and metrics from Open on, starter and admits from Serve on

	ref      node.Ref
	pool     *node.Pool
	memory   *node.Memory
	settings serverSettings
	tls      *certs.Settings // nil without

	obtained *certs.Obtained // from Open on; nil without ACME
	server   *server         // from Open on
	release  []func() error  // from Open on
}

func newListener(o stream.Options, init *node.Init) (node.Node, error) {
	c := init.Config
	lim := c.Group("limits")
	n := &listener{
		ref: init.Node, pool: init.Pool, memory: init.Memory,
		settings: serverSettings{
			address:     net.JoinHostPort(c.String("host"), strconv.FormatInt(c.Int("port"), 10)),
			fastPath:    c.Bool("fast_path"),
			headerBytes: int(lim.Int("header_bytes")),
			idleTimeout: lim.Duration("idle_timeout"),
			rate:        pace.Rate{Grace: lim.Duration("header_timeout"), Min: minRate, Silence: bodyWindow, Late: pendingAfter},
		},
		generation: generation{
			log:       init.Log,
			accessLog: c.Bool("access_log"),
			alwaysID:  c.String("request_ids") == "always",
			raw:       init.Below(node.NeedsRaw),
			unread:    unreadFrom(init),
			parts:     partsFrom(init),
			limits: limits{
				bodyBytes:      int(lim.Int("body_bytes")),
				heldBytes:      content.MaxHeld(lim.Int("body_bytes")),
				processes:      lim.Int("processes"),
				requestTimeout: lim.Duration("request_timeout"),
				pending:        pace.Limits{Answers: maxPendingAnswers, Bytes: content.MaxHeld(lim.Int("body_bytes")), Log: init.Log},
			},
		},
	}
	if most := init.Memory.Limit() / 4; most > 0 {
		n.limits.pending.Bytes = min(n.limits.pending.Bytes, most)
	}
	var err error
	if n.durability, err = o.DurabilityOf(c, field.Requests); err != nil {
		return nil, err
	}
	if n.durability != nil {
		n.unread = nil // what a run begins with is stored
	}
	if n.proxies, err = request.NewProxies(c, "trusted_proxies"); err != nil {
		return nil, err
	}
	if n.answers, err = answer.New(c); err != nil {
		return nil, err
	}
	for _, method := range c.Group("cors").Strings("methods") {
		field.WarnMethod(init, c.Group("cors"), "methods", method)
	}
	if c.Int("port") == 0 {
		n.settings.owner = init.Node.Namespace + "/" + init.Node.String()
	}
	if n.settings.http3 = c.Bool("http3"); n.settings.http3 && !c.Has("tls") {
		return nil, c.Errorf("http3", diag.CodeBadValue, "HTTP/3 takes TLS").WithHint("write tls, too")
	}
	if n.tls, err = certs.Read(c); err != nil {
		return nil, err
	}
	n.settings.tls, n.settings.acme = n.tls != nil, n.tls.IsACME()
	return n, nil
}

// Receive is never called: a listener has no in-port.
func (n *listener) Receive(node.Process, node.Packet) node.Result { return node.None() }

// Open loads the certificate, and binds the address unless an earlier generation has
// bound it.
func (n *listener) Open(ctx context.Context) (err error) {
	if n.tls != nil && !n.tls.IsACME() {
		if n.cert, err = n.tls.Load(); err != nil {
			return err
		}
	}
	s, release, err := node.Acquire(n.pool, n.settings.serverKey(), func() (*server, error) {
		return newServer(n.settings, n.pool, n.memory), nil
	})
	if err != nil {
		return err
	}
	n.server, n.release = s, append(n.release, release)
	c, release, err := node.Acquire(n.pool, "web.counts "+n.ref.Namespace+"/"+n.ref.String(), func() (*counts.Listener, error) {
		return counts.NewListener(), nil
	})
	if err != nil {
		return errors.Join(err, n.Close())
	}
	n.metrics, n.release = c, append(n.release, release)
	n.limits.pending.Slow, n.limits.pending.Excess = &c.SlowAnswers, &c.ExcessAnswers
	if err := s.open(ctx, &n.ref); err != nil {
		return errors.Join(err, n.Close())
	}
	if n.tls.IsACME() {
		host, _, _ := net.SplitHostPort(n.settings.address)
		c, release, err := n.tls.Obtain(n.pool, host, s.port(), n.log)
		if err != nil {
			return errors.Join(err, n.Close())
		}
		n.obtained, n.cert, n.release = c, c.Certificate, append(n.release, release)
	}
	return nil
}

// Serve makes the server start processes at src.
func (n *listener) Serve(src node.Starter) error {
	n.starter = src
	if n.durability != nil {
		if _, err := n.durability.Starter(src); err != nil {
			return err
		}
	}
	if screening, ok := src.(node.ScreeningStarter); ok {
		n.admits = screening.Screen(0)
	}
	return n.server.attach(&n.ref, &n.generation)
}

// Stop stops taking requests, unless a later generation takes them, and waits for
// the answers.
func (n *listener) Stop(ctx context.Context) error {
	if n.starter == nil {
		return nil
	}
	return n.server.detach(ctx, &n.generation)
}

func (n *listener) Close() error {
	if n.server == nil {
		return nil
	}
	n.server.unclaim(&n.ref)
	var errs []error
	for _, release := range n.release {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}

// Ready returns why there is no certificate, or nil.
func (n *listener) Ready() error {
	if n.obtained == nil {
		return nil
	}
	return n.obtained.Ready()
}

// Measure reports the answers of the listener and the load of its server.
func (n *listener) Measure(report func(node.Metric)) {
	n.metrics.Measure(report)
	n.server.measure(report)
}
