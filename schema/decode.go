package schema

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/value"
)

// Decode checks a part of a document against the object and fills in defaults. It
// reports every mistake: unknown fields, with the nearest spelling, missing fields,
// and values that do not fit. Even then, the Config has the fields that are right. A
// nil raw is an empty map.
func (o Object) Decode(raw *Raw) (Config, diag.List) {
	d := decoder{}
	return d.object(o, raw, "", diag.Pos{}), d.list
}

type decoder struct{ list diag.List }

// report adds findings. A finding without a position gets the position of raw.
func (d *decoder) report(raw *Raw, path string, found ...*diag.Diagnostic) {
	for _, f := range found {
		if !f.Pos.IsValid() {
			f.Pos = raw.Pos
		}
		if f.Path == "" {
			f.Path = path
		}
		if f.Pointer == "" {
			f.Pointer = raw.Pointer
		}
		d.list.Add(f)
	}
}

// object decodes a map. around is its position if it was left out.
func (d *decoder) object(o Object, raw *Raw, path string, around diag.Pos) Config {
	c := Config{object: o, slots: make([]slot, len(o.fields)), raw: raw, path: path, pos: around}
	if raw != nil {
		c.pos = raw.Pos
		if raw.Kind != RawMap {
			d.report(raw, path, o.wrong(raw))
			return c
		}
		for i := range raw.Fields {
			d.given(&c, &raw.Fields[i])
		}
	}
	for i, f := range o.fields {
		s := &c.slots[i]
		if s.raw != nil {
			continue
		}
		switch {
		case f.typ == TypeGroup && !f.required:
			s.group = d.object(f.fields.optional(), nil, join(path, f.name), c.pos)
			continue
		case f.required && f.def.IsNull() && s.keyPos == (diag.Pos{}):
			missing := diag.Errorf(diag.CodeMissingField, "missing").WithHint("it is required: %s", f.expects())
			missing.Pos, missing.Path = c.pos, join(path, f.name)
			if raw != nil {
				missing.Pointer = raw.Pointer
			}
			d.list.Add(missing)
		}
		f.setDefault(s)
	}
	return c
}

// optional returns o with no required fields, for a group that was left out: its
// required fields are required only if the group is there.
func (o Object) optional() Object {
	relaxed := Object{fields: make([]*Field, len(o.fields)), byName: o.byName}
	for i, f := range o.fields {
		g := *f
		g.required = false
		relaxed.fields[i] = &g
	}
	return relaxed
}

// given decodes one field that the author wrote.
func (d *decoder) given(c *Config, rf *RawField) {
	path := join(c.path, rf.Name)
	i, ok := c.object.byName[rf.Name]
	if !ok {
		unknown := diag.Errorf(diag.CodeUnknownField, "unknown field")
		unknown.Pos = rf.Pos
		c.object.hint(unknown, rf.Name)
		d.report(rf.Value, path, unknown)
		return
	}
	f, s := c.object.fields[i], &c.slots[i]
	raw := rf.Value
	if raw.Kind == RawScalar && raw.Value.IsNull() && f.typ != TypeAny {
		if f.required {
			d.report(raw, path, diag.Errorf(diag.CodeMissingField, "is null").WithHint("it is required: %s", f.expects()))
			s.keyPos = raw.Pos
		}
		return
	}
	s.raw, s.keyPos = raw, rf.Pos
	switch f.typ {
	case TypeGroup:
		if f.short != "" && raw.Kind == RawScalar {
			raw = &Raw{Kind: RawMap, Pos: raw.Pos, Pointer: raw.Pointer, Fields: []RawField{{Name: f.short, Pos: raw.Pos, Value: raw}}}
		}
		s.group = d.object(f.fields, raw, path, raw.Pos)
	case TypeList:
		d.objects(f, s, raw, path)
	default:
		d.report(raw, path, f.decode(s, raw)...)
	}
}

