package stream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/lang/template"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// sinkDoc is what the reference says of every sink, after its own text.
const sinkDoc = "\n\nA payload is a message: a map with `body`, and if you like `key`, `header`, `time` and `id`%s. You can also send on a message of a source: only these fields of it are used.  " +
	"Anything else is the body of a message. Each element of a list is a message; if one of them cannot be encoded, the list is not sent.\n\n" +
	"The packet is answered when the system has confirmed its messages. A message that is not confirmed within `timeout` fails with the status 504 and the code `timeout`, or 503 and `not_connected`. " +
	"If the connection is lost, it fails with 503 and `lost`; if the message cannot be encoded, with 500 and `encode`. The error port gets the payload as `data`. A message that has failed may have arrived nevertheless."

// Def returns the kind. It panics if the sink is not complete.
func (s Sink) Def(o Options) *node.Def {
	if s.Kind == "" || s.Summary == "" || s.Open == nil {
		panic(fmt.Sprintf("stream: the sink %q needs a kind, a summary and Open", s.Kind))
	}
	for _, name := range s.Texts {
		if !s.Config.Has(name) {
			panic(fmt.Sprintf("stream: the sink %q has no field %q", s.Kind, name))
		}
	}
	own := ""
	if len(s.Keys) > 0 {
		own = ", or the kind's own `" + strings.Join(s.Keys, "`, `") + "`"
	}
	return &node.Def{
		Kind: s.Kind, Summary: s.Summary, Page: node.Page{Doc: s.Doc + fmt.Sprintf(sinkDoc, own), Example: s.Example},
		Config: s.config(),
		In:     []node.Port{{Name: "in", Doc: "A message, or a list of them."}},
		Out:    []node.Port{{Name: "out", Doc: "With `answer: receipt`, where the message is, or a list of that. Otherwise the answer is None, and nothing leaves here."}},
		Traits: func(c schema.Config) (t node.Traits) {
			if s.Lines != nil {
				t.Lines = s.Lines(c)
			}
			return t
		},
		Recall: node.Always(node.Effects),
		New:    func(init *node.Init) (node.Node, error) { return s.newNode(o, init) },
	}
}

// config returns the kind's own fields, and the common ones.
func (s Sink) config() schema.Object {
	var more []*schema.Field
	if !s.Raw {
		encode := s.Encode
		if encode == "" {
			encode = "json"
		}
		more = append(more, schema.Enum("encode", "json", "text", "raw").Default(encode).
			Doc("How a body becomes bytes: as JSON; as text, which is JSON for lists and maps; or as it is, for text and binary only."))
	}
	joins := ""
	if s.Joins != nil {
		joins = " Unless you set it, it does not limit messages that join."
	}
	more = append(more, schema.Int("max_in_flight").Default(1024).Range(1, 1_000_000).
		Doc("The maximum number of messages that are on their way to the system and not confirmed. Further messages wait, up to `timeout`."+joins))
	if s.Batches {
		more = append(more, schema.Group("batch", schema.Fields(
			schema.Int("count").Default(1000).Range(1, 1_000_000).Doc("The maximum number of messages in a batch."+joins),
			schema.Bytes("bytes").Default("1MiB").Range(1, 1<<30).Doc("The maximum number of bytes in a batch; a single message may be larger."),
			schema.Duration("linger").Default("5ms").Doc("How long the first message of a batch waits for others. If the sources upstream hold fewer messages than two batches, a batch is sent as soon as it has half of what they hold: the other half comes while it is written."),
		)).Doc("How many messages are sent together."))
	}
	more = append(more,
		schema.Duration("timeout").Default("30s").Range(float64(time.Millisecond), float64(24*time.Hour)).
			Doc("How long a message may take until it is confirmed, including the time that it waits for room or for the connection."),
		schema.Enum("answer", "none", "receipt").Default("none").Doc("Whether the answer tells where the message was stored."),
	)
	return s.Config.With(more...)
}

// A sinkNode is a node of a sink. It may share its outlet with the same node of earlier
// and later generations.
type sinkNode struct {
	sink     *Sink
	config   schema.Config
	ref      node.Ref
	format   format
	texts    []template.Template
	fixed    []string // what all texts are, if none of them has expressions
	receipt  bool
	inFlight int // records that can be here; 0 is not known
	pool     *node.Pool
	account  *node.Account
	log      *slog.Logger
	writer   Writer // of the outlet, if this node makes it

	outlet  *outlet
	release func() error
	grace   time.Time // until when Close may flush; set by Stop
}

