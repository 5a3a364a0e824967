package tabular

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A columnSpec describes a column to look for.
type columnSpec struct {
	role     string   // user, time, event or id
	name     string   // as the caller named it, "" if not
	defaults []string // names that are looked for otherwise
	optional bool
}

// Roles of columns: indexes of the columns that are looked for and found.
const (
	colUser = iota
	colTime
	colEvent
	colID
	roles
)

// The names that are looked for unless others are named.
var (
	userNames  = []string{"user_id", "user"}
	timeNames  = []string{"time", "ts", "timestamp"}
	eventNames = []string{"event", "name"}
)

func (o Options) columnSpecs() [roles]columnSpec {
	return [roles]columnSpec{
		colUser:  {role: "user", name: o.User, defaults: userNames},
		colTime:  {role: "time", name: o.Time, defaults: timeNames},
		colEvent: {role: "event", name: o.Event, defaults: eventNames},
		colID:    {role: "id", name: o.ID, optional: true},
	}
}

// resolve returns which columns of the file are for user, time, event and id ("" for no
// id).
func (o Options) resolve(columns []string) (names [roles]string, err error) {
	for i, w := range o.columnSpecs() {
		candidates := w.defaults
		if w.name != "" {
			candidates = []string{w.name}
		}
		for _, c := range candidates {
			if slices.Contains(columns, c) {
				names[i] = c
				break
			}
		}
		if names[i] == "" && !(w.optional && w.name == "") {
			return names, o.missing(w, columns)
		}
	}
	for i, a := range names {
		for j, b := range names[:i] {
			if a != "" && a == b {
				return names, fmt.Errorf("%s and %s are both in the column %q", o.columnSpecs()[j].role, o.columnSpecs()[i].role, a)
			}
		}
	}
	return names, nil
}

// defaults returns the names that are looked for first.
func (o Options) defaults() (names [roles]string) {
	for i, w := range o.columnSpecs() {
		names[i] = w.name
		if w.name == "" && !w.optional {
			names[i] = w.defaults[0]
		}
	}
	return names
}

func (o Options) missing(w columnSpec, columns []string) error {
	e := &ColumnError{Role: w.role, Name: w.name, Columns: columns}
	for _, c := range append([]string{w.name}, w.defaults...) {
		if n, ok := spell.Nearest(c, columns); ok && e.Nearest == "" {
			e.Nearest = n
		}
	}
	if e.Name == "" {
		last := len(w.defaults) - 1
		e.Name = strings.Join(w.defaults[:last], ", ") + " or " + w.defaults[last]
	} else {
		e.Name = strconv.Quote(e.Name)
	}
	return o.advise(e)
}

// checkColumns checks the columns of a file: too many, duplicate names, names that are
// too long, or missing ones that Options.Types has.
func (o Options) checkColumns(columns []string) error {
	if len(columns) > maxProperties {
		return fmt.Errorf("there are %d columns; at most %d are taken", len(columns), maxProperties)
	}
	for _, c := range columns {
		if len(c) > maxName {
			return fmt.Errorf("the name of the column %s is longer than %d bytes", quote(c), maxName)
		}
	}
	if err := records.CheckColumns(columns); err != nil {
		return err
	}
	var lost []string
	for c := range o.Types {
		if !slices.Contains(columns, c) {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return o.missing(columnSpec{name: lost[0]}, columns)
}

// propertyType returns the type of a property whose values are of type found, given
// Options.Types and Options.Known. The result may be Unknown if found is. It is an
// *event.TypeError if the store has a type that does not fit.
func (o Options) propertyType(property string, found event.Type) (event.Type, error) {
	known := o.Known.Type(property)
	if forced, ok := o.Types[property]; ok {
		found = forced
	}
	if t, ok := event.Widen(known, found); ok {
		return t, nil
	}
	return 0, o.advise(&event.TypeError{Property: property, Have: known, Got: found})
}

func (o Options) skips(property string) bool {
	t, ok := o.Types[property]
	return ok && t == event.Unknown
}