// objects decodes a list of objects.
func (d *decoder) objects(f *Field, s *slot, raw *Raw, path string) {
	switch {
	case raw.Kind == RawMap:
		s.list = []Config{d.object(f.fields, raw, path, raw.Pos)}
	case raw.Kind != RawList:
		d.report(raw, path, diag.Errorf(diag.CodeWrongType, "want a list, got %s", raw.What()))
	case f.required && len(raw.Items) == 0:
		d.report(raw, path, diag.Errorf(diag.CodeMissingField, "the list is empty").WithHint("give at least one entry"))
	}
	for i, item := range raw.Items {
		s.list = append(s.list, d.object(f.fields, item, fmt.Sprintf("%s[%d]", path, i), item.Pos))
	}
}

// hint suggests which field was meant.
func (o Object) hint(d *diag.Diagnostic, name string) {
	names := make([]string, len(o.fields))
	for i, f := range o.fields {
		names[i] = f.name
	}
	switch {
	case d.Suggest(name, names):
	case len(names) == 0:
		d.Hint = "there are no fields of its own"
	default:
		d.Hint = "the fields are: " + strings.Join(names, ", ")
	}
}

// setDefault fills a slot that the author left empty.
func (f *Field) setDefault(s *slot) {
	if f.def.IsNull() {
		return
	}
	if f.typ == TypeAny {
		s.v = f.def
		return
	}
	// The default was decoded once by check, so it fits.
	f.decode(s, RawOf(f.def))
}

// expects describes what a field takes, in some cases with an example.
func (f *Field) expects() string {
	switch f.typ {
	case TypeEnum:
		return "one of " + strings.Join(f.enum, ", ")
	case TypeDuration:
		return `a duration such as "5s"`
	case TypeBytes:
		return `a size such as "8MiB"`
	case TypeOutPort:
		return "an out-port such as out[0]"
	case TypeInt, TypeExpr:
		return "an " + f.typ.String()
	case TypeGroup:
		return "a map"
	case TypeAny:
		return "any value"
	}
	return "a " + f.typ.String()
}

// wrong returns the finding of a value that is not a map, with the first fields of one.
func (o Object) wrong(raw *Raw) *diag.Diagnostic {
	d := diag.Errorf(diag.CodeWrongType, "want a map, got %s", raw.What())
	var names []string
	for _, f := range o.fields {
		names = append(names, f.name+": …")
	}
	if len(names) > 4 {
		names = append(names[:4], "…")
	}
	if len(names) > 0 {
		d.Hint = "write {" + strings.Join(names, ", ") + "}"
	}
	return d
}

func (f *Field) wrong(raw *Raw) *diag.Diagnostic {
	got := raw.What()
	if s, ok := raw.Value.AsString(); ok && raw.Kind == RawScalar {
		got = f.show(raw, strconv.Quote(s))
	}
	d := diag.Errorf(diag.CodeWrongType, "want %s, got %s", f.expects(), got)
	switch f.typ {
	case TypeInt, TypeFloat:
		d.Hint = "write a number, without a unit"
	case TypeBool:
		d.Hint = "write true or false"
	case TypeText, TypeExpr:
		if raw.Kind != RawScalar {
			d.Hint = "put quotes around all of it, or write it on lines of its own after |: what begins with { or [ is a map or a list of YAML"
		}
	}
	return d
}

// show returns text, or a description of it if it is long or may be secret.
func (f *Field) show(raw *Raw, text string) string {
	switch {
	case raw.Templated:
		return "text from a template"
	case f.secret:
		return "a secret text"
	case len(text) > 60:
		return raw.What() + " of " + strconv.Itoa(len(raw.Text.Code)) + " bytes"
	}
	return text
}

