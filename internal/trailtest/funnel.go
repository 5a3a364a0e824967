package trailtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A win is the winning chain of a user, or of one value of Same of a user: the longest
// one, of several the one whose step 1 comes first, of those the one whose step 2 comes
// first, and so on. With Same the chains of all values compete; of those with equal
// times the smallest values win. Of a funnel in any order it is the window with the most
// steps, of several the one that begins first.
type win struct {
	hash   uint64 // of the user
	level  int
	times  []int64       // of its steps, of any order only of the first event; empty where nothing asks for them
	values []event.Value // of By; all missing if the chain does not reach the step of ByStep
}

// better orders wins: the longest, then the earliest, then the smallest values.
func better(a, b win) int {
	return cmp.Or(cmp.Compare(b.level, a.level), slices.Compare(a.times, b.times), slices.CompareFunc(a.values, b.values, compareValues))
}

// checkFunnel fails if parts of a funnel do not go together.
func (t *table) checkFunnel(f *query.Funnel) {
	t.require(f.Modes.StrictOrder || !f.Modes.AllowReentry, "allow_reentry goes with strict_order alone")
	t.require(int(f.ByStep) >= int(query.LastStep) && int(f.ByStep) <= len(f.Steps), "there is no step %d", f.ByStep)
	t.require(f.Bucket == query.NoUnit || len(f.By) == 0, "a trend goes without groups")
	if f.AnyOrder {
		t.require(f.Modes == query.Modes{} && len(f.Exclude) == 0, "order any goes without modes and exclusions")
		t.require(f.ByStep == 0 || f.ByStep == 1, "order any goes without a chosen step")
		t.require(f.Times == query.NoTimes && f.Bucket == query.NoUnit, "order any goes without times and a trend")
	}
}

func (t *table) funnel(f *query.Funnel) *query.FunnelAnswer {
	t.checkFunnel(f)
	if t.err != nil {
		return nil
	}
	all := t.wins(f, t.steps(f))
	answer := &query.FunnelAnswer{Steps: funnelSteps(f, all, f.Times), By: f.By}
	groups, rest := funnelGroups(f, all)
	for _, g := range groups {
		answer.Groups = append(answer.Groups, query.FunnelGroup{Values: g[0].values, Steps: funnelSteps(f, g, f.Times)})
	}
	if f.Other && len(rest) > 0 {
		answer.Groups = append(answer.Groups, query.FunnelGroup{Other: true, Steps: funnelSteps(f, rest, f.Times)})
	}
	if f.Bucket != query.NoUnit {
		answer.Trend = []query.FunnelBucket{} // there is a trend, also without a bucket
	}
	for _, b := range t.trend(f) {
		answer.Trend = append(answer.Trend, query.FunnelBucket{Bucket: b.label, Steps: funnelSteps(f, b.wins, query.NoTimes)})
	}
	return answer
}

// funnelUsers returns the users behind a number of a funnel.
func (t *table) funnelUsers(f *query.Funnel, s *query.Selection) []uint64 {
	t.checkFunnel(f)
	t.require(s.Step >= 1 && s.Step <= len(f.Steps), "there is no step %d", s.Step)
	t.require(s.Bucket == "" || f.Bucket != query.NoUnit, "the funnel has no trend")
	t.checkGroup(s, f.By, f.Other)
	if t.err != nil {
		return nil
	}
	wins := t.wins(f, t.steps(f))
	groups, rest := funnelGroups(f, wins)
	switch {
	case s.Bucket != "":
		wins = nil
		for _, b := range t.trend(f) {
			if b.label == s.Bucket {
				wins = b.wins
			}
		}
	case s.Other:
		wins = rest
	case s.Group != nil:
		wins = nil
		for _, g := range groups {
			if isGroup(g[0].values, s.Group) {
				wins = g
			}
		}
	}
	var users []uint64
	for _, w := range wins {
		if w.level == s.Step || w.level > s.Step && !s.Dropped {
			users = append(users, w.hash)
		}
	}
	return users
}

