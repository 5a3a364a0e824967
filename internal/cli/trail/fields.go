package trail

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// Fields are the flags that say which fields of an event are its user, its time and so
// on, and which events to accept.
type Fields struct {
	user, time, event, id, unit string
	types                       []string
	times                       timesFlag
	read                        map[string]event.Type // types, after Check
}

// timeUnits are the units of integers that stand for times.
func timeUnits() []string { return []string{"s", "ms", "us", "ns"} }

// AddFlags adds the flags. What a field is called there, such as COLUMN, is the
// placeholder in the help.
func (f *Fields) AddFlags(cmd *cobra.Command, field string) {
	flags := cmd.Flags()
	flags.StringVar(&f.user, "user", "", "the `"+field+"` with the user of an event; user_id or user by default")
	flags.StringVar(&f.time, "time", "", "the `"+field+"` with its time; time, ts or timestamp by default")
	flags.StringVar(&f.event, "event", "", "the `"+field+"` with its name; event or name by default")
	flags.StringVar(&f.id, "id", "", "the `"+field+"` with its id; events with the same user, time and id are stored once")
	flags.StringVar(&f.unit, "time-unit", "", "the `UNIT` of times that are integers: s, ms, us or ns; by default recognized by their size")
	flags.StringSliceVar(&f.types, "types", nil, "override the types of properties, as `PROPERTY:TYPE,...`: string, integer, number or boolean, or skip to leave the property out")
	flags.Var(&f.times, "times", "accept events whose times are within `FROM/TO`, each a day or RFC 3339, or \"any\"; by default from 20 years ago to a day ahead")
	app.CompleteFlag(cmd, "time-unit", timeUnits())
	app.CompleteFlag(cmd, "times", []string{"any"})
}

// Given returns the name of a flag that was given; empty if none was.
func (f *Fields) Given(cmd *cobra.Command) string {
	for _, name := range []string{"user", "time", "event", "id", "time-unit", "types", "times"} {
		if cmd.Flags().Changed(name) {
			return name
		}
	}
	return ""
}

// Check refuses flags that cannot be used. Call it before Import.
func (f *Fields) Check(command string) (err error) {
	if f.unit != "" {
		if err := app.OneOf(command, "time-unit", f.unit, timeUnits()); err != nil {
			return err
		}
	}
	f.read, err = columnTypes(command, f.types)
	return err
}

// Import returns the flags as options of an import.
func (f *Fields) Import() trail.ImportOptions {
	return trail.ImportOptions{User: f.user, Time: f.time, Event: f.event, ID: f.id, TimeUnit: f.unit, Types: f.read}
}

// Times returns the times of events to accept.
func (f *Fields) Times() trail.Times { return trail.Times(f.times) }

// A timesFlag is the value of --times.
type timesFlag trail.Times

func (t *timesFlag) String() string { return trail.Times(*t).String() }

func (t *timesFlag) Set(text string) error {
	times, err := trail.ParseTimes(text)
	*t = timesFlag(times)
	return err
}

func (*timesFlag) Type() string { return "FROM/TO" }

// columnTypes reads --types.
func columnTypes(command string, list []string) (map[string]event.Type, error) {
	if len(list) == 0 {
		return nil, nil
	}
	words := map[string]event.Type{
		"string": event.String, "text": event.String, "integer": event.Int, "int": event.Int,
		"number": event.Float, "float": event.Float, "boolean": event.Bool, "bool": event.Bool,
		"skip": event.Unknown,
	}
	types := make(map[string]event.Type)
	for _, entry := range list {
		i := strings.LastIndexByte(entry, ':') // names of columns may have one
		if i <= 0 {
			return nil, app.Usagef(command, "write --types price:number,zip:string", "--types must be PROPERTY:TYPE, got %q", entry)
		}
		t, ok := words[entry[i+1:]]
		if !ok {
			names := []string{"string", "integer", "number", "boolean", "skip"}
			return nil, app.Usagef(command, app.DidYouMean(entry[i+1:], names, ""), "--types: the type of %s must be string, integer, number, boolean or skip, got %q", entry[:i], entry[i+1:])
		}
		if _, twice := types[entry[:i]]; twice {
			return nil, app.Usagef(command, "", "--types: %q is there twice", entry[:i])
		}
		types[entry[:i]] = t
	}
	return types, nil
}
