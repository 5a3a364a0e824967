package query

import (
	"slices"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// Parse reads a query from a YAML or JSON document and checks it; defaults are
// filled in. file is what messages call the document, "" for nothing. The error
// is Errors: all problems, by place. Its work is bounded whatever the bytes.
func Parse(file string, src []byte) (*Query, error) {
	p := &parser{reader: &reader{file: file}, places: map[string]Pos{}, bad: map[string]bool{}}
	root := p.read(src)
	if root == nil || p.full {
		return nil, p.errs.err()
	}
	q := p.query(root)
	if len(p.errs) == 0 || *q != (Query{Name: q.Name, Sample: q.Sample}) { // else it is told why there is no query
		c := &checker{places: p.places, bad: p.bad, report: p.report}
		c.query(q)
	}
	if err := p.errs.err(); err != nil {
		return nil, err
	}
	return q, nil
}

// A parser makes a query of a tree.
type parser struct {
	*reader
	places map[string]Pos  // of the keys at the top and of the kind; "" is the kind's
	bad    map[string]bool // of these, what has been reported
	where  *Filter         // of the whole kind
}

// A key is one that a map may have, and what reads its value.
type key struct {
	name string
	read func(n *node)
}

// meantKeys are other words for keys.
var meantKeys = map[string]string{
	"window": "within", "breakdown": "by", "group_by": "by", "groupby": "by", "group": "by", "filter": "where", "filters": "where",
	"interval": "bucket or every", "granularity": "bucket", "tz": "timezone", "zone": "timezone", "time_zone": "timezone",
	"since": "from", "until": "to", "end": "to", "events": "event", "names": "event", "modes": "mode", "exclusions": "exclude",
	"aggregate": "measure", "metric": "measure", "period": "every", "length": "steps", "session_gap": "gap", "sampling": "sample",
	"title": "name", "id": "name", "funnels": "funnel", "didnt": "did_not", "not_did": "did_not", "count": "times or measure",
}

// keys reads a map with these keys; what is what messages call it.
func (p *parser) keys(n *node, what string, keys []key) {
	if n.wrong && n.shape != mapping {
		return
	}
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.name
	}
	if n.shape != mapping {
		p.report(n.pos, "its keys are "+list(names), "%s wants a map, got %s", what, n.shape)
		return
	}
	for _, f := range n.fields {
		i := slices.Index(names, f.name)
		if i < 0 {
			p.unknown(f, what, names)
			continue
		}
		if !f.value.wrong {
			keys[i].read(f.value)
		}
	}
}

// unknown reports a key, with what was probably meant.
func (p *parser) unknown(f field, what string, names []string) {
	var meant map[string]string
	if m := meantKeys[strings.ToLower(f.name)]; m != "" {
		for _, name := range strings.Split(m, " or ") {
			if slices.Contains(names, name) {
				meant = map[string]string{strings.ToLower(f.name): name}
			}
		}
	}
	hint := hintOf(f.name, names, meant)
	if (f.name == "name" || f.name == "sample") && !slices.Contains(names, f.name) {
		hint = f.name + " stands at the top of the document, beside " + list(kindNames())
	}
	p.report(f.pos, hint, "unknown key %s in %s", quote(f.name), what)
}

// placed makes a kind's keys keep their places, and whether their values were bad.
func (p *parser) placed(n *node, keys []key) []key {
	for _, f := range n.fields {
		p.places[f.name] = f.pos
		p.bad[f.name] = p.bad[f.name] || f.value.wrong
	}
	for i, k := range keys {
		keys[i].read = func(n *node) {
			before := len(p.errs)
			k.read(n)
			if len(p.errs) > before {
				p.bad[k.name] = true
			}
		}
	}
	return keys
}

func kindNames() []string { return []string{"funnel", "retention", "segment", "cohort", "paths"} }

// query reads the top of a document.
func (p *parser) query(root *node) *Query {
	q := new(Query)
	p.places[""] = root.pos
	first := ""
	kind := func(name string, read func(n *node)) key {
		return key{name, func(n *node) {
			if first != "" {
				p.report(p.places[name], "a document is one query", "%s beside %s", name, first)
				return
			}
			first = name
			top := p.places[name]
			p.places[""] = top
			if n.shape != mapping {
				p.report(n.pos, "", "%s wants a map, got %s", name, n.shape)
				return
			}
			read(n)
		}}
	}
	p.keys(root, "a query", p.placed(root, []key{
		{"name", func(n *node) { p.text(n, "name", &q.Name) }},
		kind("funnel", func(n *node) { q.Funnel = p.funnel(n) }),
		kind("retention", func(n *node) { q.Retention = p.retention(n) }),
		kind("segment", func(n *node) { q.Segment = p.segment(n) }),
		kind("cohort", func(n *node) { q.Cohort = p.cohort(n) }),
		kind("paths", func(n *node) { q.Paths = p.paths(n) }),
		{"sample", func(n *node) { p.sample(n, &q.Sample) }},
	}))
	return q
}

