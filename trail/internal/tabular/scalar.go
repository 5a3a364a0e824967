package tabular

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// parseInt reads an integer as it is written canonically: without a plus, spaces
// or leading zeros, which make a text (a zip code, a phone number).
func parseInt(s string) (v int64, ok bool) {
	i, negative := 0, false
	if s != "" && s[0] == '-' {
		i, negative = 1, true
	}
	n := len(s) - i
	if n == 0 || n > 19 || s[i] == '0' && n > 1 {
		return 0, false
	}
	u := uint64(0)
	for ; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return 0, false
		}
		u = u*10 + uint64(c) // 19 digits fit
	}
	switch {
	case negative && u <= 1<<63:
		return -int64(u), true
	case !negative && u < 1<<63:
		return int64(u), true
	}
	return 0, false
}

var errNumber = errors.New("not a number")

// errLeast refuses the integer that stands for the missing value in a store.
var errLeast = errors.New("integers begin at -9223372036854775807")

// parseFloat reads a decimal number: 1, -1.5, .5, 1e9. Leading zeros, a plus,
// hexadecimal digits, underscores, NaN, the infinities and what is larger than any
// number are errors.
func parseFloat(s string) (float64, error) {
	i := 0
	if s != "" && s[0] == '-' {
		i = 1
	}
	if i >= len(s) || s[i] == '0' && i+1 < len(s) && isDigit(s[i+1]) {
		return 0, errNumber
	}
	for _, c := range []byte(s[i:]) {
		switch {
		case isDigit(c), c == '.', c == 'e', c == 'E', c == '-', c == '+':
		default:
			return 0, errNumber
		}
	}
	if s[i] == '+' || s[i] == '-' {
		return 0, errNumber
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsInf(v, 0) {
		return 0, errNumber
	}
	return v, nil
}

// errInexact refuses an integer that a number would change. Such integers are mostly
// identifiers, and two different ones could become equal.
var errInexact = errors.New("an integer that a number cannot hold exactly")

// parseNumber reads a decimal number. An integer above 2^53 is taken only if a number
// holds it exactly.
func parseNumber(s string) (float64, error) {
	f, err := parseFloat(s)
	if err == nil && math.Abs(f) >= 1<<53 && isWhole(s) && strconv.FormatFloat(f, 'f', 0, 64) != s {
		err = errInexact
	}
	return f, err
}

func isWhole(s string) bool {
	for _, c := range []byte(strings.TrimPrefix(s, "-")) {
		if !isDigit(c) {
			return false
		}
	}
	return true
}

// parseBool reads true and false as most programs write them.
func parseBool(s string) (v, ok bool) {
	switch s {
	case "true", "True", "TRUE":
		return true, true
	case "false", "False", "FALSE":
		return false, true
	}
	return false, false
}

// parseValue reads a text as a type; it is not ok if it does not fit. The empty
// text is missing in any type. A String shares the memory of s.
func parseValue(s string, t event.Type) (v event.Value, ok bool) {
	if s == "" {
		return event.Value{}, true
	}
	switch t {
	case event.Int:
		i, ok := parseInt(s)
		return event.IntOf(i), ok && i != math.MinInt64
	case event.Float:
		if i, ok := parseInt(s); ok && i > -1<<53 && i < 1<<53 {
			return event.FloatOf(float64(i)), true
		}
		f, err := parseNumber(s)
		return event.FloatOf(f), err == nil
	case event.Bool:
		b, ok := parseBool(s)
		if s == "0" || s == "1" { // as many databases write them; alone they are taken for integers
			b, ok = s == "1", true
		}
		return event.BoolOf(b), ok
	}
	return event.StringOf(s), true
}

// A guess has the types that all texts of a column fit so far.
type guess struct{ seen, notInt, notFloat, notBool bool }

func (g *guess) see(s string) {
	if s == "" || g.notInt && g.notFloat && g.notBool {
		return
	}
	g.seen = true
	if !g.notInt {
		i, ok := parseInt(s)
		g.notInt = !ok
		g.notFloat = g.notFloat || ok && !event.IntOf(i).Exact(event.Float)
	}
	if g.notInt && !g.notFloat {
		_, err := parseNumber(s)
		g.notFloat = err != nil
	}
	if !g.notBool {
		_, ok := parseBool(s)
		g.notBool = !ok
	}
}

func (g *guess) best() event.Type {
	switch {
	case !g.seen:
		return event.Unknown
	case !g.notInt:
		return event.Int
	case !g.notFloat:
		return event.Float
	case !g.notBool:
		return event.Bool
	}
	return event.String
}

func quote(s string) string {
	if len(s) > 40 {
		s = s[:40]
		return strconv.Quote(s) + "…"
	}
	return strconv.Quote(s)
}

// mismatch returns the error about a text that is not of the type of its property.
func (o Options) mismatch(property, text string, t event.Type) error {
	if i, ok := parseInt(text); ok && i == math.MinInt64 && t == event.Int {
		return fmt.Errorf("%s: %w", property, errLeast)
	}
	if err := tooLarge(text, t); err != nil {
		return o.advise(&PropertyError{Property: property, Reason: fmt.Sprintf("%s: %v", property, err), AsString: true})
	}
	return fmt.Errorf("%s: %s is not %s", property, quote(text), article(t))
}

// tooLarge returns an error for an integer that a type cannot hold, nil for other
// texts.
func tooLarge(text string, t event.Type) error {
	_, err := parseNumber(text)
	switch {
	case t == event.Float && err == errInexact:
		return fmt.Errorf("%s is %w", quote(text), errInexact)
	case t == event.Int && (err == nil || err == errInexact) && isWhole(text):
		return fmt.Errorf("%s is an integer of more than 64 bits", quote(text))
	}
	return nil
}

func article(t event.Type) string {
	if t == event.Int || t == event.Unknown {
		return "an " + t.String()
	}
	return "a " + t.String()
}
