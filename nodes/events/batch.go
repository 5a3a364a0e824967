package events

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/value"
)

//go:embed batch.md
var batchPage string

func batchDef(o stream.Options) *node.Def {
	return &node.Def{
		Kind:    "batch",
		Summary: "Ships events in batches to an HTTP receiver, and loses none.",
		Page:    node.ReadPage(batchPage),
		Config: schema.Fields(
			schema.String("url").Required().Doc("Where batches are posted, such as that of `uniflow loader`."),
			schema.String("method").Default("POST").Doc("The method of the requests."),
			schema.Any("header").Secret().Doc("Headers of the requests: a map of text."),
			schema.Int("count").Default(1000).Range(1, 1<<20).Doc("The most events of a batch."),
			schema.Bytes("bytes").Default("1MiB").Range(1, 1<<30).Doc("The most bytes of a batch; also of an event."),
			schema.Duration("linger").Default("1s").Doc("How long the first event of a batch waits for others."),
			schema.Int("lanes").Default(4).Range(1, 1024).Doc("The most batches that are sent concurrently. With `order: key`, events are spread over so many lanes; with `order: total` there is one."),
			schema.Enum("order", "unordered", "key", "total").Default("unordered").Doc("Which events stay in order: none, those of equal `key`, or all."),
			schema.Expr("key").Doc("An expression over the event, for `order: key`."),
			schema.String("event_id").Doc("The field of an event that gets its id in a durable process, if it has none. The id is the same when the event is sent again after a crash, so a receiver can drop it then."),
			schema.Enum("full", "block", "reject", "drop_oldest", "drop_newest").Default("block").Doc("What happens to an event that finds the queue of 65,536 events or 64 MiB full: it waits, goes to `error`, or one is dropped. With a `spool`, `block` moves events to disk first. Past [the memory of the program](../workflows.md#memory) an event goes to `error` in any case."),
			schema.String("spool").Doc("A folder that keeps events on disk until they are delivered. No other node may use it. Unset keeps them in memory only."),
			schema.Enum("ack", "accepted", "delivered").Default("accepted").Doc("When the packet is answered."),
			schema.Int("attempts").Default(0).Range(0, 1<<20).Doc("How many failed attempts a batch has before its events are dropped; 0 sets no limit. If the receiver answers, only the events that make it fail are dropped. A receiver that refuses every event, or answers that the address or the credentials are wrong, does not use them up: then everything waits."),
			schema.Duration("timeout").Default("30s").Doc("The longest time for one request."),
		),
		In:    []node.Port{{Name: "in", Doc: "An event, or a list of them."}},
		Error: node.OwnFailure,
		Traits: func(c schema.Config) (t node.Traits) {
			if spool := c.String("spool"); spool != "" {
				t.Holds = []node.Hold{{What: "spool", Name: filepath.Clean(spool), Field: "spool", Hint: "give each node a folder of its own"}}
			}
			return t
		},
		Recall: node.Always(node.Effects),
		New:    func(init *node.Init) (node.Node, error) { return newBatchNode(o, init) },
	}
}

// A batchNode is a node of kind batch. It may share its processor with
// the same node of earlier and later generations.
type batchNode struct {
	settings settings
	key      lang.Program // nil unless events are ordered by key
	id       string       // the field for ids of events; empty for none
	pool     *node.Pool
	memory   *node.Memory
	log      *slog.Logger
	failing  bool // the error port is linked

	processor *sharedProcessor
	release   func() error
	source    node.Starter
	grace     time.Time // until when Close may send; set by Stop
}

// settings are what makes one processor differ from another. They are comparable.
type settings struct {
	node         string // namespace and name, or id
	url, method  string
	header       string // as JSON
	count, bytes int
	linger       time.Duration
	lanes        int
	order        batch.Order
	key          string
	full         batch.Policy
	spool        string
	delivered    bool // ack
	attempts     int
	timeout      time.Duration
}

// sender makes the function that sends batches.
func (s settings) sender() (batch.SendFunc, error) {
	header := make(http.Header)
	var names map[string]string
	if err := json.Unmarshal([]byte(s.header), &names); err != nil {
		return nil, errHeader
	}
	for name, text := range names {
		header.Set(name, text)
	}
	return batch.NewHTTP(s.url, batch.HTTPOptions{Method: s.method, Header: header, Timeout: s.timeout})
}

