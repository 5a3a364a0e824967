package trailtest

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// DrawOptions bound what Draw makes.
type DrawOptions struct {
	Users   int // at most; 0 is 30
	Events  int // at most; 0 is 400
	Queries int // exactly; 0 is 10
}

// A Case is a random set of events and queries about it.
type Case struct {
	Seed    uint64
	Schema  event.Schema
	Events  []event.Event // as they arrive: some are late, some come twice
	Queries []*query.Query
	Cohorts map[string][]uint64 // kept cohorts that queries use: sorted hashes, of users who are nowhere too
}

const day = 86400_000 // milliseconds

// A caseGenerator is a case in the making.
type caseGenerator struct {
	*rand.Rand
	Case
	fields []fieldPlan
	names  []string // of events, common ones first
	users  []string
	from   int64 // of the events, milliseconds
	span   int64
	times  []int64 // of all events
	dense  bool    // few kinds of events, many at one time: hard for funnels
	large  bool    // most questions have filters
	plain  bool    // nearly all events have one name
}

// A fieldPlan says how the values of a property come about.
type fieldPlan struct {
	event.Field
	pool    []event.Value
	missing float64 // share
	perUser bool    // nearly all events of a user have one value
	run     float64 // chance that an event has the value of the one before
	narrow  bool    // a Float that begins with integers
}

// Draw makes a case that depends on the seed and the options alone. Queries are
// such as Check takes, not checked yet. They fit the property types of the schema, but
// may ask for events and properties that do not exist. Sums of numbers do not depend
// much on the order of adding.
func Draw(seed uint64, opt DrawOptions) Case {
	d := &caseGenerator{Rand: rand.New(rand.NewPCG(seed, 0x747261696c)), Case: Case{Seed: seed}}
	d.dense = d.chance(0.15)
	d.drawSchema()
	d.drawNames()
	d.drawUsers(cmp.Or(opt.Users, 30))
	d.drawEvents(d.IntN(cmp.Or(opt.Events, 400) + 1))
	d.drawCohorts()
	for range cmp.Or(opt.Queries, 10) {
		d.Queries = append(d.Queries, d.query())
	}
	return d.Case
}

func (d *caseGenerator) chance(p float64) bool { return d.Float64() < p }

func pick[T any](d *caseGenerator, list []T) T { return list[d.IntN(len(list))] }

// low returns a number from 0 to n-1, small ones more often.
func (d *caseGenerator) low(n int) int { return min(d.IntN(n), d.IntN(n)) }

func (d *caseGenerator) drawSchema() {
	names := []string{"country", "price", "plan", "item", "campaign", "paid", "señal", "цена", "名前", "two words", "all", "n"}
	d.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names[:1+d.IntN(8)] {
		f := fieldPlan{
			Field:   event.Field{Name: name, Type: pick(d, []event.Type{event.String, event.String, event.String, event.Int, event.Int, event.Float, event.Bool})},
			perUser: d.chance(0.2),
			narrow:  d.chance(0.3),
		}
		if d.chance(0.6) {
			f.missing = pick(d, []float64{0.02, 0.3, 0.5, 0.95, 1})
		}
		if d.chance(0.3) {
			f.run = 0.9
		}
		size := pick(d, []int{1, 2, 4, 4, 10, 60, 300, 1000})
		for range size {
			f.pool = append(f.pool, d.value(f.Type, size))
		}
		if f.Type == event.Float {
			d.settlePool(f.pool)
		}
		d.fields = append(d.fields, f)
		d.Schema = append(d.Schema, f.Field)
	}
}

// settlePool makes all numbers of a pool positive, or binary fractions that add up
// exactly: sums of others would depend on the order of adding, without bound.
func (d *caseGenerator) settlePool(pool []event.Value) {
	positive := d.chance(0.6)
	for i, v := range pool {
		if positive {
			pool[i] = event.FloatOf(math.Abs(v.Float()))
		} else {
			pool[i] = event.FloatOf(math.Round(v.Float()*4) / 4)
		}
	}
}

func (d *caseGenerator) value(t event.Type, size int) event.Value {
	switch t {
	case event.Int:
		switch d.IntN(20) {
		case 0:
			return event.IntOf(pick(d, []int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64 + 1, 1 << 53, 1<<53 + 1, math.MaxUint32, math.MinInt32}))
		case 1, 2, 3:
			return event.IntOf(int64(d.IntN(2000)) - 1000)
		}
		return event.IntOf(int64(d.IntN(4 * size)))
	case event.Float:
		switch d.IntN(8) {
		case 0:
			return event.FloatOf(d.NormFloat64() * 1e6)
		case 1:
			return event.FloatOf(float64(d.IntN(100)))
		case 2:
			return event.FloatOf(-float64(d.IntN(1000)) / 8)
		}
		return event.FloatOf(float64(d.IntN(100*size)) / pick(d, []float64{1, 10, 100}))
	case event.Bool:
		return event.BoolOf(d.chance(0.5))
	}
	switch d.IntN(6) {
	case 0:
		return event.StringOf(pick(d, []string{"KR", "FR", "DE", "US", "true", "exists", "a\"b", "x,y", "it's", "100%", "a_b", " ", "\\", "é", "日本", "Ω", "😀", "line\nbreak"}))
	case 1:
		return event.StringOf(fmt.Sprint(d.IntN(30)))
	case 2:
		return event.StringOf(fmt.Sprintf("/shop/%c/%d", 'a'+rune(d.IntN(4)), d.IntN(size)))
	}
	return event.StringOf(fmt.Sprintf("%c%c%d", 'a'+rune(d.IntN(3)), 'A'+rune(d.IntN(3)), d.IntN(size)))
}

