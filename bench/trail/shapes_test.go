package trail_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A shape is a kind of data, and the questions about it.
type shape struct {
	name    string
	data    func(seed uint64, events int) trailtest.Generator
	asked   // by the questions that every shape has
	queries []question
}

// An asked has the events and properties that the questions are about.
type asked struct {
	steps       []string // of the funnel: three
	start, back []string // of the retention
	optional    string   // a property that some events do not have
	group       string   // one of few values
	pattern     string   // of the optional one
	wide        string   // one of many values
	budget      int64    // for grouping by it, in bytes; 0 for the default
}

// The questions that forms and new processes are about.
const (
	nameFunnel       = "funnel"
	nameRetention    = "retention"
	nameRetentionAny = "retention, any event"
	nameSegment      = "segmentation"
	nameExists       = "exists"
	nameExistsUsers  = "exists, users"
	nameSample       = "funnel, 10 % sample"
	nameBy           = "funnel by " // and a property of few values
	nameWide         = "group by "  // and a property of many values
)

// A question is a query that the store and the other engines answer.
type question struct {
	name   string
	doc    string
	memory int64 // budget in bytes; 0 for the default
	sample bool  // others draw other users: answers are not compared
	parsed *query.Query
}

// large is the budget of a question with a million groups.
const large = 1 << 30

func shapes() []shape {
	all := []shape{
		{
			name: "ecom",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Ecom{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"view", "cart", "purchase"}, start: []string{"view", "signup"}, back: []string{"view"},
				optional: "campaign", group: "country", pattern: "-(0[1-5]|1.)$", wide: "item",
			},
		},
		{
			name: "short",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Short{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"view", "cart", "purchase"}, start: []string{"signup"}, back: []string{"open"},
				optional: "item", group: "country", pattern: "-[1-3].*[57]$", wide: "item",
			},
		},
		{
			name: "skew",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Skew{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"view", "cart", "purchase"}, start: []string{"signup"}, back: []string{"open"},
				optional: "campaign", group: "country", pattern: "-(0[1-5]|1.)$", wide: "page",
			},
		},
		{
			name: "visits",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Visits{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"open", "cart", "purchase"}, start: []string{"open"}, back: []string{"view"},
				optional: "campaign", group: "country", pattern: "-(0[1-5]|1.)$", wide: "item",
			},
		},
		{
			name: "github",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.GitHub{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"push", "pull_request", "issue_comment"}, start: []string{"push", "create"}, back: []string{"push"},
				optional: "action", group: "language", pattern: "^(c|r).*d$", wide: "repo", budget: large,
			},
		},
		{
			name: "hits",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Hits{Seed: seed, Events: n} },
			asked: asked{
				steps: []string{"hit", "click", "leave"}, start: []string{"hit"}, back: []string{"click"},
				optional: "referrer", group: "browser", pattern: `site1?\d\.`, wide: "url", budget: large,
			},
			queries: []question{{
				name: "regular expression, a million values", doc: "segment: {where: {url: {matches: '/(help|docs)/.*[37]$'}}}",
			}},
		},
	}
	for i := range all {
		all[i].queries = append(all[i].questions(), all[i].queries...)
	}
	return all
}

// questions returns the questions that every shape has. Sorting by user does not help
// with the last three.
func (a *asked) questions() []question {
	list := func(names []string) string { return "[" + strings.Join(names, ", ") + "]" }
	funnel := fmt.Sprintf("funnel: {steps: %s, within: 7d}", list(a.steps))
	retention := "retention: {start: %s, return: %s, every: 7d, periods: 8, cohort: week}"
	exists := fmt.Sprintf("where: {%s: exists}", a.optional)
	return []question{
		{name: nameFunnel, doc: funnel},
		{name: nameRetention, doc: fmt.Sprintf(retention, list(a.start), list(a.back))},
		{name: nameRetentionAny, doc: fmt.Sprintf(retention, list(a.start), "{}")},
		{name: nameSegment, doc: fmt.Sprintf("segment: {%s, bucket: day, by: [%s]}", exists, a.group)},
		{name: nameExists, doc: fmt.Sprintf("segment: {%s}", exists)},
		{name: nameExistsUsers, doc: fmt.Sprintf("segment: {%s, measure: users}", exists)},
		{name: nameSample, doc: "sample: 0.1\n" + funnel, sample: true},
		{name: nameBy + a.group, doc: fmt.Sprintf("funnel: {steps: %s, within: 7d, by: %s}", list(a.steps), a.group)},
		{name: "regular expression", doc: fmt.Sprintf("segment: {where: {%s: {matches: '%s'}}, bucket: day}", a.optional, a.pattern)},
		{name: nameWide + a.wide, doc: fmt.Sprintf("segment: {by: [%s]}", a.wide), memory: a.budget},
	}
}

func (s *shape) parse(tb testing.TB) []question {
	tb.Helper()
	all := slices.Clone(s.queries)
	for i := range all {
		all[i].parsed = parsed(tb, all[i].doc)
	}
	return all
}
