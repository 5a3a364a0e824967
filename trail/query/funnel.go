package query

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/internal/ground/spell"
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
	ByStep   ByStep         // the event of the winning chain that has the values of By; default step 1
	Limit    int            // groups that are answered, up to a million; default 1000
	Other    bool           // the groups beyond Limit are answered as one
	Times    TimesOf        // how long users took for each step; default not answered
	Bucket   Unit           // of the trend: one funnel for each bucket, whose step 1 must lie in it; NoUnit for none; neither with By nor AnyOrder
	Zone     *time.Location // of Bucket; never nil after Parse or Check
	Bounds
}

// ByStep is a step of a funnel from 1, or LastStep. A user whose chain does not reach it
// has missing values. With AnyOrder it is 1, the event that the chain begins with.
type ByStep int

// LastStep is the last step that the user's winning chain reached.
const LastStep ByStep = -1

// TimesOf is where the time that a step took begins. There is none with AnyOrder.
type TimesOf uint8

// The places.
const (
	NoTimes      TimesOf = iota
	FromPrevious         // the step before
	FromFirst            // step 1
)

// timesNames are the places as documents write them.
var timesNames = [...]string{"", "previous", "first"}

func (t TimesOf) String() string {
	if int(t) < len(timesNames) {
		return timesNames[t]
	}
	return fmt.Sprintf("TimesOf(%d)", uint8(t))
}

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
	Trend  []FunnelBucket // of a funnel with Bucket: the buckets with users, by time; nil for none, which is not empty
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

// A TimeBucket has the users who took less than its time, and no less than the time of
// the bucket before.
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
		{"by_step", func(n *doctree.Node) { p.byStep(n, &f.ByStep) }},
		{"limit", func(n *doctree.Node) { p.counted(n, "limit", 1, maxGroups, &f.Limit) }},
		{"other", func(n *doctree.Node) { p.boolean(n, "other", &f.Other) }},
		{"times", func(n *doctree.Node) { p.timesOf(n, &f.Times) }},
		{"bucket", func(n *doctree.Node) { p.bucket(n, &f.Bucket) }},
		{"timezone", func(n *doctree.Node) { p.zone(n, &f.Zone) }},
		{"where", func(n *doctree.Node) { p.where = p.filter(n) }},
	}, p.bounds(&f.Bounds)...)))
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

// byStep reads first, last or the number of a step.
func (p *parser) byStep(n *doctree.Node, to *ByStep) {
	switch {
	case n.Scalar() && n.Text == "first":
		*to = 1
	case n.Scalar() && n.Text == "last":
		*to = LastStep
	case n.Kind == doctree.Int:
		p.counted(n, "by_step", 1, maxSteps, (*int)(to))
	case !n.Wrong:
		p.report(Pos(n.Pos), "write first, last or the number of a step", "by_step must be a step, got %s", p.got(n))
	}
}

// timesOf reads where the times of steps begin.
func (p *parser) timesOf(n *doctree.Node, to *TimesOf) {
	if n.Wrong {
		return
	}
	i := slices.Index(timesNames[FromPrevious:], n.Text)
	if !n.Scalar() || i < 0 {
		hint := "previous is the time since the step before, first since step 1"
		if near, ok := spell.Nearest(n.Text, timesNames[FromPrevious:]); ok && n.Scalar() {
			hint = "did you mean " + near + "?"
		}
		p.report(Pos(n.Pos), hint, "times must be previous or first, got %s", p.got(n))
		return
	}
	*to = FromPrevious + TimesOf(i)
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
		c.problem("steps", "write the names of events in their order, such as steps: [view, buy]", "a funnel must have 1 to %d steps, got %d", maxSteps, len(f.Steps))
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
	c.by(f.By, "groups", []string{"steps"}, f.Other)
	c.needsBy(f.By, "by_step", f.ByStep > 1 || f.ByStep == LastStep, "by_step says whose event the values of by are")
	c.needsBy(f.By, "limit", f.Limit != 0 && f.Limit != defaultLimit, "limit bounds the groups of by")
	c.needsBy(f.By, "other", f.Other, "other is the groups of by beyond limit")
	fill(&f.Limit, defaultLimit)
	c.between("limit", f.Limit, 1, maxGroups)
	fill(&f.ByStep, 1)
	if n := len(f.Steps); f.ByStep != LastStep && (f.ByStep < 1 || n > 0 && int(f.ByStep) > n) && !c.bad["steps"] {
		c.problem("by_step", fmt.Sprintf("the steps are 1 to %d, or first and last", n), "by_step: no such step: %d", f.ByStep)
	}
	if f.Times > FromFirst {
		c.problem("times", "", "times: no such step: %s", f.Times)
	}
	c.trend(f)
	if f.AnyOrder && f.ByStep != 1 {
		c.problem("by_step", "leave by_step out; the values of the first event count", "order: any has no step that comes at a place")
	}
	if f.AnyOrder && f.Times != NoTimes {
		c.problem("times", "leave one of the two out", "order: any has no steps one after the other, so there are no times between steps")
	}
	c.bounds(f.Bounds)
}

// trend checks the buckets of a funnel.
func (c *checker) trend(f *Funnel) {
	c.zone(&f.Zone)
	_, zoned := c.places["timezone"]
	_, bucketed := c.places["bucket"]
	switch {
	case zoned && !bucketed:
		c.problem("timezone", "write bucket: day; from and to have their own, such as 2026-01-01T00:00:00+09:00", "timezone is for buckets, and there is no bucket")
	case f.Bucket > Month:
		c.problem("bucket", "", "bucket: no such unit: %s", f.Bucket)
	case f.Bucket == NoUnit:
	case len(f.By) > 0:
		c.problem("bucket", "ask for one group with where: {"+f.By[0]+": …} in step 1, or leave one of the two out", "bucket and by: a trend has no groups")
	case f.AnyOrder:
		c.problem("bucket", "leave one of the two out", "order: any has no step 1 that could lie in a bucket")
	}
}

