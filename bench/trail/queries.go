package main

import (
	"fmt"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A shape is a kind of data, and what is asked of it.
type shape struct {
	name    string
	data    func(seed uint64, events int) trailtest.Generator
	queries []question
}

// The questions that targets are about.
const (
	nameFunnel    = "funnel"
	nameRetention = "retention"
	nameSegment   = "segmentation"
	nameExists    = "exists"
	nameSample    = "funnel, 10 % sample"
)

// A question is asked of the store and of DuckDB.
type question struct {
	name   string
	doc    string
	mixed  bool   // many clients ask it concurrently
	memory int64  // budget in bytes; 0 for the default
	full   string // of a sample: the question without
	parsed *query.Query
}

// findShape returns the shape of a name.
func findShape(name string) (shape, bool) {
	for _, s := range shapes() {
		if s.name == name {
			return s, true
		}
	}
	return shape{}, false
}

// large is the budget of a question with a million groups.
const large = 1 << 30

func shapes() []shape {
	return []shape{
		{
			name:    "ecom",
			data:    func(seed uint64, n int) trailtest.Generator { return trailtest.Ecom{Seed: seed, Events: n} },
			queries: questions("view, cart, purchase", "[view, signup]", "view", "campaign", "country", "-(0[1-5]|1.)$", "item", 0),
		},
		{
			name:    "short",
			data:    func(seed uint64, n int) trailtest.Generator { return trailtest.Short{Seed: seed, Events: n} },
			queries: questions("view, cart, purchase", "signup", "open", "item", "country", "-[1-3].*[57]$", "item", 0),
		},
		{
			name:    "skew",
			data:    func(seed uint64, n int) trailtest.Generator { return trailtest.Skew{Seed: seed, Events: n} },
			queries: questions("view, cart, purchase", "signup", "open", "campaign", "country", "-(0[1-5]|1.)$", "page", 0),
		},
		{
			name:    "github",
			data:    func(seed uint64, n int) trailtest.Generator { return trailtest.GitHub{Seed: seed, Events: n} },
			queries: questions("push, pull_request, issue_comment", "[push, create]", "push", "action", "language", "^(c|r).*d$", "repo", large),
		},
		{
			name: "hits",
			data: func(seed uint64, n int) trailtest.Generator { return trailtest.Hits{Seed: seed, Events: n} },
			queries: append(questions("hit, click, leave", "hit", "click", "referrer", "browser", `site1?\d\.`, "url", large), question{
				name: "regular expression, a million values", doc: "segment: {where: {url: {matches: '/(help|docs)/.*[37]$'}}}",
			}),
		},
	}
}

// questions returns those that are asked of every shape. Sorting by user does not
// help with the last three. The budget is for the last.
func questions(steps, start, back, optional, group, pattern, wide string, budget int64) []question {
	funnel := fmt.Sprintf("funnel: {steps: [%s], within: 7d}", steps)
	retention := "retention: {start: %s, return: %s, every: 7d, periods: 8, cohort: week}"
	exists := fmt.Sprintf("where: {%s: exists}", optional)
	return []question{
		{name: nameFunnel, doc: funnel, mixed: true},
		{name: nameRetention, doc: fmt.Sprintf(retention, start, back), mixed: true},
		{name: nameRetention + ", any event", doc: fmt.Sprintf(retention, start, "{}")},
		{name: nameSegment, doc: fmt.Sprintf("segment: {%s, bucket: day, by: [%s]}", exists, group), mixed: true},
		{name: nameExists, doc: fmt.Sprintf("segment: {%s}", exists), mixed: true},
		{name: nameExists + ", users", doc: fmt.Sprintf("segment: {%s, measure: users}", exists)},
		{name: nameSample, doc: "sample: 0.1\n" + funnel, mixed: true, full: nameFunnel},
		{name: "funnel by " + group, doc: fmt.Sprintf("funnel: {steps: [%s], within: 7d, by: %s}", steps, group)},
		{name: "regular expression", doc: fmt.Sprintf("segment: {where: {%s: {matches: '%s'}}, bucket: day}", optional, pattern)},
		{name: "group by " + wide, doc: fmt.Sprintf("segment: {by: [%s]}", wide), memory: budget},
	}
}

// chosen returns the questions that are to be measured, parsed.
func (c *config) chosen() ([]question, error) {
	var all []question
	for _, q := range c.shape.queries {
		if !c.only.MatchString(q.name) {
			continue
		}
		var err error
		if q.parsed, err = query.Parse(q.name, []byte(q.doc)); err != nil {
			return nil, err
		}
		all = append(all, q)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no question matches %s", c.only)
	}
	return all, nil
}
