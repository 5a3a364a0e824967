package query

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
)

// Parse reads a query from a YAML or JSON document and checks it; defaults are
// filled in. file is what messages call the document, "" for nothing. The error
// is Errors: all problems, by place. Its work is bounded whatever the bytes.
func Parse(file string, src []byte) (*Query, error) {
	roots, errs := doctree.New(file, src, limits).Read()
	p := newParser(file)
	whole := true
	for _, e := range errs {
		p.report(Pos(e.Pos), e.Hint, "%s", e.Msg)
		whole = whole && e.Kind != doctree.BadSyntax && e.Kind != doctree.TooLarge
	}
	roots = slices.DeleteFunc(roots, func(n *doctree.Node) bool { return n.Kind == doctree.Null && !n.Wrong })
	switch {
	case !whole, len(roots) == 0 && len(errs) > 0:
	case len(roots) == 0:
		p.report(Pos{Line: 1, Column: 1}, "begin with "+list(kindNames()), "the document is empty")
	case len(roots) > 1:
		p.report(Pos(roots[1].Pos), "", "a second document; a query is one")
	default:
		return p.parse(roots[0])
	}
	return nil, p.errs.err()
}

// FromTree makes a query of the root of a document, as [Parse] does. Errors and the
// query have the places of the nodes, which need not be lines and columns.
func FromTree(root *doctree.Node) (*Query, error) {
	p := newParser("")
	if count(root) > limits.Values {
		p.report(Pos(root.Pos), "", "a query has at most %d values", limits.Values)
		return nil, p.errs.err()
	}
	return p.parse(root)
}

// count returns the number of values in a tree.
func count(n *doctree.Node) int {
	sum := 1
	for i := range n.Items {
		sum += count(&n.Items[i])
	}
	for i := range n.Fields {
		sum += count(&n.Fields[i].Value)
	}
	return sum
}

// limits leave room for a list of a hundred thousand values made by a program.
var limits = doctree.Limits{Size: 2 << 20, Values: 250_000}

// A parser makes a query of a tree, and gathers what is wrong with it.
type parser struct {
	file   string
	errs   Errors
	places map[string]Pos  // of the keys at the top and of the kind; "" is the kind's
	bad    map[string]bool // of these, what has been reported
	where  *Filter         // of the whole kind
}

func newParser(file string) *parser {
	return &parser{file: file, places: map[string]Pos{}, bad: map[string]bool{}}
}

func (p *parser) report(at Pos, hint, format string, args ...any) {
	p.errs = append(p.errs, &Error{File: p.file, Pos: at, Msg: fmt.Sprintf(format, args...), Hint: hint})
}

func (p *parser) parse(root *doctree.Node) (*Query, error) {
	q := p.query(root)
	if len(p.errs) == 0 || *q != (Query{Name: q.Name, Sample: q.Sample}) { // otherwise an error says why there is no query
		c := &checker{places: p.places, bad: p.bad, report: p.report}
		c.query(q)
	}
	if err := p.errs.err(); err != nil {
		return nil, err
	}
	return q, nil
}

// shape returns what messages call a node.
func shape(n *doctree.Node) string {
	switch {
	case n.Kind == doctree.Null:
		return "nothing"
	case n.Kind == doctree.List:
		return "a list"
	case n.Kind == doctree.Map:
		return "a map"
	}
	return "a value"
}

// A key is a key that a map may have, and the function that reads its value.
type key struct {
	name string
	read func(n *doctree.Node)
}

