package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/uniflow-labs/uniflow/internal/cli/app"
	clitrail "github.com/uniflow-labs/uniflow/internal/cli/trail"
	"github.com/uniflow-labs/uniflow/internal/loader"
	"github.com/uniflow-labs/uniflow/internal/loader/trailstore"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// trailOptions are the flags of a loader that keeps events in a store.
type trailOptions struct {
	dir                   string
	user, time, event, id string
	unit                  string
	types                 []string
	times                 clitrail.TimesFlag
	read                  map[string]event.Type // what check has made of types
}

func (o *trailOptions) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.dir, "trail", "", "keep events in the store in `FOLDER`, made if it is missing; no other process may write to it while the loader runs")
	flags.StringVar(&o.user, "user", "", "the `FIELD` with the user of an event, for --trail (default user_id or user)")
	flags.StringVar(&o.time, "time", "", "the `FIELD` with its time: RFC 3339, or a number (default time, ts or timestamp)")
	flags.StringVar(&o.event, "event", "", "the `FIELD` with its name (default event or name)")
	flags.StringVar(&o.id, "id", "", "the `FIELD` with an id: events of one user and time with the same one are kept once (default none)")
	flags.StringVar(&o.unit, "time-unit", "", "the `UNIT` of times that are numbers: s, ms, us or ns (default: by their size)")
	flags.Var(&o.times, "times", clitrail.TimesHelp)
	flags.StringSliceVar(&o.types, "types", nil, "set types of properties, as `PROPERTY:TYPE,...`: string, integer, number or boolean, or skip to leave it out")
}

// check returns an error for invalid options.
func (o *trailOptions) check(command string) (err error) {
	if o.dir == "" {
		for _, f := range []struct{ name, value string }{
			{"user", o.user}, {"time", o.time}, {"event", o.event}, {"id", o.id}, {"time-unit", o.unit}, {"types", strings.Join(o.types, ",")}, {"times", o.times.String()},
		} {
			if f.value != "" {
				return app.Usagef(command, "add --trail store, or remove it", "--%s says how events go to a store, and --trail is missing", f.name)
			}
		}
		return nil
	}
	if o.unit != "" {
		if err := app.OneOf(command, "time-unit", o.unit, clitrail.TimeUnits()); err != nil {
			return err
		}
	}
	o.read, err = clitrail.ColumnTypes(command, o.types)
	return err
}

// open opens the store, and sets the options of a loader that keeps events in it.
// The caller closes the store, after the loader.
func (o *trailOptions) open(opts *loader.Options) (*trail.Store, error) {
	st, err := trailstore.Use(opts, trailstore.Options{
		Dir: o.dir, Times: trail.Times(o.times),
		Fields: trail.ImportOptions{User: o.user, Time: o.time, Event: o.event, ID: o.id, TimeUnit: o.unit, Types: o.read},
	})
	if err != nil {
		return nil, clitrail.StoreError(fmt.Errorf("loader: %w", err))
	}
	return st, nil
}