func (d *caseGenerator) drawNames() {
	d.names = []string{"view", "cart", "purchase", "signup", "open", "поиск", "a b", "x"}[:2+d.IntN(7)]
	if d.dense {
		d.names = d.names[:2]
	} else if d.chance(0.1) { // more than fit a bit set
		for i := range 90 {
			d.names = append(d.names, fmt.Sprintf("event%d", i))
		}
	}
}

func (d *caseGenerator) drawUsers(most int) {
	form := pick(d, []string{"u%03d", "%d", "user-%x@example.com", "ключ%d", "00%d"})
	start := pick(d, []int{0, 1, 990, 1 << 40})
	for i := range 1 + d.IntN(most) {
		d.users = append(d.users, fmt.Sprintf(form, start+i))
	}
}

func (d *caseGenerator) drawEvents(n int) {
	const monday2026 = 1767571200000 // 2026-01-05
	d.from = monday2026 + int64(d.IntN(400))*day + int64(d.IntN(day))
	switch d.IntN(8) {
	case 0:
		d.from = -int64(d.IntN(60 * day)) // about 1970
	case 1:
		d.from = -int64(d.IntN(100*366)) * day / 5
	case 2:
		d.from = 1774656000000 - int64(d.IntN(3*day)) // the clocks of Europe change on 2026-03-29
	}
	d.span = pick(d, []int64{20, 5000, 3600_000, day, 10 * day, 60 * day, 120 * day})
	unit := pick(d, []int64{1, 1000, 1000, 1000, 60_000})
	if d.dense {
		d.span, unit = pick(d, []int64{5, 20, 60}), 1
	}
	ids := d.chance(0.5)
	heavy := d.chance(0.4)
	last := make([]event.Value, len(d.fields))
	constant := map[string]event.Value{}
	now := map[string]int64{}
	for i := range n {
		user := d.users[d.IntN(len(d.users))]
		if heavy && d.chance(0.4) {
			user = d.users[0]
		}
		e := event.Event{User: user, Time: d.nextTime(now, user, unit), Name: d.names[d.low(len(d.names))]}
		if ids && d.chance(0.9) {
			e.ID = fmt.Sprintf("id%d", i)
		}
		for k, f := range d.fields {
			v := pick(d, f.pool)
			key := fmt.Sprint(user, "/", k)
			switch {
			case d.chance(f.missing):
				v = event.Value{}
			case d.chance(f.run):
				v = last[k]
			case f.perUser && !d.chance(0.02):
				if c, ok := constant[key]; ok {
					v = c
				}
				constant[key] = v
			}
			if f.narrow && f.Type == event.Float && v.Float() == math.Trunc(v.Float()) && !v.Missing() && math.Abs(v.Float()) < 1e15 {
				v = event.IntOf(int64(v.Float())) // widened by what stores it
			}
			last[k] = v
			if !v.Missing() || d.chance(0.1) {
				e.Properties = append(e.Properties, event.Property{Name: f.Name, Value: v})
			}
		}
		d.Events = append(d.Events, e)
		d.times = append(d.times, e.Time)
	}
	d.delay()
}

// nextTime returns when a user does the next thing: often soon after the last, now
// and then at the same time.
func (d *caseGenerator) nextTime(now map[string]int64, user string, unit int64) int64 {
	t, ok := now[user]
	switch {
	case !ok || d.chance(0.15):
		t = d.from + d.Int64N(d.span)
	case d.chance(0.2):
		// A tie.
	default:
		t += d.Int64N(max(d.span/pick(d, []int64{5, 50, 500, 5000}), 1) + 1)
	}
	t = floorDiv(t, unit) * unit
	now[user] = t
	return t
}

// delay makes some events late, and repeats some. Repeated events without an id are
// two events.
func (d *caseGenerator) delay() {
	if d.chance(0.3) {
		d.Shuffle(len(d.Events), func(i, j int) { d.Events[i], d.Events[j] = d.Events[j], d.Events[i] })
	}
	for range len(d.Events) / 20 {
		i := d.IntN(len(d.Events))
		e := d.Events[i]
		if d.chance(0.5) {
			d.Events = slices.Delete(d.Events, i, i+1)
		}
		d.Events = append(d.Events, e)
	}
}

func (d *caseGenerator) drawCohorts() {
	d.Cohorts = map[string][]uint64{}
	for _, name := range []string{"loyal", "some"} {
		hashes := []uint64{d.Uint64(), d.Uint64()}
		for _, u := range d.users {
			if d.chance(0.4) {
				hashes = append(hashes, event.Hash(u))
			}
		}
		slices.Sort(hashes)
		d.Cohorts[name] = hashes
	}
}
