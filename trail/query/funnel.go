package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/trail/event"
)

const (
	maxSteps     = 32        // levels are bits of 32
	maxGroups    = 1_000_000 // groups that are answered
	defaultLimit = 1000
)

type funnelKind struct{}

func (funnelKind) name() string           { return "funnel" }
func (funnelKind) of(q *Query) bool       { return q.Funnel != nil }
func (funnelKind) answers(a *Answer) bool { return a.Funnel != nil }
func (funnelKind) reach(q *Query) Bounds  { return q.Funnel.Bounds }

// A Funnel counts the users who went through the steps in order.
type Funnel struct {
	Steps    []Match       // 1 to 32; each has at least one event name
	Within   time.Duration // from the first step, whole milliseconds; 0 with NoLimit
	NoLimit  bool          // there is no window; Check sets it if Within is 0
	Modes    Modes
	AnyOrder bool // steps count in any order, within the window of each other
	Exclude  []Exclude
	Same     string         // property whose value must be equal in all steps; "" for none
	By       []string       // up to 3 properties to break down by; nil for none
	ByStep   ByStep         // the event of the winning chain whose values By are; default that of step 1
	Limit    int            // groups that are answered, up to a million; default 1000
	Other    bool           // the groups beyond Limit are answered as one
	Times    TimesOf        // how long users took for each step; default not answered
	Bucket   Unit           // of the trend: one funnel for each bucket, whose step 1 must lie in it; NoUnit for none; not with By
	Zone     *time.Location // of Bucket; never nil after Parse or Check
	Bounds
}

// ByStep is a step of a funnel from 1. A user whose chain does not reach it has missing
// values.
type ByStep int

// LastStep is the last step that the user's winning chain reached.
const LastStep ByStep = -1

// TimesOf is where the time that a step took begins.
type TimesOf uint8

// The places.
const (
	NoTimes      TimesOf = iota
	FromPrevious         // the step before
	FromFirst            // step 1
)

// Modes are the modes of a funnel, with the meaning they have for windowFunnel of
// ClickHouse 26.9.
type Modes struct {
	StrictDeduplication bool // strict_deduplication
	StrictOrder         bool // strict_order
	StrictIncrease      bool // strict_increase
	StrictOnce          bool // strict_once
	AllowReentry        bool // allow_reentry; only together with StrictOrder
}

// An Exclude ends a chain that has an event of Match between two of its steps.
type Exclude struct {
	Match
	After, Before int // steps from 1, After less than Before; default the first and the last step
}

// A FunnelAnswer has the users who reached each step, of all users and by group or
// bucket.
//
// The winning chain of a user is the longest one. Of several it is the one that
// begins first, then the one whose step 2 comes first, and so on. Of several events
// of one time that can be its step, the one with the smallest values of By counts.
type FunnelAnswer struct {
	Steps  []FunnelStep
	By     []string // the properties of Groups; nil for none
	Groups []FunnelGroup
	Trend  []FunnelBucket // of a funnel with Bucket: those with users, by time
}

// A FunnelStep is a step and the users who reached it.
type FunnelStep struct {
	Event string // names of the step's events, joined with "|"
	Users Number
	Time  *StepTime // of steps from 2 with Times, of all users and of groups; nil if no user reached it
}

// A StepTime is how long the users took who reached a step, in their winning chains.
type StepTime struct {
	Median, P90 int64        // milliseconds: the smallest value that is not less than that share of the values
	Histogram   []TimeBucket // from the first to the last bucket with users
}

// A TimeBucket has the users who took less than a time, and not less than that of the
// bucket before.
type TimeBucket struct {
	Below time.Duration // one of TimeBounds; 0 for the last one, which has no bound
	Users Number
}

// TimeBounds returns the bounds of the buckets of a StepTime.
func TimeBounds() []time.Duration {
	const day = 24 * time.Hour
	return []time.Duration{
		time.Minute, 5 * time.Minute, 15 * time.Minute, 30 * time.Minute,
		time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour,
		day, 2 * day, 3 * day, 7 * day, 14 * day, 30 * day, 90 * day,
	}
}

// A FunnelGroup has the users whose winning chain has values at the event of ByStep.
// Groups come by users of step 1 descending, then values; Other comes last.
type FunnelGroup struct {
	Values []event.Value // one for each By; the missing one is shown as ""; nil of Other
	Other  bool          // the users of all groups beyond Limit
	Steps  []FunnelStep
}

// A FunnelBucket is a funnel of the users whose step 1 lies in a bucket.
type FunnelBucket struct {
	Bucket string // as of a SegmentRow
	Steps  []FunnelStep
}

