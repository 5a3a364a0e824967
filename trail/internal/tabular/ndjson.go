package tabular

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/records"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// An ndjsonSource reads lines of JSON objects. Properties are found while lines are
// read; empty lines are skipped.
type ndjsonSource struct {
	opt   Options
	unit  unit
	names [roles]string
	named bool // names has been resolved; before, no line with any name could be read
	in    *records.Reader
	scan  scanner

	fields event.Schema
	forced []bool         // by field
	large  []bool         // by field: it has integers that a number cannot hold exactly
	roles  map[string]int // by name of a member: colUser …, or roles + index of the field, or -1 if left out
	order  []place        // the members of the lines before, as most lines are alike
	fresh  []fresh

	values  []event.Value
	bad     []BadRow
	widened bool
}

// A place is a name and what it stands for.
type place struct {
	name string
	role int
}

// A fresh property came for the first time, or in a wider type, in a row that is
// not taken yet.
type fresh struct {
	name  string
	value event.Value
}

func newNDJSON(in *input, opt Options) (*ndjsonSource, error) {
	s := &ndjsonSource{opt: opt, names: opt.defaults(), in: in.records(records.JSON), roles: make(map[string]int)}
	s.unit, _ = unitOf(opt.TimeUnit) // checked by Options.check
	if err := s.in.More(); err != nil && err != io.EOF {
		return nil, err
	}
	if err := s.name(s.memberNames(nil)); err != nil {
		return nil, err
	}
	return s, nil
}

// name finds which names of lines are the user's, the time's and so on. If no line could
// be read yet, it is called again with the first one that can.
func (s *ndjsonSource) name(columns []string) (err error) {
	if len(columns) == 0 {
		return nil
	}
	if s.names, err = s.opt.resolve(columns); err != nil {
		return err
	}
	s.named = true
	for i, name := range s.names {
		if name != "" {
			s.roles[name] = i
		}
	}
	return nil
}

// memberNames returns the names in a line and in those that were read already behind it.
// Lines that were returned before are no longer valid.
func (s *ndjsonSource) memberNames(line []byte) (columns []string) {
	seen := make(map[string]bool)
	for b := s.in.Peek(); len(columns) < maxProperties; {
		s.scan.reset()
		if len(line) <= maxRecord && s.scan.object(line) == nil {
			for _, m := range s.scan.members {
				if !seen[m.name] {
					name := strings.Clone(m.name)
					seen[name] = true
					columns = append(columns, name)
				}
			}
		}
		if len(b) == 0 {
			break
		}
		line, b, _ = bytes.Cut(b, []byte{'\n'}) // a part of a line is not an object
	}
	return columns
}

func (s *ndjsonSource) schema() event.Schema { return s.fields }

func (s *ndjsonSource) close() {}

func (s *ndjsonSource) next(rows []Row) (n int, bad []BadRow, err error) {
	s.bad, s.widened = s.bad[:0], false
	s.scan.reset()
	s.in.Return()
	if need := min(len(rows)*max(1, len(s.fields)), maxValues); len(s.values) < need {
		s.values = make([]event.Value, need)
	}
	used := 0
	for n < len(rows) && len(s.bad) < maxBad {
		width := len(s.fields)
		if used+width > len(s.values) {
			break
		}
		rec, ok := s.in.Next()
		if !ok {
			if n > 0 || len(s.bad) > 0 { // rows that are returned refer to the buffer
				break
			}
			if err := s.in.More(); err != nil {
				return 0, nil, err
			}
			continue
		}
		if rec.Err != nil {
			s.bad = append(s.bad, BadRow{Line: rec.Line, Reason: rec.Err.Error()})
			continue
		}
		line := rec.Raw
		if !s.named { // and so n is 0: no row refers to the buffer
			if err := s.name(s.memberNames(line)); err != nil {
				return n, s.bad, err
			}
			s.scan.reset()
		}
		rows[n].Values = s.values[used : used+width : used+width]
		clear(rows[n].Values)
		if err := s.take(line, &rows[n]); err != nil {
			s.bad = append(s.bad, BadRow{Line: rec.Line, Reason: err.Error()})
			continue
		}
		used += width
		n++
	}
	if s.widened {
		s.widen(rows[:n])
	}
	return n, s.bad, nil
}

