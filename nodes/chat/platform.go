package chat

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

// In-ports of a platform.
const (
	inRequest = 0
	inSend    = 1
)

// A webhook reads the requests of a platform. Its methods may be called concurrently.
type webhook interface {
	poster

	// read checks the signature of a request and reads it. A nil event with a nil error is
	// a request that asks for nothing but an answer.
	read(r *request, now time.Time) (*platformEvent, value.Value, error)

	// find returns where to send messages of a conversation that comes from outside.
	find(conversation string) (target, error)

	close()
}

// A platformEvent is a message that a platform has sent.
type platformEvent struct {
	incoming
	once string // names the event: it is handled once
	to   target

	// answer is the answer to the request; delivered says that a process has waited for
	// the message. Nil is 200.
	answer func(delivered bool) value.Value
}

// A request is one of a platform, as a listener has it.
type request struct {
	header value.Value
	body   value.Value
	raw    []byte // nil if there are none
}

// get returns a header, in canonical form; of several the first.
func (r *request) get(name string) string { return formField(r.header, name) }

// errNoWebhook refuses requests of a bot that gets its messages by itself.
var errNoWebhook = public(http.StatusNotFound, "this bot takes no requests: it asks for its messages")

var errNotRequest = errors.New("want the request of a listener")

// errUnsigned refuses what a platform has not sent.
func errUnsigned(why string) error { return public(http.StatusUnauthorized, "%s", why) }

// A branch is what the nodes of a platform share over reloads.
type branch struct {
	*dispatcher
	held   *node.Account // bytes of messages from when they come until they are answered, and of what is sent
	clock  node.Clock
	seen   *memory
	outbox *outbox
	intake intake // of durable messages
	asked  asked  // of those, where the answers go
}

// A platformNode is the part of a platform that belongs to one generation.
type platformNode struct {
	*platform
	init       *node.Init
	hook       webhook
	durability *field.Durability // nil for none

	branch     *branch // from Open on, as the next three
	release    func() error
	feed       *feed // nil if all events come as requests
	unfeed     func() error
	generation *generation // from Serve on
}

// key names what is in the pool.
func (n *platformNode) key() string {
	return "chat." + n.kind + " " + n.init.Node.Namespace + "/" + n.init.Node.String()
}

// Open finds the conversations of the generation before, and its connection.
func (n *platformNode) Open(context.Context) (err error) {
	n.branch, n.release, err = node.Acquire(n.init.Pool, n.key(), func() (*branch, error) {
		c, held, clock := newDispatcher(), n.init.Memory.Account(n.kind), n.init.Clock
		return &branch{dispatcher: c, held: held, clock: clock, seen: newMemory(clock), outbox: newOutbox(c, held, clock, n.init.Log, n.hook, n.longest), asked: newAsked(clock)}, nil
	})
	if err != nil {
		return err
	}
	if n.feed, n.unfeed, err = acquireFeed(n); err != nil {
		return errors.Join(err, n.release())
	}
	return nil
}

// Serve makes new messages start their processes here.
func (n *platformNode) Serve(src node.Starter) error {
	if n.durability != nil {
		if _, err := n.durability.Starter(src); err != nil {
			return err
		}
	}
	n.generation = &generation{starter: src, waits: n.init.Waits, log: n.init.Log, failure: n.init.Config.String("failure"), node: n}
	n.branch.attach(n.generation)
	sends := poster(n.hook)
	n.branch.outbox.poster.Store(&sends)
	if n.feed != nil {
		n.feed.join()
	}
	return nil
}

// Stop waits until what has come is answered, and sent.
func (n *platformNode) Stop(ctx context.Context) error {
	if n.generation == nil {
		return nil
	}
	late := error(nil)
	if n.feed != nil {
		late = n.feed.leave(ctx)
	}
	last, err := n.branch.detach(ctx, n.generation)
	if last && err == nil {
		err = n.branch.outbox.flush(ctx)
	}
	return errors.Join(late, err)
}

func (n *platformNode) Close() error {
	err := errors.Join(n.unfeed(), n.release())
	n.hook.close()
	return err
}

// Measure reports the conversations and their messages.
func (n *platformNode) Measure(report func(node.Metric)) { n.branch.measure(n.kind, report) }

// Receive handles a request of the platform, or sends a message.
func (n *platformNode) Receive(_ node.Process, pkt node.Packet) node.Result {
	if pkt.Port == inSend {
		return n.send(pkt.Payload)
	}
	r := &request{header: at(pkt.Payload, "header"), body: at(pkt.Payload, "body")}
	if r.header.Kind() != value.KindMap {
		return node.Fail(errNotRequest)
	}
	r.raw, _ = at(pkt.Payload, "raw").AsBinary()
	e, direct, err := n.hook.read(r, n.init.Clock.Now())
	switch {
	case err != nil:
		return node.Fail(err)
	case e == nil:
		return ok(direct)
	}
	if n.durability != nil {
		return node.Block(func(ctx context.Context) node.Result { return taken(n.branch.takeOnce(ctx, e)) })
	}
	return taken(n.branch.takeOnce(context.Background(), e))
}

// taken answers a platform whose event was taken, or not: then it comes again.
func taken(answer value.Value, err error) node.Result {
	if err != nil {
		return node.Fail(busy(err))
	}
	return ok(answer)
}