func (t *table) steps(f *query.Funnel) []predicate {
	var steps []predicate
	for _, m := range f.Steps {
		steps = append(steps, t.match(m))
	}
	return steps
}

// wins returns the winning chain of each user who has one. The steps are the steps of the
// funnel, or stricter ones.
func (t *table) wins(f *query.Funnel, steps []predicate) []win {
	var excludes []predicate
	for _, x := range f.Exclude {
		excludes = append(excludes, t.match(x.Match))
	}
	var all []win
	for _, rows := range t.users {
		var wins []win
		for _, part := range partition(bounded(rows, f.Bounds), f.Same) {
			if f.AnyOrder {
				wins = append(wins, anyOrder(f, steps, part))
			} else {
				wins = append(wins, inOrder(f, steps, excludes, part))
			}
		}
		if len(wins) == 0 {
			continue
		}
		best := slices.MinFunc(wins, better)
		best.hash = rows[0].hash
		if best.level > 0 {
			all = append(all, best)
		}
	}
	return all
}

// funnelGroups divides wins by their values: into the groups that are answered, in
// order, and the wins of all other groups.
func funnelGroups(f *query.Funnel, all []win) (groups [][]win, rest []win) {
	if len(f.By) == 0 {
		return nil, nil
	}
	by := map[string][]win{}
	for _, w := range all {
		key := fmt.Sprintf("%q", w.values)
		by[key] = append(by[key], w)
	}
	groups = slices.SortedFunc(maps.Values(by), func(a, b []win) int {
		return cmp.Or(cmp.Compare(len(b), len(a)), slices.CompareFunc(a[0].values, b[0].values, compareValues))
	})
	limit := min(cmp.Or(f.Limit, 1000), len(groups))
	return groups[:limit], slices.Concat(groups[limit:]...)
}

// A trendBucket is the funnel of one bucket.
type trendBucket struct {
	label string
	wins  []win
}

// trend returns the funnel of each bucket that has users: that in which step 1 matches
// only events of the bucket. An event of step 1 in a later bucket is an event like all
// others there, so that it ends a chain with strict_order. What comes before the first
// event of step 1 never changes a chain, so that events before the bucket can stay.
func (t *table) trend(f *query.Funnel) []trendBucket {
	if f.Bucket == query.NoUnit {
		return nil
	}
	zone := cmp.Or(f.Zone, time.UTC)
	steps := t.steps(f)
	buckets := map[int64]bool{}
	for _, rows := range t.users {
		for _, r := range bounded(rows, f.Bounds) {
			if steps[0](r) {
				buckets[periodOf(f.Bucket, r.time, zone)] = true
			}
		}
	}
	var trend []trendBucket
	for _, n := range slices.Sorted(maps.Keys(buckets)) {
		inBucket := slices.Clone(steps)
		inBucket[0] = func(r row) bool { return steps[0](r) && periodOf(f.Bucket, r.time, zone) == n }
		if wins := t.wins(f, inBucket); len(wins) > 0 { // with Same, an event of step 1 may take no part
			trend = append(trend, trendBucket{periodLabel(f.Bucket, n, zone), wins})
		}
	}
	return trend
}

func funnelSteps(f *query.Funnel, wins []win, times query.TimesOf) []query.FunnelStep {
	steps := make([]query.FunnelStep, len(f.Steps))
	for k := range steps {
		n := 0
		var took []int64
		for _, w := range wins {
			if w.level <= k {
				continue
			}
			n++
			switch {
			case k > 0 && times == query.FromPrevious:
				took = append(took, w.times[k]-w.times[k-1])
			case k > 0 && times == query.FromFirst:
				took = append(took, w.times[k]-w.times[0])
			}
		}
		steps[k] = query.FunnelStep{Event: strings.Join(f.Steps[k].Events, "|"), Users: number(n), Time: stepTime(took)}
	}
	return steps
}