// decode checks a scalar or a list of strings.
func (f *Field) decode(s *slot, raw *Raw) []*diag.Diagnostic {
	s.text = raw.Text
	if f.typ == TypeAny {
		s.v = raw.ToValue()
		return nil
	}
	if f.typ == TypeStrings {
		return f.decodeStrings(s, raw)
	}
	if raw.Kind != RawScalar {
		return []*diag.Diagnostic{f.wrong(raw)}
	}
	var d *diag.Diagnostic
	switch f.typ {
	case TypeString, TypeEnum:
		d = f.decodeString(s, raw)
	case TypeText, TypeExpr:
		d = f.decodeText(s, raw)
	case TypeBool:
		d = f.decodeBool(s, raw)
	case TypeInt, TypeFloat:
		d = f.decodeNumber(s, raw)
	case TypeDuration:
		return f.decodeDuration(s, raw)
	case TypeBytes:
		d = f.decodeBytes(s, raw)
	case TypeOutPort:
		d = f.decodeOutPort(s, raw)
	}
	if d != nil {
		return []*diag.Diagnostic{d}
	}
	return nil
}

func (f *Field) decodeString(s *slot, raw *Raw) *diag.Diagnostic {
	str, ok := raw.Value.AsString()
	if !ok {
		d := f.wrong(raw)
		if raw.Text.Code != "" && len(raw.Text.Code) < 60 && !f.secret {
			d = d.WithHint("put quotes around it: %q", raw.Text.Code)
		}
		return d
	}
	if f.typ == TypeEnum {
		found := false
		for _, word := range f.enum {
			found = found || word == str
		}
		if !found {
			d := diag.Errorf(diag.CodeNotOneOf, "want one of %s, got %s", strings.Join(f.enum, ", "), f.show(raw, strconv.Quote(str)))
			if !raw.Templated && !f.secret && d.Suggest(str, f.enum) {
				return d
			}
			return d.WithHint("write %s", oneOf(f.enum))
		}
	}
	if f.required && str == "" {
		return diag.Errorf(diag.CodeMissingField, "is empty").WithHint("it is required: %s", f.expects())
	}
	s.v = raw.Value
	return nil
}

// decodeText accepts any scalar as it is written, so that `when: true` is the
// expression true.
func (f *Field) decodeText(s *slot, raw *Raw) *diag.Diagnostic {
	if raw.Value.Kind() == value.KindBinary {
		return f.wrong(raw).WithHint("leave the tag !!binary out, and write the text itself")
	}
	s.v = value.String(raw.Text.Code)
	if str, ok := raw.Value.AsString(); ok {
		s.v, s.text.Code = raw.Value, str
	}
	return nil
}

func (f *Field) decodeBool(s *slot, raw *Raw) *diag.Diagnostic {
	if str, ok := raw.Value.AsString(); ok {
		switch str {
		case "true", "True", "TRUE":
			s.v = value.Bool(true)
			return nil
		case "false", "False", "FALSE":
			s.v = value.Bool(false)
			return nil
		}
	}
	if _, ok := raw.Value.AsBool(); !ok {
		return f.wrong(raw)
	}
	s.v = raw.Value
	return nil
}

func (f *Field) decodeNumber(s *slot, raw *Raw) *diag.Diagnostic {
	v := raw.Value
	if str, ok := v.AsString(); ok {
		if i, err := strconv.ParseInt(str, 10, 64); err == nil {
			v = value.Int(i)
		} else if n, err := strconv.ParseFloat(str, 64); err == nil && !strings.ContainsAny(str, "xX_pP") {
			v = value.Float(n)
		}
	}
	n, ok := v.AsFloat()
	if f.typ == TypeInt {
		var i int64
		if i, ok = v.AsInt(); ok {
			n, v = float64(i), value.Int(i)
		}
	} else if ok {
		v = value.Float(n)
	} else if i, isInt := v.AsInt(); isInt { // a float does not represent it exactly
		n, ok = float64(i), true
		v = value.Float(n)
	}
	if !ok || math.IsNaN(n) || math.IsInf(n, 0) {
		return f.wrong(raw)
	}
	if !inRange(n, f) {
		return f.outOfRange(raw, n, formatFloat)
	}
	s.v = v
	return nil
}