// ok answers a platform: with JSON, or with nothing but the status.
func ok(body value.Value) node.Result {
	if body.IsNull() {
		body = value.String("")
	}
	return node.Answer(value.UniqueMap([]value.Field{{Name: "status", Value: value.Int(http.StatusOK)}, {Name: "body", Value: body}}))
}

// Close ends what is left, for the pool.
func (b *branch) Close() error {
	defer b.held.Close()
	return b.dispatcher.Close()
}

// takeOnce takes an event, unless it has come before. With durability it blocks until that is durable.
func (b *branch) takeOnce(ctx context.Context, e *platformEvent) (answer value.Value, err error) {
	if g := b.Current(); g != nil {
		if n, ok := g.node.(*platformNode); ok && n.durability != nil {
			return b.takeDurable(ctx, g, n.durability, e)
		}
	}
	if !b.seen.first(e.once) {
		return value.Null(), nil
	}
	payload := e.payload()
	size := int64(payload.Size())
	delivered, err := false, errMemory
	if b.held.Take(size) {
		delivered, err = b.take(e.conversation, payload, &delivery{outbox: b.outbox, to: e.to, held: size})
		if delivered || err != nil {
			b.held.Free(size)
		}
	} else {
		b.counts.refused.Add(1)
	}
	if err != nil {
		b.seen.forget(e.once)
		return value.Null(), err
	}
	if e.answer != nil {
		answer = e.answer(delivered)
	}
	return answer, nil
}

// send sends a message to a conversation, and answers when the platform has taken it.
func (n *platformNode) send(v value.Value) node.Result {
	conversation := ""
	if v.Kind() == value.KindMap {
		conversation, _ = fieldText(v, "conversation")
	}
	to, err := n.hook.find(conversation)
	if err != nil {
		return node.Fail(err)
	}
	a, err := answerOf(v)
	if err != nil {
		return node.Fail(err)
	}
	if n.branch.held.Full() {
		return node.Fail(busy(errMemory))
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		var w state.Wait
		w.Begin(ctx, done, nil)
		sent := func(err error) {
			if err != nil {
				w.Answer(node.Fail(err))
			} else {
				w.Answer(node.None())
			}
		}
		if err := n.branch.outbox.add(&outgoing{to: to, text: a.whole(), buttons: a.buttons, final: true, done: sent}); err != nil {
			sent(err)
		}
	})
}

// A platform is what differs between the kinds that talk to people elsewhere.
type platform struct {
	kind, summary, address string
	page                   string                   // its Markdown file
	longest                int                      // UTF-16 units of a message
	sends                  bool                     // it has an in-port for messages that do not answer
	raw                    bool                     // it checks signatures
	keeps                  bool                     // its conversations can be answered at any time, so its processes may be durable
	pulls                  func(schema.Config) bool // it asks for its messages; nil waits for requests
	fields                 []*schema.Field

	// hook makes what reads and writes for a node. The api is its own.
	hook func(init *node.Init, a *api) (webhook, error)
}

// The in-ports and out-ports of all platforms; some have no second in-port.
var (
	platformIn  = []node.Port{{Name: "in", Doc: "The request of a listener."}, {Name: "send", Doc: "A message to send: `conversation`, and what an answer has."}}
	platformOut = []node.Port{{Name: "out", Doc: "A message."}}
)

func (p *platform) traits(c schema.Config) node.Traits {
	t := node.Traits{Gives: []string{node.GivesParts, node.GivesConversation}}
	if p.raw {
		t.Is = node.NeedsRaw
	}
	if p.pulls == nil || !p.pulls(c) {
		t.Needs = []node.Need{needsRequest()}
	}
	if p.keeps {
		t.Is |= field.DurableTrait(c)
		t.Gives = append(t.Gives, field.DurabilityGives(c)...)
	}
	return t
}

// needsRequest is of nodes whose messages come as requests.
func needsRequest() node.Need {
	return node.Need{What: node.GivesRequest, Idle: true, Hint: "link the out-port of a listener, or of a route, to it"}
}

func (p *platform) def() *node.Def {
	in := platformIn[:1]
	if p.sends {
		in = platformIn
	}
	fields := append(p.fields, schema.String("api").Default(p.address).Doc("Where the platform's API is."), failureField())
	if p.keeps {
		fields = append(fields, field.NewDurability(field.Posts))
	}
	return &node.Def{
		Kind: p.kind, Summary: p.summary, Page: readPage(p.page),
		Config: schema.Fields(fields...),
		In:     in, Out: platformOut,
		Role:   node.Begins | node.HasClient | node.Connects,
		Traits: p.traits,
		Recall: node.Always(node.Effects),
		New: func(init *node.Init) (node.Node, error) {
			a, err := newAPI(init.Config)
			if err != nil {
				return nil, err
			}
			hook, err := p.hook(init, a)
			if err != nil {
				return nil, err
			}
			n := &platformNode{platform: p, init: init, hook: hook}
			if p.keeps {
				if n.durability, err = (field.Options{}).DurabilityOf(init.Config, field.Posts); err != nil {
					return nil, err
				}
			}
			return n, nil
		},
	}
}

// checkToken refuses what cannot be in a header.
func checkToken(c schema.Config, field, prefix, where string) error {
	token := c.String(field)
	if token == "" || strings.ContainsAny(token, " \r\n\t") {
		return c.Errorf(field, diag.CodeBadValue, "is not a token").WithHint("it begins with %s, and is in the app's settings, %s", prefix, where).AsPlain()
	}
	return nil
}