// stepTime sums up how many milliseconds users took; nil if there are none.
func stepTime(took []int64) *query.StepTime {
	n := len(took)
	if n == 0 {
		return nil
	}
	slices.Sort(took)
	s := &query.StepTime{Median: took[nearestRank(50, n)-1], P90: took[nearestRank(90, n)-1]}
	var buckets []query.TimeBucket
	from := int64(0)
	for _, below := range append(query.TimeBounds(), 0) { // 0 for the bucket without a bound
		users := 0
		for _, ms := range took {
			users += boolInt(ms >= from && (below == 0 || ms < below.Milliseconds()))
		}
		buckets = append(buckets, query.TimeBucket{Below: below, Users: number(users)})
		from = below.Milliseconds()
	}
	for buckets[0].Users.N == 0 {
		buckets = buckets[1:]
	}
	for buckets[len(buckets)-1].Users.N == 0 {
		buckets = buckets[:len(buckets)-1]
	}
	s.Histogram = buckets
	return s
}

// partition splits rows by the value of a property; rows without one are left out.
// Without a property all rows are one part.
func partition(rows []row, property string) [][]row {
	if property == "" {
		return [][]row{rows}
	}
	parts := map[event.Value][]row{}
	for _, r := range rows {
		if v := r.values[property]; !v.Missing() {
			parts[v] = append(parts[v], r)
		}
	}
	return slices.Collect(maps.Values(parts))
}

func inOrder(f *query.Funnel, steps, excludes []predicate, rows []row) win {
	var entries []entry
	for i, r := range inTieOrder(steps, rows) {
		for x, excluded := range excludes {
			if excluded(r) {
				entries = append(entries, entry{time: r.time, step: exclusion, event: i, after: f.Exclude[x].After, upto: f.Exclude[x].Before})
			}
		}
		for k, is := range steps {
			if is(r) {
				entries = append(entries, entry{time: r.time, step: k + 1, event: i})
			}
		}
		if mask(steps, r) == 0 && f.Modes.StrictOrder {
			entries = append(entries, entry{time: r.time, step: other, event: i})
		}
	}
	sortEntries(entries)
	s := search{steps: len(steps), window: f.Within.Milliseconds(), noLimit: f.NoLimit, modes: f.Modes}
	level, seen := s.level(entries)
	w := win{level: level}
	if level == 0 || len(f.By) == 0 && f.Times == query.NoTimes {
		return w
	}
	w.times = s.winner(entries[:seen], level)
	step := int(f.ByStep)
	switch f.ByStep {
	case 0:
		step = 1
	case query.LastStep:
		step = level
	}
	w.values = smallest(rows, f.By, func(r row) bool {
		return step <= level && r.time == w.times[step-1] && steps[step-1](r)
	})
	return w
}

// mask has bit k-1 set if a row matches step k.
func mask(steps []predicate, r row) uint64 {
	var m uint64
	for k, is := range steps {
		m |= uint64(boolInt(is(r))) << k
	}
	return m
}

// inTieOrder returns rows by time, and rows of one time by their masks. The order of
// one time matters only with strict_deduplication and strict_once together: there
// windowFunnel takes events of one step in the order of arrival, and the first one that
// makes a chain excludes the others. A store does not keep that order, so here the event
// that matches fewer late steps comes first.
func inTieOrder(steps []predicate, rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(mask(steps, a), mask(steps, b)))
	})
	return rows
}

