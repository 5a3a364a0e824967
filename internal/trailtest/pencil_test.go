package trailtest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A pencil case is small enough to be worked out on paper. Each line of events is
// a user and the user's events: name@time, where the time counts from Monday
// 2026-01-05T00:00:00Z, in seconds or with a unit (m, h, d), then {property=value}.
type pencil struct {
	name   string
	events string
	ask    string // a query document
	want   string // see show
}

// pencilSchema returns the properties that pencil cases use.
func pencilSchema() event.Schema {
	return event.Schema{
		{Name: "c", Type: event.String},
		{Name: "i", Type: event.Int},
		{Name: "f", Type: event.Float},
		{Name: "b", Type: event.Bool},
	}
}

func runPencils(t *testing.T, cases []pencil) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			events := parsePencil(t, c.events)
			q, err := query.Parse("ask", []byte(c.ask))
			if err != nil {
				t.Fatal(err)
			}
			cohorts := map[string][]uint64{"first": {event.Hash("u1")}}
			a, err := Answer(events, pencilSchema(), q, cohorts)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(a, events); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func parsePencil(t *testing.T, text string) []event.Event {
	t.Helper()
	var events []event.Event
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		for _, word := range words[1:] {
			word, id, _ := strings.Cut(word, "#")
			word, facts, _ := strings.Cut(strings.TrimSuffix(word, "}"), "{")
			name, at, _ := strings.Cut(word, "@")
			e := event.Event{User: words[0], Time: firstSecond*1000 + pencilTime(t, at), Name: name, ID: id}
			for fact := range strings.SplitSeq(facts, ",") {
				if name, value, ok := strings.Cut(fact, "="); ok {
					e.Properties = append(e.Properties, event.Property{Name: name, Value: pencilValue(t, name, value)})
				}
			}
			events = append(events, e)
		}
	}
	return events
}

func pencilTime(t *testing.T, text string) int64 {
	t.Helper()
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil {
			t.Fatal(err)
		}
		return int64(n * day)
	}
	if !strings.ContainsAny(text, "smh") {
		text += "s"
	}
	at, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return at.Milliseconds()
}

func pencilValue(t *testing.T, name, text string) event.Value {
	t.Helper()
	var err error
	var v event.Value
	switch pencilSchema().Type(name) {
	case event.Int:
		var i int64
		i, err = strconv.ParseInt(text, 10, 64)
		v = event.IntOf(i)
	case event.Float:
		var f float64
		f, err = strconv.ParseFloat(text, 64)
		v = event.FloatOf(f)
	case event.Bool:
		v = event.BoolOf(text == "true")
	default:
		v = event.StringOf(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// show writes an answer short: the users of the steps of a funnel, then of its groups
// and buckets, each step with its times as users~median/p90[below:users …]; cohorts as
// start size: periods; the rows of a segment; the names of the users of a cohort; paths
// with users.
func show(a *query.Answer, events []event.Event) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	switch {
	case a.Funnel != nil:
		add("%s", showSteps(a.Funnel.Steps))
		for _, g := range a.Funnel.Groups {
			add("%s %s", showGroup(g.Values, g.Other), showSteps(g.Steps))
		}
		for _, b := range a.Funnel.Trend {
			add("%s: %s", b.Bucket, showSteps(b.Steps))
		}
	case a.Retention != nil:
		for _, c := range a.Retention.Cohorts {
			var ns []string
			for _, p := range c.Periods {
				ns = append(ns, fmt.Sprint(p.N))
			}
			add("%s %d: %s", c.Start, c.Size.N, strings.Join(ns, " "))
		}
	case a.Segment != nil:
		for _, r := range a.Segment.Rows {
			line := r.Bucket
			if group := showGroup(r.Group, r.Other); group != "" {
				line += " " + group
			}
			switch r.Value.Type {
			case event.Int:
				line += fmt.Sprintf(" %d", r.Value.Int)
			case event.Float:
				line += fmt.Sprintf(" %.4g", r.Value.Float)
			default:
				line += " null"
			}
			add("%s", strings.TrimSpace(line))
		}
	case a.Cohort != nil:
		in := map[uint64]bool{}
		for _, u := range a.Cohort.Found {
			in[u.Hash] = true
		}
		for _, e := range events {
			if in[event.Hash(e.User)] {
				delete(in, event.Hash(e.User))
				add("%s", e.User)
			}
		}
	case a.Paths != nil:
		for _, p := range a.Paths.Paths {
			add("%s %d", strings.Join(p.Path, ">"), p.Users.N)
		}
	}
	return strings.Join(parts, "; ")
}

func showSteps(list []query.FunnelStep) string {
	var steps []string
	for _, s := range list {
		step := fmt.Sprint(s.Users.N)
		if s.Time != nil {
			var buckets []string
			for _, b := range s.Time.Histogram {
				buckets = append(buckets, fmt.Sprintf("%v:%d", b.Below, b.Users.N))
			}
			step += fmt.Sprintf("~%d/%d[%s]", s.Time.Median, s.Time.P90, strings.Join(buckets, " "))
		}
		steps = append(steps, step)
	}
	return strings.Join(steps, " ")
}

func showGroup(values []event.Value, other bool) string {
	if other {
		return "other"
	}
	var group []string
	for _, v := range values {
		group = append(group, fmt.Sprintf("%q", v.String()))
	}
	return strings.Join(group, " ")
}