// meantKeys are other words for keys.
var meantKeys = map[string]string{
	"window": "within", "breakdown": "by", "group_by": "by", "groupby": "by", "group": "by", "filter": "where", "filters": "where",
	"breakdowns": "by", "break_down": "by", "break_down_by": "by", "breakdown_by": "by", "split": "by", "split_by": "by", "segment_by": "by",
	"at": "by_step", "by_at": "by_step", "at_step": "by_step", "breakdown_step": "by_step", "breakdown_at": "by_step", "attribution": "by_step", "step": "steps or by_step",
	"time_to_convert": "times", "conversion_time": "times", "time": "times", "timing": "times", "timings": "times", "durations": "times",
	"trend": "bucket", "trends": "bucket", "over_time": "bucket", "others": "other", "rest": "other", "top": "limit", "max_groups": "limit",
	"interval": "bucket or every", "granularity": "bucket", "tz": "timezone", "zone": "timezone", "time_zone": "timezone",
	"since": "from", "until": "to", "end": "to", "events": "event", "names": "event", "modes": "mode", "exclusions": "exclude",
	"aggregate": "measure", "metric": "measure", "period": "every", "length": "steps", "session_gap": "gap", "sampling": "sample",
	"list_users": "users", "user_list": "users", "who": "users", "drilldown": "users", "drill_down": "users", "selection": "users",
	"dropoff": "dropped", "drop_off": "dropped", "drop": "dropped", "dropped_off": "dropped", "lost": "dropped", "not_converted": "dropped",
	"date": "bucket or cohort", "day": "bucket or period", "week": "bucket or period", "month": "bucket or period", "label": "bucket or cohort", "start": "cohort",
	"value": "group", "values": "group", "by": "group",
	"title": "name", "id": "name", "funnels": "funnel", "didnt": "did_not", "not_did": "did_not", "count": "times or measure",
}

// weekStarts are keys for the first day of a week, which is part of the unit here.
var weekStarts = []string{"week_start", "weekstart", "week_starts", "week_starts_on", "first_day", "first_day_of_week", "start_of_week"}