// smallest returns the smallest values of properties among rows that pass, compared
// from left to right; all are of one row. If none passes all are missing.
//
// All rows of one time that match the step of ByStep pass, also those that the chain
// could not use there: with strict_once the event may be another step, with
// strict_deduplication it may end the chain. Which of them a chain took cannot be seen.
func smallest(rows []row, properties []string, pass predicate) []event.Value {
	var tuples [][]event.Value
	for _, r := range rows {
		if !pass(r) {
			continue
		}
		var values []event.Value
		for _, p := range properties {
			values = append(values, r.values[p])
		}
		tuples = append(tuples, values)
	}
	if len(tuples) == 0 {
		return make([]event.Value, len(properties))
	}
	return slices.MinFunc(tuples, func(a, b []event.Value) int { return slices.CompareFunc(a, b, compareValues) })
}

// anyOrder counts the distinct steps that lie in one window. The winner begins
// with the earliest event from which a window has the most.
func anyOrder(f *query.Funnel, steps []predicate, rows []row) win {
	isStep := func(r row) bool {
		return slices.ContainsFunc(steps, func(is predicate) bool { return is(r) })
	}
	s := search{window: f.Within.Milliseconds(), noLimit: f.NoLimit}
	var best win
	for _, first := range rows {
		if !isStep(first) {
			continue
		}
		level := 0
		for _, is := range steps {
			if slices.ContainsFunc(rows, func(r row) bool {
				return r.time >= first.time && s.inWindow(first.time, r.time) && is(r)
			}) {
				level++
			}
		}
		if level > best.level {
			best = win{level: level, times: []int64{first.time}}
		}
	}
	if len(f.By) > 0 && best.level > 0 {
		best.values = smallest(rows, f.By, func(r row) bool { return r.time == best.times[0] && isStep(r) })
	}
	return best
}

func (d *caseGenerator) funnel() *query.Funnel {
	f := &query.Funnel{Within: d.window(), Bounds: d.bounds(), Limit: 1000}
	if d.chance(0.2) || f.Within == 0 {
		f.Within, f.NoLimit = 0, true
	}
	steps := 1 + d.low(5)
	if d.dense {
		steps = 2 + d.IntN(4)
	}
	for range steps {
		f.Steps = append(f.Steps, d.match(true))
	}
	if d.chance(0.02) { // as many as there can be
		for len(f.Steps) < 32 {
			f.Steps = append(f.Steps, d.match(true))
		}
	}
	switch {
	case d.chance(0.2):
		f.AnyOrder = true
	case d.dense || d.chance(0.6):
		f.Modes.StrictDeduplication = d.chance(0.3)
		f.Modes.StrictOrder = d.chance(0.4)
		f.Modes.StrictIncrease = d.chance(0.4)
		f.Modes.StrictOnce = d.chance(0.4) && len(f.Steps) < 10
		f.Modes.AllowReentry = f.Modes.StrictOrder && d.chance(0.4)
	}
	if !f.AnyOrder && len(f.Steps) > 1 && d.chance(0.3) {
		for range 1 + d.low(2) {
			after := 1 + d.IntN(len(f.Steps)-1)
			f.Exclude = append(f.Exclude, query.Exclude{Match: d.match(true), After: after, Before: after + 1 + d.IntN(len(f.Steps)-after)})
		}
	}
	if d.chance(0.2) {
		f.Same = d.property()
	}
	if !f.AnyOrder && d.chance(0.3) {
		f.Times = pick(d, []query.TimesOf{query.FromPrevious, query.FromFirst})
	}
	switch {
	case d.chance(0.4):
		f.By = d.by(1)
		if d.chance(0.5) {
			f.By = d.by(3)
		}
		if !f.AnyOrder && d.chance(0.5) {
			f.ByStep = pick(d, []query.ByStep{query.LastStep, query.ByStep(1 + d.IntN(len(f.Steps)))})
		}
		if d.chance(0.3) {
			f.Limit = 1 + d.IntN(3)
		}
		f.Other = d.chance(0.4)
	case !f.AnyOrder && d.chance(0.3):
		if f.Bucket, f.Zone = d.bucket(), d.zone(); d.buckets(f.Bucket) > 10_000 {
			f.Bucket = query.Day // an engine may keep all buckets in memory
		}
	}
	return f
}
