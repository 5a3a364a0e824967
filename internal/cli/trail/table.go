package trail

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// number writes a count, with the confidence interval if it is from a sample.
func number(n query.Number) string {
	if !n.Sampled {
		return show.Thousands(n.N)
	}
	return show.Thousands(n.N) + " ±" + show.Thousands(max(n.N-n.Low, n.High-n.N))
}

// measured writes the value of a measure, "-" for none.
func measured(m query.Measured) string {
	switch m.Type {
	case event.Int:
		text := show.Thousands(m.Int)
		if m.Sampled {
			text += " ±" + show.Thousands(int64(math.Ceil(max(float64(m.Int)-m.Low, m.High-float64(m.Int)))))
		}
		return text
	case event.Float:
		text := show.Decimals(m.Float)
		if m.Sampled {
			text += " ±" + show.Decimals(max(m.Float-m.Low, m.High-m.Float))
		}
		return text
	}
	return "-"
}

// amount is the value of a measure, for bars.
func amount(m query.Measured) float64 {
	if m.Type == event.Int {
		return float64(m.Int)
	}
	return m.Float
}

// shown is a value in a cell.
func shown(v event.Value) string {
	if v.Missing() {
		return "(missing)"
	}
	return v.String()
}

// others stands for the groups beyond a limit.
const others = "(other)"

// byHeads adds a column for each property of groups.
func byHeads(t *show.Table, by []string) {
	for _, name := range by {
		t.Text(strings.ToUpper(name))
	}
}

// groupCells are the cells of a group below byHeads.
func groupCells(by []string, values []event.Value, other bool) []string {
	cells := make([]string, len(by))
	if other {
		cells[0] = others
		return cells
	}
	for i, v := range values {
		cells[i] = shown(v)
	}
	return cells
}

// taken writes how long people took, in the two largest units.
func taken(d time.Duration) string {
	const minute, hour, day = time.Minute, time.Hour, 24 * time.Hour
	two := func(unit time.Duration, name string, part time.Duration, partName string) string {
		text := fmt.Sprintf("%d %s", d/unit, name)
		if rest := d % unit / part; rest > 0 {
			text += fmt.Sprintf(" %d %s", rest, partName)
		}
		return text
	}
	switch {
	case d >= day:
		return two(day, "d", hour, "h")
	case d >= hour:
		return two(hour, "h", minute, "min")
	case d >= minute:
		return two(minute, "min", time.Second, "s")
	case d >= time.Second:
		return fmt.Sprintf("%d s", d/time.Second)
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

// ratio writes one count as a share of another, empty if there is none.
func ratio(part, whole query.Number) string {
	if whole.N <= 0 {
		return ""
	}
	return show.Percent(float64(part.N) / float64(whole.N))
}
