package tabular

import (
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A columnSpec is a column that is looked for.
type columnSpec struct {
	flag     string   // how the command line names it
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
		colUser:  {flag: "--user", name: o.User, defaults: userNames},
		colTime:  {flag: "--time", name: o.Time, defaults: timeNames},
		colEvent: {flag: "--event", name: o.Event, defaults: eventNames},
		colID:    {flag: "--id", name: o.ID, optional: true},
	}
}

// resolve tells the names of the columns for user, time, event and id ("" for no
// id) among those that are there. The error tells the flag and the nearest name.
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
			return names, missingColumn(w, columns)
		}
	}
	for i, a := range names {
		for j, b := range names[:i] {
			if a != "" && a == b {
				return names, fmt.Errorf("%s and %s both take the column %q", o.columnSpecs()[j].flag, o.columnSpecs()[i].flag, a)
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

func missingColumn(w columnSpec, columns []string) error {
	var b strings.Builder
	if w.name != "" {
		fmt.Fprintf(&b, "there is no column %q, which %s names", w.name, w.flag)
	} else {
		last := len(w.defaults) - 1
		fmt.Fprintf(&b, "there is no column %s or %s", strings.Join(w.defaults[:last], ", "), w.defaults[last])
	}
	if len(columns) == 0 {
		return fmt.Errorf("%s: there are no columns at all", b.String())
	}
	near := ""
	for _, c := range append([]string{w.name}, w.defaults...) {
		if n, ok := spell.Nearest(c, columns); ok && near == "" {
			near = n
		}
	}
	switch {
	case near != "":
		fmt.Fprintf(&b, "; did you mean %s %s?", w.flag, near)
	case w.name == "":
		fmt.Fprintf(&b, "; name it with %s.", w.flag)
	default:
		b.WriteByte('.')
	}
	shown := columns[:min(len(columns), 50)]
	fmt.Fprintf(&b, " The columns are %s", strings.Join(shown, ", "))
	if len(shown) < len(columns) {
		fmt.Fprintf(&b, " and %d more", len(columns)-len(shown))
	}
	return fmt.Errorf("%s", b.String())
}

// checkColumns tells what is wrong with the names of a file: one that stands
// twice, is too long, or too many; or one that Options.Types has and the file not.
func (o Options) checkColumns(columns []string) error {
	if len(columns) > maxProperties {
		return fmt.Errorf("there are %d columns; at most %d are taken", len(columns), maxProperties)
	}
	seen := make(map[string]bool, len(columns))
	for _, c := range columns {
		if seen[c] {
			return fmt.Errorf("the column %q is there twice", c)
		}
		if len(c) > maxName {
			return fmt.Errorf("the name of the column %s is longer than %d bytes", quote(c), maxName)
		}
		seen[c] = true
	}
	var lost []string
	for c := range o.Types {
		if !seen[c] {
			lost = append(lost, c)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	return missingColumn(columnSpec{flag: "--types", name: lost[0]}, columns)
}

// propertyType decides the type of a property whose values are of type found (Unknown if
// it has none, and then the answer may be), given what was forced and what the store
// has. It is an error if the store has another one.
func (o Options) propertyType(property string, found event.Type) (event.Type, error) {
	known := o.Known.Type(property)
	forced, isForced := o.Types[property]
	if isForced {
		found = forced
	}
	if t, ok := event.Widen(known, found); ok {
		return t, nil
	}
	err := &event.TypeError{Property: property, Have: known, Got: found}
	if o.flagless {
		return 0, err
	}
	if isForced {
		return 0, fmt.Errorf("%w, which --types says", err)
	}
	return 0, fmt.Errorf("%w; %s", err, remedy(property, known, found))
}

// remedy tells which --types takes a property that comes as another type than the
// store has.
func remedy(property string, known, found event.Type) string {
	skip := fmt.Sprintf("--types %s:skip leaves it out", property)
	switch {
	case known == event.String:
		return fmt.Sprintf("--types %s:string reads it as a string", property)
	case known == event.Bool && found == event.Int:
		return fmt.Sprintf("--types %s:boolean takes 0 and 1 for false and true, %s", property, skip)
	case found == event.String:
		return fmt.Sprintf("%s; with --types %s:%s the rows where it is not %s are bad ones, which --max-bad leaves out", skip, property, known, article(known))
	}
	return skip
}

// skips tells whether a property is to be left out.
func (o Options) skips(property string) bool {
	t, ok := o.Types[property]
	return ok && t == event.Unknown
}