// keys reads a map with these keys; what is what messages call it.
func (p *parser) keys(n *doctree.Node, what string, keys []key) {
	if n.Wrong && n.Kind != doctree.Map {
		return
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if n.Kind != doctree.Map {
		p.report(Pos(n.Pos), "its keys are "+list(names), "%s must be a map, got %s", what, shape(n))
		return
	}
	for i := range n.Fields {
		f := &n.Fields[i]
		k := slices.Index(names, f.Name)
		if k < 0 {
			p.unknown(f, what, names)
			continue
		}
		if !f.Value.Wrong {
			keys[k].read(&f.Value)
		}
	}
}

// unknown reports a key, with what was probably meant.
func (p *parser) unknown(f *doctree.Field, what string, names []string) {
	var meant map[string]string
	if m := meantKeys[strings.ToLower(f.Name)]; m != "" {
		for _, name := range strings.Split(m, " or ") {
			if slices.Contains(names, name) {
				meant = map[string]string{strings.ToLower(f.Name): name}
			}
		}
	}
	hint := hintOf(f.Name, names, meant)
	if slices.Contains(weekStarts, strings.ToLower(f.Name)) {
		hint = "write week_sunday for weeks from Sunday; a week begins on Monday"
	}
	if (f.Name == "name" || f.Name == "sample" || f.Name == "users") && !slices.Contains(names, f.Name) && what != "a query" {
		hint = f.Name + " stands at the top of the document, next to " + list(kindNames())
	}
	p.report(Pos(f.Pos), hint, "unknown key %s in %s", quote(f.Name), what)
	p.errs[len(p.errs)-1].UnknownKey = f.Name
}

// placed keeps the places of a kind's keys, and whether their values were bad.
func (p *parser) placed(n *doctree.Node, keys []key) []key {
	for i := range n.Fields {
		f := &n.Fields[i]
		p.places[f.Name] = Pos(f.Pos)
		p.bad[f.Name] = p.bad[f.Name] || f.Value.Wrong
	}
	for i, k := range keys {
		keys[i].read = func(n *doctree.Node) {
			before := len(p.errs)
			k.read(n)
			if len(p.errs) > before {
				p.bad[k.name] = true
			}
		}
	}
	return keys
}

// query reads the top of a document.
func (p *parser) query(root *doctree.Node) *Query {
	q := new(Query)
	p.places[""] = Pos(root.Pos)
	keys := []key{{"name", func(n *doctree.Node) { p.text(n, "name", &q.Name) }}}
	for _, k := range kinds() {
		keys = append(keys, p.kind(k, q))
	}
	var users *doctree.Node
	keys = append(keys, key{"sample", func(n *doctree.Node) { p.sample(n, &q.Sample) }}, key{"users", func(n *doctree.Node) { users = n }})
	p.keys(root, "a query", p.placed(root, keys))
	if k := q.kind(); users != nil && k != nil { // it has the keys of the kind, which can stand after it
		before := len(p.errs)
		p.users(users, k, q)
		p.bad["users"] = len(p.errs) > before
	}
	return q
}

func (p *parser) kind(k kind, q *Query) key {
	name := k.name()
	return key{name, func(n *doctree.Node) {
		for _, other := range kinds() {
			if other.of(q) {
				p.report(p.places[name], "a document is one query", "%s next to %s", name, other.name())
				return
			}
		}
		p.places[""] = p.places[name]
		if n.Kind != doctree.Map {
			p.report(Pos(n.Pos), "", "%s must be a map, got %s", name, shape(n))
			return
		}
		k.read(p, n, q)
	}}
}

// text reads text that is not empty; numbers and booleans are text as written.
func (p *parser) text(n *doctree.Node, what string, to *string) {
	switch {
	case n.Wrong:
	case !n.Scalar():
		p.report(Pos(n.Pos), "", "%s must be text, got %s", what, shape(n))
	case n.Text == "":
		p.report(Pos(n.Pos), "", "%s must be text that is not empty", what)
	default:
		*to = n.Text
	}
}

// texts reads text, or a list of it that is not empty.
func (p *parser) texts(n *doctree.Node, what string, to *[]string) {
	if n.Kind != doctree.List {
		var s string
		if p.text(n, what, &s); s != "" {
			*to = []string{s}
		}
		return
	}
	if len(n.Items) == 0 {
		p.report(Pos(n.Pos), "", "%s needs at least one name", what)
	}
	for i := range n.Items {
		var s string
		if p.text(&n.Items[i], what, &s); s != "" {
			*to = append(*to, s)
		}
	}
}

// integer reads a whole number.
func (p *parser) integer(n *doctree.Node, what string, to *int) bool {
	if n.Wrong {
		return false
	}
	if n.Kind != doctree.Int || n.Int() != int64(int32(n.Int())) {
		p.report(Pos(n.Pos), "", "%s must be a whole number, got %s", what, p.got(n))
		return false
	}
	*to = int(n.Int())
	return true
}

// counted reads a whole number from low to high. It checks the range, since 0 in a
// Query stands for the default.
func (p *parser) counted(n *doctree.Node, what string, low, high int, to *int) {
	var i int
	if !p.integer(n, what, &i) {
		return
	}
	if i < low || i > high {
		p.report(Pos(n.Pos), "", "%s must be from %d to %d, got %d", what, low, high, i)
		return
	}
	*to = i
}

// boolean reads true or false.
func (p *parser) boolean(n *doctree.Node, what string, to *bool) {
	switch {
	case n.Wrong:
	case n.Kind != doctree.Bool:
		hint := ""
		switch strings.ToLower(n.Text) {
		case "yes", "on", "y", "1":
			hint = "write true"
		case "no", "off", "n", "0":
			hint = "write false"
		}
		p.report(Pos(n.Pos), hint, "%s must be true or false, got %s", what, p.got(n))
	default:
		*to = n.Bool()
	}
}

// got describes a node for a message.
func (p *parser) got(n *doctree.Node) string {
	if n.Scalar() {
		return quote(n.Text)
	}
	return shape(n)
}

func (p *parser) sample(n *doctree.Node, to *float64) {
	hint := "write 0.1 for a tenth of the users"
	if n.Kind < doctree.Int || n.Kind > doctree.Float {
		p.report(Pos(n.Pos), hint, "sample must be a number, got %s", p.got(n))
		return
	}
	f := n.Float()
	if !(f > 0 && f <= 1) {
		p.report(Pos(n.Pos), hint, "sample must be a number above 0, up to 1, got %s", n.Text)
		return
	}
	*to = f
}

// match reads which events are meant: a name, a list of names, or a map.
func (p *parser) match(n *doctree.Node, what string, to *Match, more ...key) {
	to.Pos = Pos(n.Pos)
	if n.Kind == doctree.Map {
		p.keys(n, what, append([]key{
			{"event", func(n *doctree.Node) { p.texts(n, "event", &to.Events) }},
			{"where", func(n *doctree.Node) { to.Where = p.filter(n) }},
		}, more...))
		return
	}
	p.texts(n, what, &to.Events)
}

// bounds are the keys from and to.
func (p *parser) bounds(to *Bounds) []key {
	read := func(what string, at *int64, has *bool) key {
		return key{what, func(n *doctree.Node) {
			var s string
			if p.text(n, what, &s); s == "" {
				return
			}
			millis, err := timeOf(s)
			if err != nil {
				p.report(Pos(n.Pos), timeHint, "%s: %v", what, err)
				return
			}
			*at, *has = millis, true
		}}
	}
	return []key{read("from", &to.From, &to.HasFrom), read("to", &to.To, &to.HasTo)}
}

// unit reads a unit of the calendar, from the smallest that may stand here.
func (p *parser) unit(n *doctree.Node, what string, from Unit, to *Unit) {
	var s string
	if p.text(n, what, &s); s == "" {
		return
	}
	u, ok := unitOf(s, from)
	if !ok {
		p.report(Pos(n.Pos), hintOf(s, unitNames[from:], meantUnits), "%s must be a unit, got %s", what, quote(s))
	}
	*to = u
}

// bucket reads a unit of the calendar, or none.
func (p *parser) bucket(n *doctree.Node, to *Unit) {
	if !n.Scalar() || n.Text != "none" {
		p.unit(n, "bucket", Minute, to)
	}
}

// list reads one or many; each gets a node and its number from 1.
func (p *parser) list(n *doctree.Node, read func(n *doctree.Node, number int)) {
	if n.Kind != doctree.List {
		read(n, 1)
		return
	}
	for i := range n.Items {
		item := &n.Items[i]
		if !item.Wrong {
			read(item, i+1)
		}
	}
}

// and adds the filter of the whole kind to a match.
func (p *parser) and(m *Match) {
	switch {
	case p.where == nil:
	case m.Where == nil:
		m.Where = p.where
	default:
		m.Where = &Filter{All: []Filter{*p.where, *m.Where}}
	}
}

func ordinal(what string, number int) string { return what + " " + strconv.Itoa(number) }

// duration reads a duration above 0, or none.
func (p *parser) duration(n *doctree.Node, what string, to *time.Duration, none *bool) {
	var s string
	if p.text(n, what, &s); s == "" {
		return
	}
	if s == "none" {
		*none = true
		return
	}
	d, err := durationOf(s)
	switch {
	case err != nil && strings.Trim(s, "0.") == "":
		p.report(Pos(n.Pos), durationHint+", or none to have no bound", "%s must be longer than 0", what)
	case err != nil && errors.Is(err, errNoUnit):
		p.report(Pos(n.Pos), "write "+s+"s for seconds, or h, d, w", "%s: %v", what, err)
	case err != nil:
		p.report(Pos(n.Pos), durationHint+", or none", "%s: %v", what, err)
	case d == 0:
		p.report(Pos(n.Pos), "write none to have no bound", "%s must be longer than 0", what)
	}
	*to = d
}

func (p *parser) zone(n *doctree.Node, to **time.Location) {
	var s string
	if p.text(n, "timezone", &s); s == "" {
		return
	}
	zone, err := zoneOf(s)
	if err != nil {
		p.report(Pos(n.Pos), zoneHint, "timezone: %v", err)
		return
	}
	*to = zone
}
