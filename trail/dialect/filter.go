package dialect

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A cond is a condition. In ClickHouse it is never NULL, since aggregate functions
// skip rows in which an argument is NULL. In DuckDB, NULL has the effect of false:
// what is negated names the missing values as well.
type cond struct {
	sql   string
	and   []cond // instead of sql: all of these
	or    []cond // instead of sql: one of these
	fixed int8   // 1 always true, -1 always false
}

// Conditions that need no column.
var (
	always = cond{fixed: 1}
	never  = cond{fixed: -1}
)

func is(sql string) cond { return cond{sql: sql} }

// all returns the conjunction, simplified.
func all(list ...cond) cond {
	var parts []cond
	for _, c := range list {
		switch {
		case c.fixed < 0:
			return never
		case c.fixed > 0:
		case len(c.and) > 0:
			parts = append(parts, c.and...)
		default:
			parts = append(parts, c)
		}
	}
	switch len(parts) {
	case 0:
		return always
	case 1:
		return parts[0]
	}
	return cond{and: parts}
}

// one returns the disjunction, simplified.
func one(list ...cond) cond {
	var parts []cond
	for _, c := range list {
		switch {
		case c.fixed > 0:
			return always
		case c.fixed < 0:
		case slices.ContainsFunc(parts, func(p cond) bool { return p.String() == c.String() }):
		case len(c.or) > 0:
			parts = append(parts, c.or...)
		default:
			parts = append(parts, c)
		}
	}
	switch len(parts) {
	case 0:
		return never
	case 1:
		return parts[0]
	}
	return cond{or: parts}
}

// not returns the negation of a condition that is one comparison or function.
func (c cond) not() cond { return is("NOT " + c.sql) }

// String returns the condition on one line, without outer brackets.
func (c cond) String() string {
	switch {
	case c.fixed > 0:
		return "true"
	case c.fixed < 0:
		return "false"
	case len(c.and) > 0:
		return joined(c.and, " AND ")
	case len(c.or) > 0:
		return joined(c.or, " OR ")
	}
	return c.sql
}

// operand returns the condition as a part of a greater one.
func (c cond) operand() string {
	if len(c.and) > 0 || len(c.or) > 0 {
		return "(" + c.String() + ")"
	}
	return c.String()
}

func joined(list []cond, word string) string {
	parts := make([]string, len(list))
	for i, c := range list {
		parts[i] = c.operand()
	}
	return strings.Join(parts, word)
}

// conjuncts returns the operands of AND; none for true.
func (c cond) conjuncts() []string {
	if c.fixed > 0 {
		return nil
	}
	list := c.and
	if len(list) == 0 {
		list = []cond{c}
	}
	parts := make([]string, len(list))
	for i, part := range list {
		parts[i] = part.operand()
	}
	return parts
}

// match returns the condition that an event is meant.
func (c *compiler) match(m query.Match) cond {
	return all(c.named(m.Events), c.filter(m.Where))
}

// named returns the condition that an event has one of the names, any if there is
// none.
func (c *compiler) named(events []string) cond {
	switch len(events) {
	case 0:
		return always
	case 1:
		return is("event = " + c.text(events[0]))
	}
	return is("event IN " + c.texts(events))
}

// filter returns the condition of a filter; nil passes all.
func (c *compiler) filter(f *query.Filter) cond {
	switch {
	case f == nil:
		return always
	case f.Test != nil:
		return c.test(f.Test)
	case f.Any != nil:
		parts := make([]cond, len(f.Any))
		for i := range f.Any {
			parts[i] = c.filter(&f.Any[i])
		}
		return one(parts...)
	}
	parts := make([]cond, len(f.All))
	for i := range f.All {
		parts[i] = c.filter(&f.All[i])
	}
	return all(parts...)
}

// column returns a property as the table has it. It is not ok for a property that
// the schema does not have, which is missing everywhere.
func (c *compiler) column(property string) (column string, t event.Type, ok bool) {
	t = c.schema.Type(property)
	c.used[property] = true
	switch {
	case t == event.Unknown && c.schema.Index(property) < 0 && !c.missing[property]:
		c.missing[property] = true
		c.warnings = append(c.warnings, "property "+strconv.Quote(property)+" is not known")
	case strings.EqualFold(property, "user"), strings.EqualFold(property, "time"), strings.EqualFold(property, "event"):
		if t != event.Unknown {
			c.unsupported("a property called %s, as the table has that column,", property)
		}
	}
	return name(c.dialect, property), t, t != event.Unknown
}

