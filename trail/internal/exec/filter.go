package exec

import (
	"encoding/binary"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A condition is a filter for all segments: literals have the type that the schema
// gives the property, expressions are compiled, and cohorts are looked up.
// Equal filters of a query share a condition, and equal tests a test.
type condition struct {
	all, any []*condition
	test     *test
}

// A test is a query.Test with what it needs in every segment.
type test struct {
	property string
	typ      event.Type // of the property; Unknown if no event ever had it
	op       query.Op
	values   []event.Value // the literals in type typ; sorted, of sets
	missing  bool          // a missing value passes
	match    func(string) bool
	users    []uint64 // of InCohort and NotInCohort, sorted
}

// missingPasses reports whether a missing value passes, see query.Op.
func missingPasses(t *query.Test) bool {
	empty := slices.ContainsFunc(t.Literals, func(l query.Literal) bool { return l.Text == "" })
	switch t.Op {
	case query.Missing, query.NotContains, query.NotMatches:
		return true
	case query.Eq, query.In:
		return empty
	case query.Ne, query.NotIn:
		return !empty
	}
	return false
}

// condition makes a condition of a filter, nil for none.
func (b *builder) condition(f *query.Filter) (*condition, error) {
	if f == nil {
		return nil, nil
	}
	key := string(appendKey(nil, f))
	if c := b.conditions[key]; c != nil {
		return c, nil
	}
	var (
		c   = &condition{}
		err error
	)
	switch {
	case f.Test != nil:
		c.test, err = b.test(f.Test)
	case f.All != nil:
		c.all, err = b.list(f.All)
	default:
		c.any, err = b.list(f.Any)
	}
	if err != nil {
		return nil, err
	}
	b.conditions[key] = c
	return c, nil
}

func (b *builder) list(filters []query.Filter) ([]*condition, error) {
	list := make([]*condition, len(filters))
	for i := range filters {
		var err error
		if list[i], err = b.condition(&filters[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// appendKey appends a key that is equal for equal filters only.
func appendKey(key []byte, f *query.Filter) []byte {
	if t := f.Test; t != nil {
		key = append(key, 't', byte(t.Op))
		key = appendText(key, t.Property)
		for _, l := range t.Literals {
			key = appendText(key, l.Text)
		}
		return append(key, ';')
	}
	list, open := f.All, byte('(')
	if list == nil {
		list, open = f.Any, '['
	}
	key = append(key, open)
	for i := range list {
		key = appendKey(key, &list[i])
	}
	return append(key, ')')
}

func appendText(key []byte, text string) []byte {
	return append(binary.AppendUvarint(append(key, '"'), uint64(len(text))), text...)
}

func (b *builder) test(q *query.Test) (*test, error) {
	t := &test{property: q.Property, op: q.Op, missing: missingPasses(q)}
	if q.Op == query.InCohort || q.Op == query.NotInCohort {
		if b.in.Cohort == nil {
			return nil, errorAt(q.Pos, "", "no cohorts are kept here")
		}
		users, err := b.in.Cohort(q.Property)
		if err != nil {
			return nil, &query.Error{Pos: q.Pos, Msg: err.Error(), Err: err}
		}
		t.users = users
		return t, nil
	}
	t.typ = b.in.Schema.Type(q.Property)
	if t.typ == event.Unknown {
		b.unknownProperty(q.Property)
		return t, nil
	}
	switch {
	case q.Op >= query.Contains && q.Op <= query.NotMatches && t.typ != event.String:
		return nil, errorAt(q.Pos, "such tests are for strings", "%s is %s, not a string", q.Property, typeName(t.typ))
	case q.Op >= query.Gt && q.Op <= query.Between && t.typ == event.Bool:
		return nil, errorAt(q.Pos, "compare with true or false", "%s is a boolean, which has no order", q.Property)
	}
	for _, l := range q.Literals {
		if l.Text == "" && q.Op >= query.Eq && q.Op <= query.NotIn {
			continue // the missing value: the field missing is for it
		}
		v, err := literal(t.typ, q.Property, l)
		if err != nil {
			return nil, err
		}
		t.values = append(t.values, v)
	}
	if len(t.values) > 1 && t.op != query.Between {
		slices.SortFunc(t.values, event.Compare)
	}
	if t.typ == event.String {
		if err := t.compile(q); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// compile sets match for the operators that look into strings.
func (t *test) compile(q *query.Test) error {
	if len(q.Literals) == 0 {
		return nil
	}
	text := q.Literals[0].Text
	switch t.op {
	case query.Contains, query.NotContains:
		t.match = func(s string) bool { return strings.Contains(s, text) }
	case query.Suffix:
		t.match = func(s string) bool { return strings.HasSuffix(s, text) }
	case query.Matches, query.NotMatches:
		re, err := regexp.Compile(text)
		if err != nil {
			return errorAt(q.Literals[0].Pos, "write an RE2 expression", "%v", err)
		}
		t.match = re.MatchString
	}
	return nil
}

// literal returns what a literal is in the type of a property. For an Int it may
// be a Float, which is compared by value.
func literal(t event.Type, property string, l query.Literal) (event.Value, error) {
	switch t {
	case event.Int:
		if i, err := strconv.ParseInt(l.Text, 10, 64); err == nil {
			return event.IntOf(i), nil
		}
		fallthrough
	case event.Float:
		if f, err := strconv.ParseFloat(l.Text, 64); err == nil && !math.IsNaN(f) && !math.IsInf(f, 0) {
			return event.FloatOf(f), nil
		}
	case event.Bool:
		switch l.Text {
		case "true":
			return event.BoolOf(true), nil
		case "false":
			return event.BoolOf(false), nil
		}
	default:
		return event.StringOf(l.Text), nil
	}
	return event.Value{}, errorAt(l.Pos, "write a value of that type", "%s is %s, %q is not", property, typeName(t), l.Text)
}

// passes reports whether a value passes that is not missing.
func (t *test) passes(v event.Value) bool {
	v, _ = v.As(t.typ)
	switch t.op {
	case query.Exists:
		return true
	case query.Missing:
		return false
	case query.Eq, query.In:
		_, in := slices.BinarySearchFunc(t.values, v, event.Compare)
		return in
	case query.Ne, query.NotIn:
		_, in := slices.BinarySearchFunc(t.values, v, event.Compare)
		return !in
	case query.Gt:
		return event.Compare(v, t.values[0]) > 0
	case query.Gte:
		return event.Compare(v, t.values[0]) >= 0
	case query.Lt:
		return event.Compare(v, t.values[0]) < 0
	case query.Lte:
		return event.Compare(v, t.values[0]) <= 0
	case query.Between:
		return event.Compare(v, t.values[0]) >= 0 && event.Compare(v, t.values[1]) <= 0
	}
	return false // strings have codes
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
