package trailtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A WorldOptions says how large a world is.
type WorldOptions struct {
	Events  int // about as many; 0 is 12,000, and up to 150,000 for some seeds
	Queries int // random ones, in addition to one of each operator; 0 is 20
}

// worldValues are how many values a property may have: about the limits of what a
// segment does with codes, of which one more stands for the missing value.
var worldValues = []int{1, 2, 4, 16, 39, 62, 63, 64, 255, 2999, 69_999}

// worldKinds say by what an event has which of the values.
var worldKinds = []string{"user", "session", "time", "hash", "rare", "words", "any"}

// Worlds is how many worlds, from any seed on, have strings and another type of each kind
// with each number of values.
const Worlds = 11

// DrawWorld makes a case with as many events as a segment needs to do all that it does
// to save work: sessions in milliseconds with days between them, users of all sizes up to
// one with most events, and properties whose values depend on the user, the session, the
// time or a part of the hashes, are rare, as frequent as words, or mostly missing. Queries
// are random ones, few of them slow, and one of each operator on each property.
//
// A property is called after its kind and the number of its values. One world in Worlds
// has 150,000 events of two days, most of them of one user, and 70,000 codes.
func DrawWorld(seed uint64, opt WorldOptions) Case {
	d := &caseGenerator{Rand: rand.New(rand.NewPCG(seed, 0x776f726c64)), Case: Case{Seed: seed}, large: true}
	n, heavy := cmp.Or(opt.Events, 12_000), d.chance(0.4) // the first user has most events
	users, span := pick(d, []int{40, 300, 2000, 5000}), pick(d, []int64{2, 20, 60})
	var places []placement
	for k, kind := range worldKinds {
		// Kinds and values have no divisor in common, so each meets each.
		at := int(seed%uint64(len(worldValues)))*len(worldKinds) + k
		values := worldValues[at%len(worldValues)]
		other := []event.Type{event.Int, event.Float}[at&1]
		if values == 2 {
			other = event.Bool
		}
		places = append(places, d.placed(kind, event.String, values), d.placed(kind, other, values))
		if kind == "any" && values > 1<<16 && opt.Events == 0 {
			n, heavy, users, span = 150_000, true, 5000, 2
		}
	}
	if opt.Events == 0 && seed%Worlds == 3 {
		n = 40_000
	}
	if n > 1<<17 { // too many for a dictionary
		places = append(places, d.placed("any", event.Int, 1<<18), d.placed("any", event.Float, 1<<18))
	}
	d.names = []string{"view", "open", "cart", "purchase", "near", "rare"}
	if d.chance(0.1) { // more than fit a bit set
		for i := range 90 {
			d.names = append(d.names, fmt.Sprintf("event%d", i))
		}
	}
	form := pick(d, []string{"u%03d", "%d", "user-%x@example.com"})
	for i := range users {
		d.users = append(d.users, fmt.Sprintf(form, i))
	}
	d.from, d.span = 1767571200000+int64(d.IntN(400))*day, span*day
	d.worldEvents(n, heavy, places)
	d.drawCohorts()
	for range cmp.Or(opt.Queries, 20) {
		d.Queries = append(d.Queries, d.query())
	}
	for _, f := range d.fields {
		d.Queries = append(d.Queries, d.ofEach(f)...)
	}
	return d.Case
}

// Quick reports whether the reference answers a question about a world within moments.
func Quick(c *Case, q *query.Query) bool {
	return len(c.Events) < 1<<15 && (q.Funnel == nil || !q.Funnel.Modes.StrictOnce)
}

// A placement says which of the values of a property an event has.
type placement struct {
	kind  string
	last  int     // of the session, or of all events
	stray float64 // share of events that have another value than the rest of their user
}

// placed draws a property of a type with so many values.
func (d *caseGenerator) placed(kind string, typ event.Type, values int) placement {
	f := fieldPlan{Field: event.Field{Name: fmt.Sprintf("%s %d %v", kind, values, typ), Type: typ}}
	start, step := d.IntN(1000), pick(d, []int64{1, 1, 7, 1 << 40})
	if values > 1<<17 {
		step = 1 << 40
	}
	for i := range values {
		switch f.Type {
		case event.String:
			f.pool = append(f.pool, event.StringOf(variant(start+i)))
		case event.Int:
			f.pool = append(f.pool, event.IntOf(int64(i-start)*step))
		case event.Float:
			f.pool = append(f.pool, event.FloatOf(float64(i)/4+float64(start)))
		default:
			f.pool = append(f.pool, event.BoolOf(i == 1))
		}
	}
	p := placement{kind: kind, last: -1}
	if typ == event.String {
		p.stray = 0.01
	} else if d.chance(0.5) && values < 1<<16 {
		f.missing = pick(d, []float64{0.1, 0.6, 0.95})
	}
	d.fields = append(d.fields, f)
	d.Schema = append(d.Schema, f.Field)
	return p
}

