package tabular

import (
	"fmt"
	"strings"
)

// A ColumnError reports a column that is missing.
type ColumnError struct {
	Role    string   // user, time, event or id; empty for a property
	Name    string   // the name in quotes, or the names that are looked for by default
	Nearest string   // the column with the nearest name, empty for none
	Columns []string // of the file
}

func (e *ColumnError) Error() string {
	if len(e.Columns) == 0 {
		return fmt.Sprintf("there is no column %s: there are no columns at all", e.Name)
	}
	shown, more := e.Columns, ""
	if len(shown) > 50 {
		shown, more = shown[:50], fmt.Sprintf(" and %d more", len(e.Columns)-50)
	}
	return fmt.Sprintf("there is no column %s among %s%s", e.Name, strings.Join(shown, ", "), more)
}

// A PropertyError reports a property that cannot be read.
type PropertyError struct {
	Property string
	Reason   string // names the property
	AsString bool   // it can be read as a string
}

func (e *PropertyError) Error() string { return e.Reason }

// advise appends to an error what Options.Advice says of it.
func (o Options) advise(err error) error {
	advice := ""
	if o.Advice != nil {
		advice = o.Advice(err)
	} else if e, ok := err.(*PropertyError); ok && e.AsString {
		advice = "as a string it can be kept"
	}
	if advice == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, advice)
}