var errHeader = errors.New("must be a map of text")

var orders = map[string]batch.Order{"unordered": batch.OrderNone, "key": batch.OrderPerKey, "total": batch.OrderTotal}

var policies = map[string]batch.Policy{
	"block":  batch.PolicyDefault, // Spill with a spool
	"reject": batch.PolicyReject, "drop_oldest": batch.PolicyDropOldest, "drop_newest": batch.PolicyDropNewest,
}

func newBatchNode(o stream.Options, init *node.Init) (*batchNode, error) {
	c := init.Config
	n := &batchNode{
		settings: settings{
			node: init.Node.Namespace + "/" + init.Node.String(),
			url:  c.String("url"), method: c.String("method"),
			count: int(c.Int("count")), bytes: int(c.Int("bytes")), linger: c.Duration("linger"),
			lanes: int(c.Int("lanes")), order: orders[c.String("order")], full: policies[c.String("full")],
			spool: c.String("spool"), delivered: c.String("ack") == "delivered", attempts: int(c.Int("attempts")), timeout: c.Duration("timeout"),
		},
		id: c.String("event_id"), pool: init.Pool, memory: init.Memory, log: init.Log, failing: init.ErrorLinks > 0,
	}
	var found diag.List
	// JSON can hold all that a config can, except for values that cannot be a header.
	header, err := c.Value("header").AppendJSON(nil)
	if err == nil {
		n.settings.header = string(header)
		_, err = n.settings.sender()
	}
	switch {
	case errors.Is(err, errHeader):
		found.Add(c.Errorf("header", diag.CodeBadValue, "%s", err).WithHint("write one such as {x-team: shop}"))
	case err != nil:
		found.Add(c.Errorf("url", diag.CodeBadValue, "%s", strings.TrimPrefix(err.Error(), "batch: ")).WithHint("write one such as http://127.0.0.1:8090/batch"))
	}
	switch keyed := c.Has("key"); {
	case keyed && n.settings.order != batch.OrderPerKey:
		found.Add(c.Errorf("key", diag.CodeBadValue, "key is used with order: key only").WithHint("add order: key, or remove it"))
	case !keyed && n.settings.order == batch.OrderPerKey:
		found.Add(c.Errorf("order", diag.CodeBadValue, "order: key needs the field key").WithHint("add one such as key: user"))
	case keyed:
		n.settings.key = c.Text("key").Code
		key, err := o.Expr(c, "key", lang.Options{Warn: init.Warn})
		if err != nil {
			return nil, errors.Join(found.Err(), err)
		}
		n.key = key
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return n, nil
}

// A batchEvent is a payload on its way into the processor.
type batchEvent struct {
	payload value.Value
	key     uint64
}

func encode(dst []byte, e *batchEvent) ([]byte, error) { return e.payload.AppendJSON(dst) }

// Receive accepts an event or a list of them.
func (n *batchNode) Receive(p node.Process, pkt node.Packet) node.Result {
	payloads := n.identified(p, eventsOf(pkt.Payload))
	if n.settings.delivered || n.settings.spool != "" {
		return n.addConfirmed(p, payloads)
	}
	return n.add(p, payloads)
}

// identified gives the events of a durable process an id, if they have none: the same when they are sent again
// after a crash.
func (n *batchNode) identified(p node.Process, payloads []value.Value) []value.Value {
	run, durable := node.RunOf(p)
	if n.id == "" || !durable {
		return payloads
	}
	for i, payload := range payloads {
		if id, _ := payload.Get(n.id); payload.Kind() == value.KindMap && id.IsNull() {
			payloads[i] = payload.With(n.id, value.String(eventID(run, i)))
		}
	}
	return payloads
}

// eventsOf returns the elements of a list. Any other payload is one event.
func eventsOf(payload value.Value) []value.Value {
	if payload.Kind() != value.KindList {
		return []value.Value{payload}
	}
	all := make([]value.Value, 0, payload.Len())
	for _, e := range payload.Elems() {
		all = append(all, e)
	}
	return all
}

// expired is the context of calls that must not wait.
var expired = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// add accepts events into memory. It waits only for room in the queue.
func (n *batchNode) add(p node.Process, payloads []value.Value) node.Result {
	var failed []error
	for i, payload := range payloads {
		err := n.addOne(expired, p, payload)
		if errors.Is(err, context.Canceled) {
			return node.Block(func(ctx context.Context) node.Result {
				for _, payload := range payloads[i:] {
					if err := n.addOne(ctx, p, payload); err != nil {
						failed = append(failed, n.rejected(payload, err))
					}
				}
				return result(failed)
			})
		}
		if err != nil {
			failed = append(failed, n.rejected(payload, err))
		}
	}
	return result(failed)
}

// addOne adds an event; it may wait for room until ctx ends.
func (n *batchNode) addOne(ctx context.Context, p node.Process, payload value.Value) error {
	e, err := n.event(p, payload)
	if err != nil {
		return err
	}
	return n.processor.add(ctx, &n.settings, &e)
}

// addConfirmed accepts events, and answers when they are on disk, or delivered. It holds
// a goroutine only while there is no room in the queue.
func (n *batchNode) addConfirmed(p node.Process, payloads []value.Value) node.Result {
	d := &delivery{node: n, payloads: payloads, tickets: make([]batch.Ticket, len(payloads)), errs: make([]error, len(payloads))}
	for i := range payloads {
		if full := d.add(expired, p, i); full {
			return node.Block(func(ctx context.Context) node.Result {
				for ; i < len(payloads); i++ {
					d.add(ctx, p, i)
				}
				return node.Await(d.await)
			})
		}
	}
	return node.Await(d.await)
}

// A delivery is a packet whose events are not confirmed yet.
type delivery struct {
	node     *batchNode
	payloads []value.Value
	tickets  []batch.Ticket // zero for events that were not accepted

	mu       sync.Mutex
	errs     []error // by event
	waits    []bool
	left     int
	answered bool
}

// add adds an event. full says that there was no room until ctx ended.
func (d *delivery) add(ctx context.Context, p node.Process, i int) (full bool) {
	e, err := d.node.event(p, d.payloads[i])
	if err == nil {
		d.tickets[i], err = d.node.processor.addAck(ctx, &d.node.settings, &e)
	}
	if ctx == expired && errors.Is(err, context.Canceled) {
		return true
	}
	d.errs[i] = err
	return false
}

// await answers when all events are confirmed, or the process ends.
func (d *delivery) await(ctx context.Context, done func(node.Result)) {
	until := batch.StateDurable
	if d.node.settings.delivered {
		until = batch.StateDelivered
	}
	d.waits = make([]bool, len(d.tickets))
	for i, t := range d.tickets {
		if d.waits[i] = t != (batch.Ticket{}); d.waits[i] {
			d.left++
		}
	}
	if d.left == 0 {
		done(d.result())
		return
	}
	d.mu.Lock()
	forget := context.AfterFunc(ctx, func() { d.cancel(ctx, done) })
	d.mu.Unlock()
	for i, t := range d.tickets {
		if t == (batch.Ticket{}) {
			continue
		}
		t.Notify(until, func(err error) {
			d.mu.Lock()
			d.waits[i], d.errs[i] = false, err
			d.left--
			last := d.left == 0 && !d.answered
			if last {
				d.answered = true
				forget()
			}
			d.mu.Unlock()
			if last {
				done(d.result())
			}
		})
	}
}

// cancel answers because the process ends. ctx is the process's context until the packet
// is answered.
func (d *delivery) cancel(ctx context.Context, done func(node.Result)) {
	d.mu.Lock()
	if d.answered {
		d.mu.Unlock()
		return
	}
	d.answered = true
	errs := slices.Clone(d.errs)
	for i, waits := range d.waits {
		if waits {
			errs[i] = ctx.Err()
		}
	}
	d.mu.Unlock()
	done(d.node.resultOf(d.payloads, errs))
}

// result is the answer when nothing is waited for.
func (d *delivery) result() node.Result { return d.node.resultOf(d.payloads, d.errs) }

func (n *batchNode) resultOf(payloads []value.Value, errs []error) node.Result {
	var failed []error
	for i, err := range errs {
		if err != nil {
			failed = append(failed, n.rejected(payloads[i], err))
		}
	}
	return result(failed)
}

// event evaluates the key. Equal keys make equal numbers in every process, since the
// spool keeps lanes.
func (n *batchNode) event(p node.Process, payload value.Value) (batchEvent, error) {
	e := batchEvent{payload: payload}
	if n.key == nil {
		return e, nil
	}
	v, err := n.key.Eval(p.Context(), payload)
	var text []byte
	if err == nil {
		text, err = v.AppendJSON(nil)
	}
	if err != nil {
		return e, fmt.Errorf("key: %w", err)
	}
	h := fnv.New64a()
	h.Write(text)
	e.key = h.Sum64()
	return e, nil
}

func result(failed []error) node.Result {
	if len(failed) == 0 {
		return node.None()
	}
	return node.Fail(joined(failed))
}

// joined returns one error for several; one by itself stays as it is.
func joined(failed []error) error {
	if len(failed) == 1 {
		return failed[0]
	}
	return errors.Join(failed...)
}

// rejected returns the error of an event that was not accepted, or not delivered.
func (n *batchNode) rejected(payload value.Value, err error) error {
	e := &node.Error{Err: err}
	var dropped *batch.EventError
	switch {
	case errors.Is(err, batch.ErrFull):
		e.Code, e.Status, e.RetryAfter = "full", http.StatusServiceUnavailable, time.Second
	case errors.Is(err, batch.ErrTooLarge):
		e = node.Unusable("too_large", err)
	case errors.Is(err, batch.ErrEncode):
		e = node.Unusable("encode", err)
	case errors.As(err, &dropped):
		if e = node.Unusable(dropped.Reason.String(), err); dropped.Reason != batch.ReasonRefused {
			e.Status, e.Permanent = http.StatusServiceUnavailable, false
		}
	}
	e.Data = payload
	return e
}

// Open makes the processor, or finds the processor of the generation before.
func (n *batchNode) Open(context.Context) error {
	key := fmt.Sprintf("batch %+v", n.settings)
	if n.settings.spool != "" {
		dir, err := filepath.Abs(n.settings.spool)
		if err != nil {
			return err
		}
		n.settings.spool = dir // one key for all spellings of a path
		key = "batch spool " + dir
	}
	o, release, err := node.Acquire(n.pool, key, func() (*sharedProcessor, error) { return newSharedProcessor(n.log, n.memory.Account("batch")), nil })
	if err != nil {
		return err
	}
	if err := o.enter(n); err != nil {
		return errors.Join(err, release())
	}
	n.processor, n.release = o, release
	return nil
}

// Serve reports dropped events at src from now on.
func (n *batchNode) Serve(src node.Starter) error {
	n.source = src
	if n.failing {
		n.processor.reportTo(n)
	}
	return nil
}

// Stop notes how long Close may take.
func (n *batchNode) Stop(ctx context.Context) error {
	n.grace, _ = ctx.Deadline()
	return nil
}

// closeTimeout is how long Close sends if the engine has set no limit, and
// minCloseTimeout is how long it sends at least. A shutdown ends a second after its
// grace.
const closeTimeout, minCloseTimeout = 10 * time.Second, 400 * time.Millisecond

// Close sends what is left, unless another generation goes on with the processor.
func (n *batchNode) Close() error {
	left := closeTimeout
	if !n.grace.IsZero() {
		left = max(minCloseTimeout, time.Until(n.grace))
	}
	return errors.Join(n.processor.leave(n, left), n.release())
}

// Measure reports what the processor holds and has done.
func (n *batchNode) Measure(report func(node.Metric)) { n.processor.measure(report) }

// report sends an event to the error port that was dropped after its packet was
// answered. It returns when the process there has ended.
func (n *batchNode) report(d batch.Dropped, text []byte) {
	payload, err := value.ParseJSON(text)
	if err != nil { // Receive has written it
		payload = value.String(string(text))
	}
	e := n.rejected(payload, &batch.EventError{Reason: d.Reason, Err: d.Err})
	if resp := n.source.Run(context.Background(), node.Fail(e)); resp.IsError() {
		n.log.Error("event is dropped", "reason", d.Reason.String(), "event", node.Clip(string(text), maxQuote), "error", resp.Payload.AsError())
	}
}