// variant returns the i-th of strings of which many begin or end with another, or differ
// from it in case alone.
func variant(i int) string {
	var b []byte
	for i++; i > 0; i = (i - 1) / 4 {
		b = append(b, "aAb-"[(i-1)%4])
	}
	return string(b)
}

// worldEvents draws sessions until there are enough events.
func (d *caseGenerator) worldEvents(n int, heavy bool, places []placement) {
	d.plain = d.chance(0.2)
	unit := pick(d, []int64{1, 1, 1000})
	ids := d.chance(0.3)
	for len(d.Events) < n {
		u := min(d.IntN(len(d.users)), d.IntN(len(d.users)))
		if heavy && d.chance(0.7) {
			u = 0
		}
		at := d.from + d.Int64N(d.span)
		for k := range places {
			if places[k].kind == "session" {
				places[k].last = -1
			}
		}
		for range 1 + min(d.IntN(40), d.IntN(40)) {
			if !d.chance(0.1) { // else at the same time
				at += d.Int64N(pick(d, []int64{100, 5000, 600_000}))
			}
			e := event.Event{User: d.users[u], Time: at / unit * unit, Name: d.worldName(event.Hash(d.users[u]))}
			if ids {
				e.ID = fmt.Sprint(len(d.Events))
			}
			for k := range places {
				if f := &d.fields[k]; !d.chance(f.missing) {
					e.Properties = append(e.Properties, event.Property{Name: f.Name, Value: f.pool[d.which(&places[k], u, at, len(f.pool))]})
				}
			}
			d.Events = append(d.Events, e)
			d.times = append(d.times, e.Time)
		}
	}
	d.Shuffle(len(d.Events), func(i, j int) { d.Events[i], d.Events[j] = d.Events[j], d.Events[i] })
}

func (d *caseGenerator) worldName(hash uint64) string {
	switch {
	case hash>>59 == 7 && d.chance(0.5):
		return "near" // users of a part of the hashes have it
	case d.chance(0.0005):
		return "rare"
	case d.plain && !d.chance(0.05):
		return "view"
	case len(d.names) > 6 && d.chance(0.3):
		return pick(d, d.names[6:])
	}
	return d.names[d.low(4)]
}

// which returns the number of a value.
func (d *caseGenerator) which(p *placement, user int, at int64, values int) int {
	part := func(of, all uint64) int {
		return int(math.Min(float64(of)/float64(all)*float64(values), float64(values-1)))
	}
	switch p.kind {
	case "user":
		if !d.chance(p.stray) {
			return user * 31 % values
		}
	case "session":
		if p.last < 0 {
			p.last = d.IntN(values)
		}
		return p.last
	case "time":
		return part(uint64(at-d.from), uint64(d.span)+uint64(day))
	case "hash":
		return part(event.Hash(d.users[user]), math.MaxUint64)
	case "rare":
		if d.chance(1.0 / 2000) {
			return d.IntN(values)
		}
		return 0
	case "words": // as often as words of a language: one of n in proportion to 1/n
		return min(int(math.Exp(d.Float64()*math.Log(float64(values)+1)))-1, values-1)
	}
	if p.kind == "any" && d.chance(0.5) { // each value in turn, so that all of them occur
		p.last = (p.last + 1) % values
		return p.last
	}
	return d.IntN(values)
}

// ofEach returns a question with each operator that fits a property.
func (d *caseGenerator) ofEach(f fieldPlan) (list []*query.Query) {
	for _, op := range opsOf(f.Type) {
		m := query.Match{Where: &query.Filter{Test: d.testOf(f, op)}}
		if d.chance(0.5) {
			m.Events = []string{pick(d, d.names)}
		}
		q := &query.Query{}
		switch d.IntN(4) {
		case 0:
			m.Events = []string{pick(d, d.names)}
			q.Funnel = &query.Funnel{Steps: []query.Match{m, {Events: []string{"view"}}}, Within: d.window() + time.Millisecond, Limit: 1000}
		default:
			q.Segment = &query.Segment{Match: m}
			if d.chance(0.3) {
				q.Segment.Measure = query.Measure{Kind: query.Users}
			}
		}
		list = append(list, q)
	}
	return list
}
