package jsonschema

import (
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// types has the types of JSON Schema as bits.
type types uint8

const (
	isNull types = 1 << iota
	isBool
	isInteger // set with isNumber for a number without a fraction
	isNumber
	isString
	isArray
	isObject
)

// typeNames are the names of the bits, in JSON Schema and in messages.
var typeNames = [...]struct{ name, text string }{
	{"null", "null"},
	{"boolean", "a boolean"},
	{"integer", "an integer"},
	{"number", "a number"},
	{"string", "a string"},
	{"array", "a list"},
	{"object", "an object"},
}

func typesOf(t *library.Types) (all types) {
	if t == nil {
		return 0
	}
	names := t.ToStrings()
	for i, of := range typeNames {
		if slices.Contains(names, of.name) {
			all |= 1 << i
		}
	}
	return all
}

// typeOf returns what a value is, 0 if JSON has no such value.
func typeOf(v value.Value) types {
	switch v.Kind() {
	case value.KindNull:
		return isNull
	case value.KindBool:
		return isBool
	case value.KindInt, value.KindUint:
		return isInteger | isNumber
	case value.KindFloat:
		f, _ := v.AsFloat()
		switch {
		case math.IsNaN(f) || math.IsInf(f, 0):
			return 0
		case f == math.Trunc(f):
			return isInteger | isNumber
		}
		return isNumber
	case value.KindString, value.KindTime, value.KindDuration, value.KindBinary:
		return isString
	case value.KindList:
		return isArray
	}
	return isObject
}

// orAny names the types that a value may have.
func (t types) orAny() string {
	var names []string
	for i, of := range typeNames {
		if t&(1<<i) != 0 {
			names = append(names, of.text)
		}
	}
	if len(names) == 0 {
		return "a value of JSON"
	}
	return strings.Join(names, " or ")
}

// nameOf names what a value is.
func nameOf(v value.Value) string {
	t := typeOf(v)
	for i, of := range typeNames {
		if t&(1<<i) == 0 {
			continue
		}
		if t&isNumber != 0 && v.Kind() == value.KindFloat {
			return "a number"
		}
		return of.text
	}
	return "what is not a number"
}

func (r *rule) matchesString(v value.Value, to *report, w *work) bool {
	s, _ := v.AsString()
	ok := true
	if r.minLength >= 0 || r.maxLength >= 0 || r.pattern != nil {
		w.left -= len(s) / 4
	}
	if r.minLength >= 0 || r.maxLength >= 0 {
		n := utf8.RuneCountInString(s)
		if n < r.minLength {
			if to == nil {
				return false
			}
			ok = to.add("want at least %s, got %d", amount(r.minLength, "character"), n)
		}
		if r.maxLength >= 0 && n > r.maxLength {
			if to == nil {
				return false
			}
			ok = to.add("want at most %s, got %d", amount(r.maxLength, "character"), n)
		}
	}
	if r.pattern != nil && !r.pattern.MatchString(s) {
		if to == nil {
			return false
		}
		if r.hidden {
			to.add("does not match the pattern")
		} else {
			to.add("want a match of %s", node.Clip(r.pattern.String(), maxQuote))
		}
		ok = false
	}
	return ok
}

func (r *rule) matchesNumber(v value.Value, to *report) bool {
	ok := true
	for _, b := range [...]struct {
		than *value.Value
		bad  bool
		text string
	}{
		{r.min, r.min != nil && v.Compare(*r.min) < 0, "want at least "},
		{r.max, r.max != nil && v.Compare(*r.max) > 0, "want at most "},
		{r.above, r.above != nil && v.Compare(*r.above) <= 0, "want more than "},
		{r.below, r.below != nil && v.Compare(*r.below) >= 0, "want less than "},
	} {
		if b.bad {
			if to == nil {
				return false
			}
			ok = to.add("%s", r.want(b.text, *b.than))
		}
	}
	if r.multiple != nil && !isMultiple(v, r.multiple) {
		if to == nil {
			return false
		}
		if r.hidden {
			to.add("not a multiple that may be here")
		} else {
			to.add("want a multiple of %s", node.Clip(r.multiple.RatString(), maxQuote))
		}
		ok = false
	}
	return ok
}

// isMultiple reports whether a number is a multiple of another one, as both are written in
// decimal: 0.3 is one of 0.1.
func isMultiple(v value.Value, of *big.Rat) bool {
	if i, ok := v.AsInt(); ok && v.Kind() == value.KindInt && of.IsInt() && of.Num().IsInt64() {
		return i%of.Num().Int64() == 0
	}
	var n *big.Rat
	switch v.Kind() {
	case value.KindFloat:
		f, _ := v.AsFloat()
		n, _ = new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
	default:
		n, _ = new(big.Rat).SetString(v.String())
	}
	return n != nil && n.Quo(n, of).IsInt()
}

func amount(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}
