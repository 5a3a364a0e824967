package events

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/schema"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/value"
)

// eventFields are the fields of kinds that add events to a store. ids says what the
// unset event_id means.
func eventFields(ids string) []*schema.Field {
	return []*schema.Field{
		schema.String("db").Required().Doc("The folder of the store, made if it is missing."),
		schema.Expr("user").Doc("An expression over the event for who it was. Unset takes the field `user`."),
		schema.Expr("time").Doc("An expression over the event for when it was: a time, RFC 3339, or a number since 1970 in seconds, milliseconds, microseconds or nanoseconds, told apart by its size. Null is now. Unset takes the field `time`."),
		schema.Expr("event").Doc("An expression over the event for what happened. Unset takes the field `event`."),
		schema.Expr("event_id").Doc("An expression over the event for its id: events of one user and time with the same id are kept once. " + ids),
		schema.String("times").Doc("Which times events may have: `FROM/TO`, each a day or a time of RFC 3339, either may be left out; or `any`. Other events are refused. Unset takes 20 years up to now, and a day ahead."),
		schema.Expr("properties").Doc("An expression over the event for a map of its properties. Unset takes all of its fields, except those that the other expressions name."),
	}
}

// An eventMaker makes events of payloads, as the fields of a config say.
type eventMaker struct {
	who, when, what, id part
	times               trail.Times
	properties          lang.Program // nil takes the rest
	rest                []string     // fields that are not among the properties then
	parsers             sync.Map     // of *trail.EventParser, by the names of user, time, event and id
}

// A part of an event is a field of the payload, or what an expression makes of it.
// The zero part is nothing.
type part struct {
	field   string
	program lang.Program
}

// fieldName is an expression that is the name of a field.
var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`) })

// compile reads the fields of a config.
func (n *eventMaker) compile(o stream.Options, init *node.Init) error {
	c := init.Config
	var errs []error
	compile := func(name string) lang.Program {
		p, err := o.Expr(c, name, lang.Options{Warn: init.Warn})
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
		case fieldName().MatchString(code) && code != "self" && code != "null" && code != "true" && code != "false":
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
	return errors.Join(errs...)
}

// of returns the value of the part in a payload, null if it is missing.
func (f *part) of(ctx context.Context, payload value.Value) (value.Value, error) {
	if f.program != nil {
		return f.program.Eval(ctx, payload)
	}
	v, _ := payload.Get(f.field)
	return v, nil
}

// eventDefaults are what an event has without its own, and when it came.
type eventDefaults struct {
	id        value.Value // null for none
	time, now time.Time
}

// make makes an event of a payload. It reuses line.
func (n *eventMaker) make(ctx context.Context, payload value.Value, given eventDefaults, line *[]byte) (e event.Event, err error) {
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
			if v = given.id; v.IsNull() {
				continue
			}
		case v.IsNull() && f.part == &n.when:
			v = value.Time(given.time)
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
	return e, n.times.Check(e.Time, given.now)
}

// parser returns the parser for the names of user, time, event and id.
func (n *eventMaker) parser(columns [4]string) (*trail.EventParser, error) {
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

// refusedEvent is the error of an event that cannot be taken.
func refusedEvent(err error) *node.Error {
	return &node.Error{Err: err, Status: http.StatusUnprocessableEntity, Code: "refused", Public: true}
}