// oneOf lists words: a, b or c.
func oneOf(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

func (f *Field) outOfRange(raw *Raw, n float64, text func(float64) string) *diag.Diagnostic {
	least, most, got := text(f.min), text(f.max), ""
	hint := "write " + least + " or more"
	if n > f.max {
		hint = "write " + most + " or less"
	}
	if !raw.Templated && !f.secret && len(raw.Text.Code) < 60 && raw.Text.Code != "" {
		got = ", got " + raw.Text.Code
	}
	return diag.Errorf(diag.CodeOutOfRange, "want %s from %s to %s%s", f.expects(), least, most, got).WithHint("%s", hint)
}

func (f *Field) decodeDuration(s *slot, raw *Raw) []*diag.Diagnostic {
	d, bare, bad := f.duration(raw)
	if bad == nil && d < 0 {
		bad = diag.Errorf(diag.CodeBadDuration, "a duration cannot be negative").WithHint(`write a duration such as "5s"`)
	}
	if bad == nil && !inRange(float64(d), f) {
		bad = f.outOfRange(raw, float64(d), func(n float64) string { return time.Duration(n).String() })
		if bare {
			bad.Hint += ", with its unit: a bare number is milliseconds"
		}
	}
	if bad != nil {
		return []*diag.Diagnostic{bad}
	}
	s.v = value.Duration(d)
	if bare && d != 0 {
		return []*diag.Diagnostic{f.withoutUnit(raw, d)}
	}
	return nil
}

// withoutUnit warns of a duration that is a bare number.
func (f *Field) withoutUnit(raw *Raw, d time.Duration) *diag.Diagnostic {
	if raw.Templated || f.secret {
		return diag.Warningf(diag.CodeNoUnit, "the duration has no unit, so it is milliseconds").WithHint("write the unit, such as 5s or 500ms")
	}
	hint := fmt.Sprintf("write %s if that is meant", d)
	if seconds := d.Milliseconds(); time.Duration(seconds)*time.Millisecond == d && inRange(float64(seconds)*float64(time.Second), f) {
		hint = fmt.Sprintf("write %ds for seconds, or %s if that is meant", seconds, d)
	}
	return diag.Warningf(diag.CodeNoUnit, "%s has no unit, so it is milliseconds: %s", strings.TrimSpace(raw.Text.Code), d).WithHint("%s", hint)
}

// duration reads a duration. It is bare if it is a number without a unit, of milliseconds.
func (f *Field) duration(raw *Raw) (d time.Duration, bare bool, bad *diag.Diagnostic) {
	if d, ok := raw.Value.AsDuration(); ok {
		return d, false, nil
	}
	v := raw.Value
	str, isString := v.AsString()
	if isString {
		if d, err := time.ParseDuration(str); err == nil {
			return d, false, nil
		}
		if n, err := strconv.ParseFloat(str, 64); err == nil && !strings.ContainsAny(str, "xX_pP") {
			v, isString = value.Float(n), false
		}
	}
	if isString {
		return 0, false, diag.Errorf(diag.CodeBadDuration, `want a duration such as "5s", got %s`, f.show(raw, strconv.Quote(str))).
			WithHint("%s", f.unitHint(raw, str))
	}
	ms, ok := v.AsFloat()
	if !ok {
		return 0, false, f.wrong(raw)
	}
	ns := ms * float64(time.Millisecond)
	if math.IsNaN(ns) || math.Abs(ns) >= math.MaxInt64 {
		return 0, false, diag.Errorf(diag.CodeBadDuration, "the duration is longer than %s", time.Duration(math.MaxInt64).Round(time.Hour)).WithHint(`write a duration such as "5s"`)
	}
	return time.Duration(ns), true, nil
}

// unitHint says how to write a duration whose unit is another word, such as "5 seconds" or 1d.
func (f *Field) unitHint(raw *Raw, str string) string {
	at := strings.IndexFunc(str, unicode.IsLetter)
	if n, err := strconv.ParseUint(strings.TrimSpace(str[:max(at, 0)]), 10, 32); err == nil && !raw.Templated && !f.secret {
		for _, unit := range []struct {
			words, unit string
			of          uint64
		}{{"ms msec msecs millis", "ms", 1}, {"s sec secs second seconds", "s", 1}, {"min mins minute minutes", "m", 1}, {"h hr hrs hour hours", "h", 1}, {"d day days", "h", 24}, {"w week weeks", "h", 168}} {
			if slices.Contains(strings.Fields(unit.words), strings.ToLower(strings.TrimSpace(str[at:]))) {
				return fmt.Sprintf("write %d%s", n*unit.of, unit.unit)
			}
		}
	}
	return "the units are ns, us, ms, s, m and h, as in 1h30m"
}

func (f *Field) decodeBytes(s *slot, raw *Raw) *diag.Diagnostic {
	n, ok := raw.Value.AsFloat()
	if str, isString := raw.Value.AsString(); isString {
		n, ok = show.ParseSize(str)
	}
	if _, isString := raw.Value.AsString(); !ok && !isString {
		return f.wrong(raw)
	}
	if !ok || n < 0 || n != math.Trunc(n) || n > 1<<53 {
		got := f.show(raw, strconv.Quote(raw.Text.Code))
		return diag.Errorf(diag.CodeBadSize, `want a size such as "8MiB", got %s`, got).
			WithHint("the units are " + show.SizeUnits + "; a bare number is bytes")
	}
	if !inRange(n, f) {
		return f.outOfRange(raw, n, show.Size)
	}
	s.v = value.Int(int64(n))
	return nil
}

func formatFloat(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// maxIndex bounds the index of an out-port, and so the memory for ports.
const maxIndex = 1023

func (f *Field) decodeOutPort(s *slot, raw *Raw) *diag.Diagnostic {
	name, ok := raw.Value.AsString()
	if !ok {
		return f.wrong(raw).WithHint("write out, or out[0]")
	}
	base, rest, indexed := strings.Cut(name, "[")
	index, closed := 0, !indexed
	if indexed {
		var digits string
		digits, closed = strings.CutSuffix(rest, "]")
		n, err := strconv.Atoi(digits)
		closed = closed && err == nil && n >= 0 && strconv.Itoa(n) == digits
		index = n
	}
	switch {
	case base != "out" || !closed:
		d := diag.Errorf(diag.CodeBadOutPort, "want an out-port such as out[0], got %s", f.show(raw, strconv.Quote(name)))
		return d.WithHint("only out, out[0], out[1] and so on can be named here")
	case index > maxIndex:
		return diag.Errorf(diag.CodeOutOfRange, "an index may go up to %d", maxIndex).WithHint("write out[%d] or less", maxIndex)
	}
	s.v, s.port = raw.Value, index
	return nil
}

func (f *Field) decodeStrings(s *slot, raw *Raw) []*diag.Diagnostic {
	items := []*Raw{raw}
	switch raw.Kind {
	case RawList:
		items = raw.Items
	case RawMap:
		return []*diag.Diagnostic{f.wrong(raw)}
	}
	if len(items) == 0 && f.required {
		return []*diag.Diagnostic{diag.Errorf(diag.CodeMissingField, "the list is empty").WithHint("give at least one entry")}
	}
	var found []*diag.Diagnostic
	elems := make([]value.Value, 0, len(items))
	for _, item := range items {
		if _, ok := item.Value.AsString(); !ok || item.Kind != RawScalar {
			d := diag.Errorf(diag.CodeWrongType, "want a string, got %s", item.What())
			d.Pos, d.Pointer = item.Pos, item.Pointer
			found = append(found, d)
			continue
		}
		elems = append(elems, item.Value)
	}
	s.v = value.List(elems...)
	return found
}