func (s *ndjsonSource) take(line []byte, row *Row) error {
	if err := s.scan.object(line); err != nil {
		return err
	}
	row.User, row.Name, row.ID = "", "", ""
	s.fresh = s.fresh[:0]
	timed, large := false, false
	for i := range s.scan.members {
		m := &s.scan.members[i]
		role, known := s.role(i, m.name)
		if !known {
			v, err := s.opt.convert(m, event.Unknown, s.opt.Types[m.name] != event.Unknown)
			if err != nil {
				return err
			}
			if !v.Missing() {
				s.fresh = append(s.fresh, fresh{m.name, v})
				large = large || !v.Exact(event.Float)
			}
			continue
		}
		var err error
		switch role {
		case colUser:
			row.User, err = m.identity()
		case colEvent:
			row.Name, err = m.identity()
		case colID:
			row.ID, err = m.identity()
		case colTime:
			if row.Time, err = m.time(s.unit); err == nil {
				if err = s.opt.checkTime(row.Time); err != nil {
					err = fmt.Errorf("%s %s: %w", m.name, quote(m.text), err)
				}
			}
			timed = true
		case -1:
		default:
			k := role - roles
			var v event.Value
			if v, err = s.opt.convert(m, s.fields[k].Type, s.forced[k]); err != nil {
				break
			}
			if v.Type() == event.Float && s.fields[k].Type == event.Int {
				s.fresh = append(s.fresh, fresh{s.fields[k].Name, v})
			}
			row.Values[k] = v
			large = large || !v.Exact(event.Float)
		}
		if err != nil {
			return err
		}
	}
	switch {
	case row.User == "":
		return fmt.Errorf("%s is empty or missing", s.names[colUser])
	case row.Name == "":
		return fmt.Errorf("%s is empty or missing", s.names[colEvent])
	case !timed:
		return fmt.Errorf("%s is missing", s.names[colTime])
	}
	for _, f := range s.fresh {
		if err := s.grow(f, row); err != nil {
			return err
		}
	}
	if large {
		for k, v := range row.Values {
			s.large[k] = s.large[k] || !v.Exact(event.Float)
		}
	}
	return nil
}

// role returns what the i-th member of a line is: a column, a property or, as -1, nothing
// that is read. It is not known if it is a new property.
func (s *ndjsonSource) role(i int, name string) (role int, known bool) {
	if i < len(s.order) && s.order[i].name == name {
		return s.order[i].role, true
	}
	role, known = s.roles[name]
	if !known {
		if !s.opt.skips(name) {
			return 0, false
		}
		role = -1
	}
	for len(s.order) <= i && len(s.order) < maxProperties {
		s.order = append(s.order, place{})
	}
	if i < len(s.order) && role >= 0 {
		owned := s.names[min(role, roles-1)]
		if role >= roles {
			owned = s.fields[role-roles].Name
		}
		s.order[i] = place{owned, role}
	}
	return role, true
}

// grow takes a property that is new, or a number where there were integers.
func (s *ndjsonSource) grow(f fresh, row *Row) error {
	role, known := s.roles[f.name]
	if !known {
		if len(s.fields) == maxProperties {
			return fmt.Errorf("%s: the file has more than %d properties", quote(f.name), maxProperties)
		}
		if len(f.name) > maxName {
			return fmt.Errorf("the name of the property %s is longer than %d bytes", quote(f.name), maxName)
		}
		name := strings.Clone(f.name)
		role = roles + len(s.fields)
		t, err := s.opt.propertyType(name, f.value.Type())
		if err == nil && !f.value.Exact(t) {
			err = s.opt.mismatch(name, f.value.String(), t)
		}
		if err != nil {
			return err
		}
		s.fields = append(s.fields, event.Field{Name: name, Type: t})
		s.forced = append(s.forced, s.opt.Types[name] != event.Unknown)
		s.large = append(s.large, false)
		s.roles[name] = role
	}
	k := role - roles
	t, ok := event.Widen(s.fields[k].Type, f.value.Type())
	if !ok {
		return &event.TypeError{Property: f.name, Have: s.fields[k].Type, Got: f.value.Type()}
	}
	if t == event.Float && s.large[k] {
		return s.opt.advise(&event.InexactError{Property: f.name})
	}
	if t != s.fields[k].Type {
		// Who holds the schema of before must not see it change.
		s.fields = slices.Clone(s.fields)
		s.fields[k].Type = t
		s.widened = true
	}
	for len(row.Values) <= k {
		row.Values = append(row.Values, event.Value{})
	}
	row.Values[k], _ = f.value.As(t) // Widen said that it can be
	return nil
}