// modeNames are the modes of a funnel as documents write them.
func modeNames() []string {
	return []string{"strict_deduplication", "strict_order", "strict_increase", "strict_once", "allow_reentry"}
}

// flags returns the fields of the modes in the order of modeNames.
func (m *Modes) flags() [5]*bool {
	return [5]*bool{&m.StrictDeduplication, &m.StrictOrder, &m.StrictIncrease, &m.StrictOnce, &m.AllowReentry}
}

// Names returns the modes that are set, as documents write them.
func (m Modes) Names() []string {
	var names []string
	for i, set := range m.flags() {
		if *set {
			names = append(names, modeNames()[i])
		}
	}
	return names
}

func (funnelKind) read(p *parser, n *doctree.Node, q *Query) {
	f := new(Funnel)
	q.Funnel = f
	limited := false
	p.keys(n, "funnel", p.placed(n, append([]key{
		{"steps", func(n *doctree.Node) {
			if n.Kind != doctree.List {
				p.report(Pos(n.Pos), "write steps: [view, cart, purchase]", "steps must be a list, got %s", shape(n))
				return
			}
			for i := range n.Items {
				var m Match
				p.match(&n.Items[i], ordinal("step", i+1), &m)
				f.Steps = append(f.Steps, m)
			}
		}},
		{"within", func(n *doctree.Node) { p.duration(n, "within", &f.Within, &f.NoLimit) }},
		{"mode", func(n *doctree.Node) { p.modes(n, &f.Modes) }},
		{"order", func(n *doctree.Node) {
			var s string
			if p.text(n, "order", &s); s != "" && s != "any" {
				p.report(Pos(n.Pos), "write any, or leave it out for the order of the steps", "unknown order %s", quote(s))
				return
			}
			f.AnyOrder = s == "any"
		}},
		{"exclude", func(n *doctree.Node) { p.list(n, func(n *doctree.Node, number int) { p.exclude(n, number, f) }) }},
		{"same", func(n *doctree.Node) { p.text(n, "same", &f.Same) }},
		{"by", func(n *doctree.Node) {
			p.texts(n, "by", &f.By)
		}},
		{"limit", func(n *doctree.Node) { limited = true; p.counted(n, "limit", 1, maxGroups, &f.Limit) }},
		{"where", func(n *doctree.Node) { p.where = p.filter(n) }},
	}, p.bounds(&f.Bounds)...)))
	if limited && len(f.By) == 0 && f.Limit == defaultLimit && !p.bad["by"] {
		p.report(p.places["limit"], "limit bounds the groups of by", "limit without by")
	}
	for i := range f.Steps {
		p.and(&f.Steps[i])
	}
	for i := range f.Exclude {
		p.and(&f.Exclude[i].Match)
	}
}

func (p *parser) modes(n *doctree.Node, to *Modes) {
	p.list(n, func(n *doctree.Node, _ int) {
		var s string
		if p.text(n, "mode", &s); s == "" {
			return
		}
		i := slices.Index(modeNames(), s)
		switch {
		case i < 0:
			p.report(Pos(n.Pos), hintOf(s, modeNames(), map[string]string{"strict": "strict_deduplication"}), "unknown mode %s", quote(s))
		case *to.flags()[i]:
			p.report(Pos(n.Pos), "", "the mode %s is given twice", s)
		default:
			*to.flags()[i] = true
		}
	})
}

func (p *parser) exclude(n *doctree.Node, number int, f *Funnel) {
	var x Exclude
	what := ordinal("exclude", number)
	p.match(n, what, &x.Match, key{"between", func(n *doctree.Node) {
		if n.Kind != doctree.List || len(n.Items) != 2 {
			p.report(Pos(n.Pos), "write between: [1, 2]", "between must be two numbers of steps")
			return
		}
		// Zero is the default in an Exclude, so it is refused here.
		p.counted(&n.Items[0], "between", 1, maxSteps, &x.After)
		p.counted(&n.Items[1], "between", 1, maxSteps, &x.Before)
	}})
	f.Exclude = append(f.Exclude, x)
}