func (s *Sink) newNode(o Options, init *node.Init) (node.Node, error) {
	c := init.Config
	n := &sinkNode{
		sink: s, config: c, ref: init.Node, pool: init.Pool, account: init.Memory.Account(s.Kind), log: init.Log,
		receipt: c.String("answer") == "receipt", inFlight: init.InFlight(),
	}
	if !s.Raw {
		n.format = formats[c.String("encode")]
	}
	var errs []error
	constant := true
	for _, name := range s.Texts {
		t, err := template.OfField(c, name, template.Compiler(o.Languages, o.Language))
		errs = append(errs, err)
		n.texts = append(n.texts, t)
		constant = constant && t.Constant()
	}
	var err error
	n.writer, err = s.Open(init)
	if err := errors.Join(append(errs, err)...); err != nil {
		return nil, err
	}
	if n.writer == nil {
		return nil, fmt.Errorf("the sink %s has made no writer", s.Kind)
	}
	if constant {
		n.fixed = make([]string, len(n.texts))
		for i := range n.texts {
			if n.fixed[i], err = n.texts[i].Text(context.Background(), value.Null()); err != nil {
				return nil, err
			}
		}
	}
	return n, nil
}

// Concurrency lets a process have many messages in flight.
func (n *sinkNode) Concurrency() int { return int(n.config.Int("max_in_flight")) }

// Receive gives the messages of a packet to the outlet, which answers it.
func (n *sinkNode) Receive(p node.Process, pkt node.Packet) node.Result {
	if n.outlet.binder != nil {
		return n.bind(p, pkt.Payload)
	}
	d := n.outlet.newDelivery(n.receipt, pkt.Payload)
	if err := n.records(p.Context(), d, pkt.Payload); err != nil {
		n.outlet.discard(d)
		return node.Fail(err)
	}
	if d.count == 0 {
		n.outlet.discard(d)
		if n.receipt {
			return node.Send(0, value.List())
		}
		return node.None()
	}
	return d.await
}

// Open connects, or finds the outlet of the generation before.
func (n *sinkNode) Open(ctx context.Context) error {
	name := n.ref.Namespace + "/" + n.ref.Kind + "/" + n.ref.String()
	counts, forget, err := node.Acquire(n.pool, "sink counts "+name, func() (*sinkCounts, error) { return new(sinkCounts), nil })
	if err != nil {
		return err
	}
	o, release, err := node.Acquire(n.pool, "sink "+name+" "+n.settings(), func() (*outlet, error) {
		return openOutlet(ctx, n, counts)
	})
	n.writer = nil // it is the outlet's, or of no use
	if err != nil {
		return errors.Join(field.Place(err, n.config), forget())
	}
	n.outlet = o
	o.expect(n.inFlight)
	n.release = func() error { return errors.Join(release(), forget()) }
	return nil
}

// settings returns a text that is the same for equal configs, and shows no secret.
func (n *sinkNode) settings() string {
	h := sha256.New()
	for _, f := range n.sink.config().All() {
		v := n.config.Value(f.Name)
		text, err := v.AppendJSON(nil)
		if err != nil { // a number that JSON does not have
			text = []byte(v.String())
		}
		fmt.Fprintf(h, "%s %d %s\n", f.Name, len(text), text)
	}
	fmt.Fprintln(h, n.joins())
	return fmt.Sprintf("%x", h.Sum(nil))
}

// joins reports whether what waits joins the next batch beyond batch.count: see [Sink.Joins].
func (n *sinkNode) joins() bool {
	return n.sink.Batches && n.sink.Joins != nil && n.sink.Joins(n.config) &&
		!n.config.Has("max_in_flight") && !n.config.Group("batch").Has("count")
}

// Ready reports whether the sink has connected once.
func (n *sinkNode) Ready() error { return n.outlet.connection.ready(n.outlet.writer) }

// Drain lets the messages that are there wait for no others.
func (n *sinkNode) Drain() { n.outlet.flush() }

// Stop notes how long Close may take.
func (n *sinkNode) Stop(ctx context.Context) error {
	n.grace, _ = ctx.Deadline()
	return nil
}

// closeTimeout is how long Close flushes if the engine has set no limit, and
// minCloseTimeout how long at least. A shutdown ends a second after its grace.
const closeTimeout, minCloseTimeout = 10 * time.Second, 400 * time.Millisecond

// Close flushes, unless another generation goes on with the outlet.
func (n *sinkNode) Close() error {
	if n.release == nil { // it was never opened
		return nil
	}
	left := closeTimeout
	if !n.grace.IsZero() {
		left = max(minCloseTimeout, time.Until(n.grace))
	}
	n.outlet.limitClose(left)
	defer n.account.Close()
	return n.release()
}

// Measure reports what the sink has done.
func (n *sinkNode) Measure(report func(node.Metric)) { n.outlet.measure(report) }
