package tabular

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Parser reads JSON objects as events, one by one. It may be used concurrently.
type Parser struct {
	opt      Options
	unit     unit
	columns  [roles]columnSpec
	scanners sync.Pool // of *scanner
}

// NewParser returns a parser of objects whose members mean what the options say.
// With the default names, an object that has several takes the first: user_id
// before user, and so on; the other is a property.
func NewParser(opt Options) (*Parser, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	u, err := unitOf(opt.TimeUnit)
	if err != nil {
		return nil, err
	}
	return &Parser{opt: opt, unit: u, columns: opt.columnSpecs()}, nil
}

// Parse reads one JSON object as an event. Objects in it become properties with
// dots in their names; null and empty members are left out; arrays are errors, as
// is a value that does not go with Options.Known (an *event.TypeError). The event
// is the caller's.
func (p *Parser) Parse(object []byte) (event.Event, error) {
	if len(object) > maxRecord {
		return event.Event{}, errors.New("the object is longer than 1 MiB")
	}
	scan, ok := p.scanners.Get().(*scanner)
	if !ok {
		scan = &scanner{members: make([]member, 0, 16)}
	}
	defer p.scanners.Put(scan)
	*scan = scanner{members: scan.members, path: scan.path, values: scan.values}
	// All texts without escapes are parts of one copy.
	if err := scan.object(bytes.Clone(object)); err != nil {
		return event.Event{}, err
	}
	members := scan.members
	defer clear(members) // they hold the copy
	var found [roles]*member
	var e event.Event
	for role, w := range p.columns {
		found[role] = find(members, w)
	}
	var err error
	for role, m := range found {
		switch {
		case m == nil || m.kind == jsonNull || m.text == "" && m.kind == jsonString:
			if !p.columns[role].optional {
				return event.Event{}, p.missing(role, m)
			}
		case role == colUser:
			e.User, err = m.identity()
		case role == colEvent:
			e.Name, err = m.identity()
		case role == colID:
			e.ID, err = m.identity()
		case role == colTime:
			e.Time, err = m.time(p.unit)
		}
		if err != nil {
			return event.Event{}, err
		}
	}
	if n := len(members) - len(found); n > 0 {
		e.Properties = make([]event.Property, 0, n+1)
	}
	for i := range members {
		m := &members[i]
		if p.taken(m, found) || p.opt.skips(m.name) {
			continue
		}
		v, err := p.value(m)
		if err != nil {
			return event.Event{}, err
		}
		if v.Missing() {
			continue
		}
		if len(e.Properties) == maxProperties || len(m.name) > maxName {
			return event.Event{}, fmt.Errorf("property %s: more than %d properties, or a name longer than %d bytes", quote(m.name), maxProperties, maxName)
		}
		e.Properties = append(e.Properties, event.Property{Name: m.name, Value: v})
	}
	return e, nil
}

// find returns the last member of the first name that is wanted.
func find(members []member, w columnSpec) *member {
	names := w.defaults
	if w.name != "" {
		names = []string{w.name}
	}
	for _, name := range names {
		for i := len(members) - 1; i >= 0; i-- {
			if members[i].name == name {
				return &members[i]
			}
		}
	}
	return nil
}

// taken reports whether a member has a role, and so is not a property.
func (p *Parser) taken(m *member, found [roles]*member) bool {
	for _, f := range found {
		if f != nil && (f == m || f.name == m.name) {
			return true
		}
	}
	return false
}

func (p *Parser) missing(role int, m *member) error {
	if m != nil {
		return fmt.Errorf("%s is empty", m.name)
	}
	w := p.columns[role]
	if w.name != "" {
		return fmt.Errorf("%s is missing", w.name)
	}
	return fmt.Errorf("%s is missing", strings.Join(w.defaults, " or "))
}

// value reads a property in the type that it has in the store, or else its own.
func (p *Parser) value(m *member) (event.Value, error) {
	_, forced := p.opt.Types[m.name]
	v, err := p.opt.convert(m, event.Unknown, forced)
	if err != nil || v.Missing() || len(p.opt.Known) == 0 {
		return v, err
	}
	t, err := p.opt.propertyType(m.name, v.Type())
	if err != nil {
		return event.Value{}, err
	}
	if !v.Exact(t) {
		return event.Value{}, &event.InexactError{Property: m.name, Value: v}
	}
	v, _ = v.As(t) // propertyType checked it
	return v, nil
}