// widen makes integers of a batch numbers where the schema has become so.
func (s *ndjsonSource) widen(rows []Row) {
	for k, f := range s.fields {
		if f.Type != event.Float {
			continue
		}
		for i := range rows {
			if k < len(rows[i].Values) {
				rows[i].Values[k], _ = rows[i].Values[k].As(event.Float) // an integer or a number by now
			}
		}
	}
}

// identity reads the user, the event or the id: a text or an integer of any size.
func (m *member) identity() (string, error) {
	switch m.kind {
	case jsonString, jsonInteger, jsonNull:
		return m.text, nil
	}
	return "", fmt.Errorf("%s is %s: want a string or an integer", m.name, m.kind)
}

func (m *member) time(u unit) (int64, error) {
	switch m.kind {
	case jsonString, jsonInteger, jsonNumber:
		t, err := parseTime(m.text, u)
		if err != nil {
			return 0, fmt.Errorf("%s %s: %w", m.name, quote(m.text), err)
		}
		return t, nil
	}
	return 0, fmt.Errorf("%s is %s: want a time", m.name, m.kind)
}

// convert reads the value of a member for a property of type t, Unknown for one
// that did not come before. An Int may come out as a Float, which widens it. A
// String shares the memory of m.
func (o *Options) convert(m *member, t event.Type, forced bool) (event.Value, error) {
	if forced && t == event.Unknown {
		t = o.Types[m.name]
	}
	switch m.kind {
	case jsonNull:
		return event.Value{}, nil
	case jsonArray, jsonObject:
		deep := ""
		if m.kind == jsonObject {
			deep = fmt.Sprintf(" nested more than %d deep", maxParts)
		}
		reason := fmt.Sprintf("property %q is %s%s: want a string, a number or a boolean", m.name, m.kind, deep)
		return event.Value{}, o.advise(&PropertyError{Property: m.name, Reason: reason})
	case jsonString:
		if m.text == "" || t == event.String || t == event.Unknown {
			return event.StringOf(m.text), nil
		}
	case jsonInteger:
		if t == event.String || t == event.Bool {
			break
		}
		i, ok := parseInt(m.text)
		switch {
		case ok && i == math.MinInt64 && t != event.Float:
			return event.Value{}, fmt.Errorf("%s: %w", m.name, errLeast)
		case ok && t == event.Float:
			if v := event.IntOf(i); v.Exact(event.Float) {
				return event.FloatOf(float64(i)), nil
			}
			return m.float(o)
		case ok:
			return event.IntOf(i), nil
		case t != event.Int || !forced:
			return m.float(o)
		}
	case jsonNumber:
		if t == event.Float || t == event.Unknown || t == event.Int && !forced {
			return m.float(o)
		}
	case jsonBool:
		if t == event.Bool || t == event.Unknown {
			return event.BoolOf(m.text == "true"), nil
		}
	}
	if forced {
		v, ok := parseValue(m.text, t)
		if !ok {
			return event.Value{}, o.mismatch(m.name, m.text, t)
		}
		return v, nil
	}
	got := map[kind]event.Type{jsonString: event.String, jsonInteger: event.Int, jsonNumber: event.Float, jsonBool: event.Bool}[m.kind]
	return event.Value{}, &event.TypeError{Property: m.name, Have: t, Got: got}
}

// float reads a number; what is larger than any is an error, and an integer that
// would become another one.
func (m *member) float(o *Options) (event.Value, error) {
	f, err := parseNumber(m.text)
	if err == errInexact {
		return event.Value{}, o.mismatch(m.name, m.text, event.Float)
	}
	if err != nil || math.IsInf(f, 0) {
		return event.Value{}, fmt.Errorf("%s: %s is too large a number", m.name, quote(m.text))
	}
	return event.FloatOf(f), nil
}