func (funnelKind) selects() (keys []string, example string) {
	return []string{"step", "dropped", "group", "other", "bucket"}, "{step: 2, dropped: true}"
}

func (funnelKind) selected(c *checker, q *Query) {
	f, s := q.Funnel, q.Users
	steps := "there is one step, which is 1"
	if n := len(f.Steps); n > 1 {
		steps = fmt.Sprintf("the steps are 1 to %d", n)
	}
	switch {
	case s.Step == 0:
		c.selection(q, "step", "write users: {step: 1}; "+steps, "users of a funnel need a step")
	case (s.Step < 1 || s.Step > len(f.Steps)) && !c.bad["steps"] && len(f.Steps) > 0:
		c.selection(q, "step", steps, "users: no such step: %d", s.Step)
	}
	c.selectedGroup(q, f.By, f.Other)
	c.selectedBucket(q, f.Bucket)
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
		if s.Time != nil {
			w.Key("time")
			w.time(s.Time)
		}
	})
}

func (w answerWriter) time(t *StepTime) {
	w.Open('{')
	w.int("median_ms", t.Median)
	w.int("p90_ms", t.P90)
	writeObjects(w, "histogram", t.Histogram, func(b TimeBucket) {
		if b.Below != 0 {
			w.text("below", formatDuration(b.Below))
		}
		w.users(b.Users)
	})
	w.Close('}')
}

func (funnelKind) write(w answerWriter, answer *Answer) {
	f := answer.Funnel
	w.steps(f.Steps)
	if len(f.By) > 0 {
		writeObjects(w, "groups", f.Groups, func(g FunnelGroup) {
			w.group(f.By, g.Values, g.Other)
			w.steps(g.Steps)
		})
	}
	if f.Trend != nil {
		writeObjects(w, "trend", f.Trend, func(b FunnelBucket) {
			w.text("bucket", b.Bucket)
			w.steps(b.Steps)
		})
	}
}

type (
	funnelJSON struct {
		Steps  *[]stepJSON       `json:"steps"`
		Groups []json.RawMessage `json:"groups"`
		Trend  *[]trendJSON      `json:"trend"`
	}
	stepJSON struct {
		Event string `json:"event"`
		userJSON
		Time *timeJSON `json:"time"`
	}
	timeJSON struct {
		Median    int64            `json:"median_ms"`
		P90       int64            `json:"p90_ms"`
		Histogram []timeBucketJSON `json:"histogram"`
	}
	timeBucketJSON struct {
		Below string `json:"below"`
		userJSON
	}
	trendJSON struct {
		Bucket string     `json:"bucket"`
		Steps  []stepJSON `json:"steps"`
	}
)

func readSteps(in []stepJSON) ([]FunnelStep, error) {
	var steps []FunnelStep
	var errs []error
	for _, s := range in {
		n, err := s.number()
		t, wrong := s.Time.read()
		errs = append(errs, err, wrong)
		steps = append(steps, FunnelStep{Event: s.Event, Users: n, Time: t})
	}
	return steps, errors.Join(errs...)
}

func (t *timeJSON) read() (*StepTime, error) {
	if t == nil {
		return nil, nil
	}
	out := &StepTime{Median: t.Median, P90: t.P90}
	var errs []error
	for _, b := range t.Histogram {
		var below time.Duration
		var err error
		if b.Below != "" {
			below, err = durationOf(b.Below)
		}
		n, wrong := b.number()
		errs = append(errs, err, wrong)
		out.Histogram = append(out.Histogram, TimeBucket{Below: below, Users: n})
	}
	return out, errors.Join(errs...)
}

func (funnelKind) unmarshal(in *answerJSON, a *Answer) error {
	if in.Steps == nil {
		return nil
	}
	steps, err := readSteps(*in.Steps)
	out := &FunnelAnswer{Steps: steps}
	a.Funnel = out
	if in.Trend != nil {
		out.Trend = []FunnelBucket{}
		for _, b := range *in.Trend {
			steps, wrong := readSteps(b.Steps)
			err = errors.Join(err, wrong)
			out.Trend = append(out.Trend, FunnelBucket{Bucket: b.Bucket, Steps: steps})
		}
	}
	if err != nil {
		return err
	}
	names := make([][]string, len(in.Groups))
	for i, text := range in.Groups {
		g, keys, err := readGroup(text)
		if err != nil {
			return err
		}
		names[i] = keys
		out.Groups = append(out.Groups, g)
	}
	out.By, err = groupKeys(names, func(i int) (*[]event.Value, *bool) { return &out.Groups[i].Values, &out.Groups[i].Other })
	return err
}

// readGroup reads a group and the names of its properties.
func readGroup(text []byte) (g FunnelGroup, names []string, err error) {
	keys, values, err := inOrder(text)
	if err != nil {
		return g, nil, err
	}
	// A property may be called steps, too: the last key belongs to the answer.
	n := len(keys) - 1
	if n < 1 || keys[n] != "steps" {
		return g, nil, errors.New("a group must have properties and steps")
	}
	for _, text := range values[:n] {
		v, err := valueOf(text)
		if err != nil {
			return g, nil, err
		}
		g.Values = append(g.Values, v)
	}
	var list []stepJSON
	if err := json.Unmarshal(values[n], &list); err != nil {
		return g, nil, err
	}
	g.Steps, err = readSteps(list)
	return g, keys[:n], err
}
