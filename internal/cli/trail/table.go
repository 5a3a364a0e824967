package trail

import (
	"math"

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

// ratio writes one count as a share of another, empty if there is none.
func ratio(part, whole query.Number) string {
	if whole.N <= 0 {
		return ""
	}
	return show.Percent(float64(part.N) / float64(whole.N))
}
