package ai

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/httpclient"
	"github.com/uniflow-labs/uniflow/node/jsonschema"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// An llm is a node of that kind. Its fields are immutable after Open.
type llm struct {
	config schema.Config
	ref    node.Ref
	log    *slog.Logger
	pool   *node.Pool
	clock  node.Clock

	url        string
	label      string // of messages: scheme and host of the URL
	model      string
	header     http.Header
	system     template.Template
	prompt     lang.Program // nil: the payload itself
	messages   lang.Program // in place of prompt; mostly nil
	history    int
	most       int // tokens of an answer; 0 is unset
	mostName   string
	extra      value.Value // more fields of requests
	streams    bool
	parted     bool    // port part has a link
	tools      toolset // of ports
	servers    []server
	toolCache  toolCache
	format     value.Value        // likewise
	schema     *jsonschema.Schema // of the answer; nil without one
	schemaText string             // the same, as JSON
	maxTurns   int
	retries    int
	backoff    field.Backoff
	budget     budget
	timeout    time.Duration
	silence    time.Duration

	answerBytes, resultBytes int
	transport                httpclient.Settings

	http    *http.Client // from Open on
	ledger  *ledger      // likewise; nil without a budget of keys
	counts  *counts      // likewise
	release []func() error
}

func newLLM(init *node.Init, o stream.Options) (node.Node, error) {
	c := init.Config
	limits := c.Group("limits")
	n := &llm{
		config: c, ref: init.Node, log: init.Log, pool: init.Pool, clock: init.Clock,
		model: c.String("model"), history: int(c.Int("history")), most: int(c.Int("max_tokens")), mostName: "max_tokens",
		streams: c.Bool("stream"), maxTurns: int(c.Int("max_turns")), timeout: c.Duration("timeout"), silence: limits.Duration("silence"),
		answerBytes: int(limits.Int("answer_bytes")), resultBytes: int(limits.Int("result_bytes")),
		transport: httpclient.Settings{
			ConnectTimeout: limits.Duration("connect_timeout"), IdleTimeout: 90 * time.Second, Connections: int(limits.Int("connections")),
		},
	}
	n.parted = len(init.OutLinks) > partPort && init.OutLinks[partPort] > 0
	n.retries = int(c.Group("retry").Int("threshold"))
	var err, errBackoff error
	n.backoff, errBackoff = field.BackoffOf(c.Group("retry"))
	n.transport.TLS, err = field.TLSOf(c)
	err = errors.Join(
		n.setURL(c), n.setHeader(c), n.setRequest(c), n.setTools(init), n.setServers(init, c), n.setSchema(init), n.setExpressions(init, o), err, errBackoff)
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(c.String("url"), "/chat/completions") {
		init.AddWarning(c.Errorf("url", diag.CodeNoEffect, "/chat/completions is added to the url, which ends with it already").WithHint("write the url without it").AsPlain())
	}
	return n, nil
}

// setURL checks the field url. Nothing of it is in a message, as it may be a secret.
func (n *llm) setURL(c schema.Config) error {
	u, err := field.ParseURL(c.String("url"), "http", "https")
	if err != nil {
		return c.Errorf("url", diag.CodeBadValue, "%v", err).WithHint("write one such as http://127.0.0.1:11434/v1, and the key as key")
	}
	n.label = u.Scheme + "://" + u.Host
	// A URL that was copied with its last step is as good.
	u.Path = strings.TrimSuffix(strings.TrimRight(u.Path, "/"), "/chat/completions") + "/chat/completions"
	u.RawPath = ""
	n.url = u.String()
	return nil
}

func (n *llm) setHeader(c schema.Config) error {
	n.header = http.Header{"Content-Type": {"application/json"}, "User-Agent": {"uniflow"}, "Accept": {"application/json"}}
	if n.streams {
		n.header["Accept"] = []string{"text/event-stream, application/json;q=0.9"}
	}
	if c.Has("key") {
		if !httpguts.ValidHeaderFieldValue(c.String("key")) || c.String("key") == "" {
			return c.Errorf("key", diag.CodeBadValue, "the key is empty or has characters that a header cannot have").WithHint("check the variable that it comes from")
		}
		n.header["Authorization"] = []string{"Bearer " + c.String("key")}
	}
	if d := httpclient.SetHeader(n.header, c); d != nil {
		return d
	}
	return nil
}

// own are the fields of requests that have fields of their own here.
const own = " model messages stream stream_options tools tool_calls response_format max_tokens n "

func (n *llm) setRequest(c schema.Config) error {
	n.extra = c.Value("request")
	if k := n.extra.Kind(); k != value.KindMap && k != value.KindNull {
		return c.Errorf("request", diag.CodeBadValue, "must be a map").WithHint("write one such as {temperature: 0.2}")
	}
	for name, v := range n.extra.Fields() {
		if strings.Contains(own, " "+name+" ") {
			return c.Errorf("request", diag.CodeBadValue, "%q is set by the node", name).WithHint("remove it; the node has fields of its own for it, except for n, which is 1")
		}
		if name == "max_completion_tokens" { // as some models call it
			most, ok := v.AsInt()
			if !ok || most < 1 {
				return c.Errorf("request", diag.CodeBadValue, "max_completion_tokens must be a positive integer").WithHint("write one such as 500")
			}
			n.most, n.mostName = int(most), name
		}
	}
	n.extra = n.extra.Without("max_completion_tokens")
	if _, err := n.extra.AppendJSON(nil); err != nil {
		return c.Errorf("request", diag.CodeBadValue, "it cannot be written as JSON").WithHint("remove what JSON does not have, such as infinite numbers")
	}
	return nil
}

// Open makes the connections, or shares the connections of the generation before if it has
// the same settings.
func (n *llm) Open(context.Context) error {
	owner := n.ref.Namespace + "/" + n.ref.String()
	connections, release, err := n.transport.Acquire(n.pool, "ai.connections", n.config)
	if err != nil {
		return err
	}
	// Another host must not get the key and the conversation.
	n.http, n.release = connections.Client(httpclient.NoRedirects), append(n.release, release)
	if n.counts, release, err = node.Acquire(n.pool, "ai.llm counts "+owner, func() (*counts, error) { return new(counts), nil }); err != nil {
		return errors.Join(err, n.Close())
	}
	n.release = append(n.release, release)
	for i := range n.servers {
		s := &n.servers[i]
		if s.client, release, err = s.settings.Open(n.pool); err != nil {
			return errors.Join(err, n.Close())
		}
		n.release = append(n.release, release)
	}
	if n.budget.key == 0 {
		return nil
	}
	key := fmt.Sprintf("ai.llm budget %s %d %s", owner, n.budget.key, n.budget.window)
	if n.ledger, release, err = node.Acquire(n.pool, key, func() (*ledger, error) { return newLedger(n.budget.key, n.budget.window), nil }); err != nil {
		return errors.Join(err, n.Close())
	}
	n.release = append(n.release, release)
	return nil
}

// Close closes what no later generation uses.
func (n *llm) Close() error {
	var errs []error
	for _, release := range n.release {
		errs = append(errs, release())
	}
	return errors.Join(errs...)
}