// text reads text that is not empty; numbers and booleans are text as written.
func (p *parser) text(n *node, what string, to *string) {
	switch {
	case n.wrong:
	case n.shape != scalar:
		p.report(n.pos, "", "%s wants text, got %s", what, n.shape)
	case n.text == "":
		p.report(n.pos, "", "%s wants text that is not empty", what)
	default:
		*to = n.text
	}
}

// texts reads text, or a list of it that is not empty.
func (p *parser) texts(n *node, what string, to *[]string) {
	if n.shape != sequence {
		var s string
		if p.text(n, what, &s); s != "" {
			*to = []string{s}
		}
		return
	}
	if len(n.items) == 0 {
		p.report(n.pos, "", "%s wants at least one name", what)
	}
	for _, item := range n.items {
		var s string
		if p.text(item, what, &s); s != "" {
			*to = append(*to, s)
		}
	}
}

// integer reads a whole number.
func (p *parser) integer(n *node, what string, to *int) bool {
	if n.wrong {
		return false
	}
	if n.shape != scalar || n.value.Type() != event.Int || n.value.Int() != int64(int32(n.value.Int())) {
		p.report(n.pos, "", "%s wants a whole number, got %s", what, p.got(n))
		return false
	}
	*to = int(n.value.Int())
	return true
}

// counted reads a whole number from low to high. Here, not in the checks, since a
// zero in a Query is the default.
func (p *parser) counted(n *node, what string, low, high int, to *int) {
	var i int
	if !p.integer(n, what, &i) {
		return
	}
	if i < low || i > high {
		p.report(n.pos, "", "%s wants %d to %d, got %d", what, low, high, i)
		return
	}
	*to = i
}

// boolean reads true or false.
func (p *parser) boolean(n *node, what string, to *bool) {
	switch {
	case n.wrong:
	case n.shape != scalar || n.value.Type() != event.Bool:
		p.report(n.pos, "", "%s wants true or false, got %s", what, p.got(n))
	default:
		*to = n.value.Bool()
	}
}

// got returns what stands in a document, for a message.
func (p *parser) got(n *node) string {
	if n.shape == scalar {
		return quote(n.text)
	}
	return n.shape.String()
}

func (p *parser) sample(n *node, to *float64) {
	hint := "write 0.1 for a tenth of the users"
	if n.shape != scalar || n.value.Type() != event.Int && n.value.Type() != event.Float {
		p.report(n.pos, hint, "sample wants a number, got %s", p.got(n))
		return
	}
	f := n.value.Float()
	if f <= 0 || f > 1 {
		p.report(n.pos, hint, "sample wants a number above 0, up to 1, got %s", n.text)
		return
	}
	*to = f
}

// match reads which events are meant: a name, a list of names, or a map.
func (p *parser) match(n *node, what string, to *Match, more ...key) {
	to.Pos = n.pos
	if n.shape == mapping {
		p.keys(n, what, append([]key{
			{"event", func(n *node) { p.texts(n, "event", &to.Events) }},
			{"where", func(n *node) { to.Where = p.filter(n) }},
		}, more...))
		return
	}
	p.texts(n, what, &to.Events)
}

// bounds are the keys from and to.
func (p *parser) bounds(to *Bounds) []key {
	read := func(what string, at *int64, has *bool) key {
		return key{what, func(n *node) {
			var s string
			if p.text(n, what, &s); s == "" {
				return
			}
			millis, err := timeOf(s)
			if err != nil {
				p.report(n.pos, timeHint, "%s: %v", what, err)
				return
			}
			*at, *has = millis, true
		}}
	}
	return []key{read("from", &to.From, &to.HasFrom), read("to", &to.To, &to.HasTo)}
}

// every reads the length of a period.
func (p *parser) every(n *node, to *Every) {
	var s string
	if p.text(n, "every", &s); s == "" {
		return
	}
	if u, ok := unitOf(s, Minute); ok {
		to.Unit = u
		return
	}
	d, err := durationOf(s)
	switch {
	case err == nil && d == 0:
		p.report(n.pos, durationHint, "every wants more than nothing")
	case err == nil:
		to.Elapsed = d
	default:
		hint := hintOf(s, unitNames[Minute:], meantUnits)
		if !strings.HasPrefix(hint, "write") && !strings.HasPrefix(hint, "did") {
			hint = durationHint + ", or " + list(unitNames[Minute:])
		}
		p.report(n.pos, hint, "every: %v", err)
	}
}

// unit reads a unit of the calendar, from the smallest that may stand here.
func (p *parser) unit(n *node, what string, from Unit, to *Unit) {
	var s string
	if p.text(n, what, &s); s == "" {
		return
	}
	u, ok := unitOf(s, from)
	if !ok {
		p.report(n.pos, hintOf(s, unitNames[from:], meantUnits), "%s wants a unit, got %s", what, quote(s))
	}
	*to = u
}

// list reads one or many; each gets a node and its number from 1.
func (p *parser) list(n *node, read func(n *node, number int)) {
	if n.shape != sequence {
		read(n, 1)
		return
	}
	for i, item := range n.items {
		if !item.wrong {
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
