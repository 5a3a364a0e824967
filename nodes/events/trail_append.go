package events

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/value"
)

func trailAppendDef(o Options) *node.Def {
	return &node.Def{
		Kind:    "trail_append",
		Summary: "Adds events to a store that you can query for funnels, retention and more.",
		Doc: "A payload is one event; each element of a list is one. An event has a user, a time and a name. Its other fields are its properties: text, numbers and booleans. Maps within it become properties such as `item.price`; null and empty text are left out; lists are refused.\n\n" +
			"The packet is answered `{\"appended\": N}` when the events survive a loss of power and queries see them. All of a list are added, or none: an event that cannot be taken goes to `error` with its number in the list, the code `refused`, and itself as `data`. A property keeps the type of its first value; integers and other numbers can be mixed.\n\n" +
			"All nodes of a process that name one folder share its store. No other process may write to the store at the same time: `uniflow loader --trail` and `uniflow trail import` need another folder, or another time.",
		Example: "- kind: trail_append\n  name: keep\n  db: shop.trail\n  user: customer\n  event: \"'order.' + status\"\n",
		Config: schema.Fields(
			schema.String("db").Required().Doc("The folder of the store, made if it is missing."),
			schema.Expr("user").Doc("An expression over the event for who it was. Unset takes the field `user`."),
			schema.Expr("time").Doc("An expression over the event for when it was: a time, RFC 3339, or a number since 1970 in seconds, milliseconds, microseconds or nanoseconds, told apart by its size. Null is now. Unset takes the field `time`."),
			schema.Expr("event").Doc("An expression over the event for what happened. Unset takes the field `event`."),
			schema.Expr("event_id").Doc("An expression over the event for its id: events of one user and time with the same id are kept once. Null is none. Unset keeps all."),
			schema.String("times").Doc("Which times events may have: `FROM/TO`, each a day or a time of RFC 3339, either may be left out; or `any`. Other events are refused. Unset takes 20 years up to now, and a day ahead."),
			schema.Expr("properties").Doc("An expression over the event for a map of its properties. Unset takes all of its fields, except those that the other expressions name."),
		),
		In:           []node.Port{{Name: "in", Doc: "An event, or a list of them."}},
		HasErrorPort: true,
		Recall:       node.Always(node.Effects),
		New:          func(init *node.Init) (node.Node, error) { return newAppendNode(o, init) },
	}
}

// An appendNode is a node of kind trail_append.
type appendNode struct {
	db                  string
	who, when, what, id part
	times               trail.Times
	properties          lang.Program // nil takes the rest
	rest                []string     // fields that are not among the properties then
	pool                *node.Pool
	log                 *slog.Logger
	parsers             sync.Map // of *trail.EventParser, by the names of user, time, event and id

	store   *sharedStore
	release func() error
}

// A part of an event is a field of the payload, or what an expression makes of it.
// The zero part is nothing.
type part struct {
	field   string
	program lang.Program
}

// fieldName is an expression that is the name of a field.
var fieldName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func newAppendNode(o Options, init *node.Init) (*appendNode, error) {
	c := init.Config
	n := &appendNode{db: c.String("db"), pool: init.Pool, log: init.Log}
	var errs []error
	compile := func(name string) lang.Program {
		p, err := o.Languages.Compile(o.Language, c.Text(name), lang.Options{Mode: lang.ModeExpression})
		if err != nil {
			errs = append(errs, err)
		}
		return p
	}
	for _, f := range []struct {
		name    string
		part    *part
		missing string // the field if the author gave none
	}{{"user", &n.who, "user"}, {"time", &n.when, "time"}, {"event", &n.what, "event"}, {"event_id", &n.id, ""}} {
		switch code := c.String(f.name); {
		case !c.Has(f.name):
			f.part.field = f.missing
		case fieldName.MatchString(code) && code != "self" && code != "null" && code != "true" && code != "false":
			f.part.field = code
		default:
			f.part.program = compile(f.name)
		}
		if f.part.field != "" {
			n.rest = append(n.rest, f.part.field)
		}
	}
	var err error
	if n.times, err = trail.ParseTimes(c.String("times")); err != nil {
		errs = append(errs, err)
	}
	if c.Has("properties") {
		n.properties = compile("properties")
	}
	return n, errors.Join(errs...)
}

// of returns the value of the part in a payload, null if it is missing.
func (f *part) of(ctx context.Context, payload value.Value) (value.Value, error) {
	if f.program != nil {
		return f.program.Eval(ctx, payload)
	}
	v, _ := payload.Get(f.field)
	return v, nil
}