func (funnelKind) check(c *checker, q *Query) {
	f := q.Funnel
	if len(f.Steps) < 1 || len(f.Steps) > maxSteps {
		c.problem("steps", "", "a funnel must have 1 to %d steps, got %d", maxSteps, len(f.Steps))
	}
	for i := range f.Steps {
		m := &f.Steps[i]
		if len(m.Events) == 0 {
			c.missing("steps", m.Pos, ordinal("step", i+1))
		}
		c.match(m, ordinal("step", i+1))
	}
	if f.Within == 0 && !f.NoLimit {
		f.NoLimit = true
	} else if f.Within != 0 {
		c.duration("within", f.Within)
		if f.NoLimit {
			c.problem("within", "", "a window of %s and no window", formatDuration(f.Within))
		}
	}
	if f.Modes.AllowReentry && !f.Modes.StrictOrder { // as ClickHouse 26.9 has it
		c.problem("mode", "write mode: [strict_order, allow_reentry]", "allow_reentry needs strict_order as well")
	}
	if f.AnyOrder && f.Modes != (Modes{}) {
		c.problem("mode", "leave one of the two out", "order: any has no modes")
	}
	if f.AnyOrder && len(f.Exclude) > 0 {
		c.problem("exclude", "leave one of the two out", "order: any has nothing between its steps to exclude")
	}
	if len(f.Exclude) > maxDids {
		c.problem("exclude", "", "a funnel has up to %d exclusions, got %d", maxDids, len(f.Exclude))
	}
	for i := range f.Exclude {
		c.exclude(&f.Exclude[i], ordinal("exclude", i+1), len(f.Steps))
	}
	c.property("same", f.Same)
	for _, name := range f.By {
		c.property("by", name)
		if name == "steps" {
			c.problem("by", "a segment can group by it", "groups cannot be by %q, which is a key of the answer", name)
		}
	}
	if len(f.By) == 0 && !c.bad["by"] && f.Limit != 0 && f.Limit != defaultLimit {
		c.problem("limit", "limit bounds the groups of by", "limit without by")
	}
	fill(&f.Limit, defaultLimit)
	c.between("limit", f.Limit, 1, maxGroups)
	c.bounds(f.Bounds)
}

func (c *checker) exclude(x *Exclude, what string, steps int) {
	if len(x.Events) == 0 && x.Where == nil {
		c.missing("exclude", x.Pos, what)
	}
	if x.After == 0 && x.Before == 0 {
		x.After, x.Before = 1, max(steps, 1)
	}
	if (x.After < 1 || x.Before > steps || x.After >= x.Before) && !c.bad["exclude"] && !c.bad["steps"] {
		hint := fmt.Sprintf("the steps are 1 to %d; the first must be less than the second", steps)
		if steps < 2 {
			hint = "there is nothing between the steps of a funnel that has one"
		}
		c.report(x.Pos, hint, "%s: no such steps: between %d and %d", what, x.After, x.Before)
	}
	c.match(&x.Match, what)
}

func (w answerWriter) steps(steps []FunnelStep) {
	writeObjects(w, "steps", steps, func(s FunnelStep) {
		w.text("event", s.Event)
		w.users(s.Users)
	})
}

func (funnelKind) write(w answerWriter, answer *Answer) {
	f := answer.Funnel
	if w.steps(f.Steps); len(f.By) == 0 {
		return
	}
	writeObjects(w, "groups", f.Groups, func(g FunnelGroup) {
		for i, name := range f.By {
			w.Key(name)
			w.value(g.Values[i])
		}
		w.steps(g.Steps)
	})
}

func readSteps(in []stepJSON) ([]FunnelStep, error) {
	var steps []FunnelStep
	var errs []error
	for _, s := range in {
		n, err := s.number()
		errs = append(errs, err)
		steps = append(steps, FunnelStep{Event: s.Event, Users: n})
	}
	return steps, errors.Join(errs...)
}

type funnelJSON struct {
	Steps  *[]stepJSON       `json:"steps"`
	Groups []json.RawMessage `json:"groups"`
}

type stepJSON struct {
	Event string `json:"event"`
	userJSON
}

func (funnelKind) unmarshal(in *answerJSON, a *Answer) error {
	if in.Steps == nil {
		return nil
	}
	steps, err := readSteps(*in.Steps)
	out := &FunnelAnswer{Steps: steps}
	a.Funnel = out
	for _, text := range in.Groups {
		keys, values, wrong := inOrder(text)
		if err = errors.Join(err, wrong); err != nil {
			return err
		}
		// The property may be called steps, too: the first key is the property.
		if len(keys) != 2 || keys[1] != "steps" {
			return errors.New("a group must have the property and steps")
		}
		out.By = keys[:1]
		var list []stepJSON
		g := FunnelGroup{}
		value, err := valueOf(values[0])
		if err == nil {
			g.Values = []event.Value{value}
			err = json.Unmarshal(values[1], &list)
		}
		if err == nil {
			g.Steps, err = readSteps(list)
		}
		out.Groups = append(out.Groups, g)
	}
	return err
}