func (c *compiler) test(t *query.Test) cond {
	if t.Op == query.InCohort || t.Op == query.NotInCohort {
		c.unsupported("a filter by cohort (%s)", t.Property)
		return never
	}
	column, typ, ok := c.column(t.Property)
	literals := make([]event.Value, len(t.Literals))
	for i, l := range t.Literals {
		v, err := literal(l, typ)
		if err != nil {
			c.fail(&LiteralError{Property: t.Property, Type: typ, Literal: l.Text, Pos: l.Pos})
			return never
		}
		literals[i] = v
	}
	if !ok {
		return ofMissing(t.Op, literals)
	}
	if typ == event.String {
		return c.textTest(column, t.Op, literals)
	}
	if t.Op >= query.Contains && t.Op <= query.NotMatches {
		c.fail(&query.Error{Pos: t.Pos, Msg: fmt.Sprintf("property %q is of type %s, not a string", t.Property, typ), Hint: "such tests are for strings"})
		return never
	}
	if typ == event.Bool && t.Op >= query.Gt && t.Op <= query.Between {
		c.fail(&query.Error{Pos: t.Pos, Msg: fmt.Sprintf("property %q is a boolean, which has no order", t.Property), Hint: "compare with true or false"})
		return never
	}
	return c.numberTest(column, typ, t.Op, literals)
}

// literal returns a literal in the type of a property. A number that is not an integer
// stays a number. The empty text is the missing value in every type.
func literal(l query.Literal, t event.Type) (event.Value, error) {
	text := cmp.Or(l.Text, l.Value.String())
	if text == "" {
		return event.Value{}, nil
	}
	switch t {
	case event.Int, event.Float:
		v := l.Value
		if v.Type() == event.String {
			if i, err := strconv.ParseInt(text, 10, 64); err == nil {
				v = event.IntOf(i)
			} else if f, err := strconv.ParseFloat(text, 64); err == nil {
				v = event.FloatOf(f)
			}
		}
		switch {
		case v.Type() == event.Int:
			return v, nil
		case v.Type() != event.Float:
			return v, errType
		case t == event.Int && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) < 1<<63:
			return event.IntOf(int64(v.Float())), nil
		}
		return v, nil
	case event.Bool:
		if text == "true" || text == "false" {
			return event.BoolOf(text == "true"), nil
		}
		return event.Value{}, errType
	}
	return event.StringOf(text), nil
}

var errType = errors.New("a literal of another type")

// ofMissing reports whether a missing value passes.
func ofMissing(op query.Op, literals []event.Value) cond {
	passes := false
	empty := slices.ContainsFunc(literals, event.Value.Missing)
	switch op {
	case query.Missing:
		passes = true
	case query.Eq, query.In:
		passes = empty
	case query.Ne, query.NotIn:
		passes = !empty
	case query.NotContains, query.NotMatches:
		passes = true
	}
	if passes {
		return always
	}
	return never
}

// textTest tests a string. A missing string is empty in ClickHouse, and empty or NULL
// in DuckDB.
func (c *compiler) textTest(column string, op query.Op, literals []event.Value) cond {
	exists := is(column + " != ''")
	missing := is(column + " = ''")
	if c.dialect == DuckDB {
		missing = is("coalesce(" + column + ", '') = ''")
	}
	values := make([]string, 0, len(literals))
	empty := false
	for _, v := range literals {
		if v.Missing() {
			empty = true
			continue
		}
		values = append(values, c.text(v.Text()))
	}
	slices.Sort(values)
	values = slices.Compact(values)
	compare := func(operator, value string) cond { return is(column + " " + operator + " " + value) }
	arg := func(i int) string { return c.text(literals[i].Text()) }
	switch op {
	case query.Exists:
		return exists
	case query.Missing:
		return missing
	case query.Eq, query.In:
		found := among(values, "=", "IN", never, compare)
		if empty {
			return one(found, missing)
		}
		return found
	case query.Ne, query.NotIn:
		other := among(values, "!=", "NOT IN", always, compare)
		switch {
		case empty:
			return all(exists, other)
		case other.fixed == 0 && c.dialect == DuckDB:
			return one(other, is(column+" IS NULL"))
		}
		return other
	case query.Matches:
		return all(exists, c.expression(column, literals[0].Text()))
	case query.NotMatches:
		return one(missing, c.expression(column, literals[0].Text()).not())
	}
	if slices.ContainsFunc(literals, event.Value.Missing) {
		// Every string contains the empty one, and is above it.
		switch {
		case op == query.NotContains:
			return missing
		case op == query.Lt, op == query.Lte, op == query.Between && literals[1].Missing():
			return never
		case op == query.Between:
			return all(exists, compare("<=", arg(1)))
		}
		return exists
	}
	switch op {
	case query.Contains:
		return is(c.pick("position("+column+", "+arg(0)+") > 0", "contains("+column+", "+arg(0)+")"))
	case query.NotContains:
		return one(missing, is(c.pick("position("+column+", "+arg(0)+") = 0", "NOT contains("+column+", "+arg(0)+")")))
	case query.Prefix:
		return is(c.pick("startsWith(", "starts_with(") + column + ", " + arg(0) + ")")
	case query.Suffix:
		return is(c.pick("endsWith(", "suffix(") + column + ", " + arg(0) + ")")
	case query.Gt, query.Gte:
		return compare(signs[op], arg(0))
	case query.Lt, query.Lte:
		return all(exists, compare(signs[op], arg(0)))
	}
	return is(column + " BETWEEN " + arg(0) + " AND " + arg(1))
}