// Receive adds an event or a list of them.
func (n *appendNode) Receive(p node.Process, pkt node.Packet) node.Result {
	now := time.Now()
	list := pkt.Payload.Kind() == value.KindList
	payloads := eventsOf(pkt.Payload)
	all := make([]event.Event, 0, len(payloads))
	var bad []error
	var line []byte
	for i, payload := range payloads {
		e, err := n.event(p.Context(), payload, now, &line)
		if err != nil {
			bad = append(bad, n.refused(i, list, payload, err))
			continue
		}
		all = append(all, e)
	}
	if len(bad) > 0 {
		return result(bad)
	}
	return node.Block(func(ctx context.Context) node.Result { return n.append(ctx, all, payloads, list) })
}

// append adds events, and waits until they are durable.
func (n *appendNode) append(ctx context.Context, all []event.Event, payloads []value.Value, list bool) node.Result {
	if len(all) > 0 {
		s, done, err := n.store.writer()
		if err != nil {
			return node.Fail(err)
		}
		defer done()
		err = s.Append(ctx, all)
		if refused := (*trail.RejectedError)(nil); errors.As(err, &refused) {
			var bad []error
			for _, r := range refused.Refused {
				bad = append(bad, n.refused(r.Index, list, payloads[r.Index], r.Err))
			}
			return result(bad)
		}
		if err != nil {
			return node.Fail(&node.Error{Err: err, Status: http.StatusServiceUnavailable, Code: "unwritable"})
		}
	}
	return node.Answer(value.Map(value.Field{Name: "appended", Value: value.Int(int64(len(all)))}))
}

// event makes an event of a payload. It reuses line.
func (n *appendNode) event(ctx context.Context, payload value.Value, now time.Time, line *[]byte) (e event.Event, err error) {
	if payload.Kind() != value.KindMap && n.properties == nil {
		return e, fmt.Errorf("must be a map, got %s", payload.Kind())
	}
	properties := payload
	if n.properties != nil {
		if properties, err = n.properties.Eval(ctx, payload); err != nil {
			return e, fmt.Errorf("properties: %w", err)
		}
		if properties.Kind() != value.KindMap {
			return e, fmt.Errorf("properties: must be a map, got %s", properties.Kind())
		}
	} else {
		for _, name := range n.rest {
			properties = properties.Without(name)
		}
	}
	var columns [4]string
	for i, f := range []struct {
		what string
		part *part
	}{{"user", &n.who}, {"time", &n.when}, {"event", &n.what}, {"event_id", &n.id}} {
		v, err := f.part.of(ctx, payload)
		switch {
		case err != nil:
			return e, fmt.Errorf("%s: %w", f.what, err)
		case v.IsNull() && f.part == &n.id:
			continue
		case v.IsNull() && f.part == &n.when:
			v = value.Time(now)
		case v.IsNull():
			return e, fmt.Errorf("%s: is missing", f.what)
		}
		columns[i] = f.what
		if _, taken := properties.Get(f.what); taken { // by a property
			columns[i] = "\x00" + f.what
		}
		properties = properties.With(columns[i], v)
	}
	parser, err := n.parser(columns)
	if err != nil {
		return e, err
	}
	if *line, err = properties.AppendJSON((*line)[:0]); err != nil {
		return e, err
	}
	if e, err = parser.Parse(*line); err != nil {
		return e, err
	}
	return e, n.times.Check(e.Time, now)
}

// parser returns the parser for the names of user, time, event and id.
func (n *appendNode) parser(columns [4]string) (*trail.EventParser, error) {
	if p, ok := n.parsers.Load(columns); ok {
		return p.(*trail.EventParser), nil
	}
	p, err := trail.NewEventParser(trail.ImportOptions{User: columns[0], Time: columns[1], Event: columns[2], ID: columns[3]})
	if err != nil {
		return nil, err
	}
	n.parsers.Store(columns, p)
	return p, nil
}

// refused returns the error of an event that was not added.
func (n *appendNode) refused(i int, list bool, payload value.Value, err error) error {
	if list {
		err = fmt.Errorf("event %d: %w", i, err)
	}
	return &node.Error{Err: err, Status: http.StatusUnprocessableEntity, Code: "refused", Public: true, Data: payload}
}

// Open opens the store, or finds that of another node.
func (n *appendNode) Open(context.Context) (err error) {
	n.store, n.release, err = acquireStore(n.pool, n.log, n.db, true)
	return err
}

// Close releases the store.
func (n *appendNode) Close() error {
	if n.release == nil { // it was never opened
		return nil
	}
	return n.release()
}