// expression returns the condition that an RE2 expression is found in a string.
func (c *compiler) expression(column, re string) cond {
	if c.dialect == DuckDB {
		return is("regexp_matches(" + column + ", " + c.text(re) + ")")
	}
	// Without the flag a dot would match the end of a line too.
	return is("match(" + column + ", " + c.text("(?-s)"+re) + ")")
}

// signs are the operators of order in SQL.
var signs = map[query.Op]string{query.Gt: ">", query.Gte: ">=", query.Lt: "<", query.Lte: "<="}

// among compares with one value or with many; none is the condition without values.
func among(values []string, single, many string, none cond, compare func(operator, value string) cond) cond {
	switch len(values) {
	case 0:
		return none
	case 1:
		return compare(single, values[0])
	}
	return compare(many, "("+strings.Join(values, ", ")+")")
}

// numberTest tests an integer, a number or a boolean. A missing one is NULL.
func (c *compiler) numberTest(column string, t event.Type, op query.Op, literals []event.Value) cond {
	exists, missing := is(column+" IS NOT NULL"), is(column+" IS NULL")
	compare := func(operator, value string) cond {
		sql := column + " " + operator + " " + value
		if c.dialect == ClickHouse {
			return is("ifNull(" + sql + ", false)")
		}
		return is(sql)
	}
	var values []string
	empty := false
	for _, v := range literals {
		switch {
		case v.Missing():
			empty = true
		case t == event.Int && v.Type() == event.Float: // no integer is equal to it
		default:
			values = append(values, scalar(t, v))
		}
	}
	slices.Sort(values)
	values = slices.Compact(values)
	switch op {
	case query.Exists:
		return exists
	case query.Missing:
		return missing
	case query.Eq, query.In:
		found := among(values, "=", "IN", never, compare)
		if empty {
			return one(found, missing)
		}
		return found
	case query.Ne, query.NotIn:
		other := among(values, "!=", "NOT IN", exists, compare)
		if empty {
			return other
		}
		if len(values) == 0 {
			return always
		}
		return one(other, missing)
	}
	if empty {
		return never
	}
	if op == query.Between {
		return all(bound(column, t, query.Gte, literals[0], compare), bound(column, t, query.Lte, literals[1], compare))
	}
	return bound(column, t, op, literals[0], compare)
}

// bound compares with a lower or an upper bound. An integer is compared with
// integers only, so that no engine rounds it.
func bound(column string, t event.Type, op query.Op, v event.Value, compare func(operator, value string) cond) cond {
	if t == event.Int && v.Type() == event.Float {
		f := v.Float()
		if f >= 1<<63 || f < -1<<63 {
			if (f < 0) == (op <= query.Gte) {
				return is(column + " IS NOT NULL")
			}
			return never
		}
		// Never whole here, or too great to have a fraction.
		if op <= query.Gte {
			op, v = query.Gte, event.IntOf(int64(math.Ceil(f)))
		} else {
			op, v = query.Lte, event.IntOf(int64(math.Floor(f)))
		}
	}
	return compare(signs[op], scalar(t, v))
}

// scalar returns a literal that is not a string.
func scalar(t event.Type, v event.Value) string {
	switch {
	case t == event.Bool:
		return v.String()
	case t == event.Float:
		return number(v.Float())
	case v.Int() == math.MinInt64:
		return "(-9223372036854775807 - 1)" // the digits alone do not fit an integer
	}
	return v.String()
}
