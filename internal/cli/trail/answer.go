package trail

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// answerText writes an answer as text. What the answer lacks, such as the length of a
// period, comes from the query.
func answerText(q *query.Query, a *query.Answer) string {
	switch {
	case a.Funnel != nil:
		return funnelText(q.Funnel, a.Funnel)
	case a.Retention != nil:
		return retentionText(q.Retention, a)
	case a.Segment != nil:
		return segmentText(q.Segment, a.Segment)
	case a.Cohort != nil:
		return cohortText(q, a.Cohort)
	case a.Paths != nil:
		return pathsText(a.Paths)
	}
	return ""
}

// retentionText writes a triangle: the share of each cohort that came back. A period that
// begins after the last event for all users is empty. One that ends after it for some
// users has a star.
func retentionText(r *query.Retention, a *query.Answer) string {
	var t show.Table
	t.Text("COHORT")
	t.Figures("USERS")
	for k := range r.Periods {
		t.Figures(periodName(r.Every, k))
	}
	var rows [][]string
	starred := false
	for _, c := range a.Retention.Cohorts {
		cells := []string{c.Start, number(c.Size)}
		for k, p := range c.Periods {
			cell := wholeRatio(p, c.Size)
			if a.Stats.HasThrough {
				switch periodState(r, c.Start, k, a.Stats.Through) {
				case periodAhead:
					if p.N == 0 {
						cell = ""
					}
				case periodRunning:
					cell += "*"
					starred = true
				case periodOver:
					cell += " " // where others have a star
				}
			}
			cells = append(cells, cell)
		}
		rows = append(rows, cells)
	}
	for _, cells := range rows {
		for i := range cells {
			if !starred {
				cells[i] = strings.TrimRight(cells[i], " ")
			}
		}
		t.Row(cells...)
	}
	text := t.String()
	if starred {
		text += "* not over when the events end, " + event.Time(a.Stats.Through).Format("2006-01-02 15:04 MST") + "\n"
	}
	return text
}

// periodName heads the column of a period, counted from 0.
func periodName(e query.Every, k int) string {
	const day = 24 * time.Hour
	unit := "P"
	switch {
	case e.Unit == query.Minute:
		unit = "MIN "
	case e.Unit == query.Hour, e.Elapsed == time.Hour:
		unit = "HOUR "
	case e.Unit == query.Day, e.Elapsed == day:
		unit = "DAY "
	case e.Unit == query.Week, e.Unit == query.WeekSunday, e.Elapsed == 7*day:
		unit = "WEEK "
	case e.Unit == query.Month:
		unit = "MONTH "
	}
	return unit + strconv.Itoa(k)
}

// wholeRatio is ratio without decimals, for wide tables.
func wholeRatio(part, whole query.Number) string {
	if whole.N <= 0 {
		return "-"
	}
	if part.N == 0 {
		return "0 %"
	}
	return show.WholePercent(float64(part.N) / float64(whole.N))
}

// The states of a period of a cohort at the time of the last event.
const (
	periodOver    = iota // for all users of the cohort
	periodRunning        // for some
	periodAhead          // not begun for any user
)

// periodState returns the state of period k of a cohort.
func periodState(r *query.Retention, start string, k int, through int64) int {
	zone := cmp.Or(r.Zone, time.UTC)
	begin, err := time.ParseInLocation(time.DateOnly, start, zone)
	if err != nil {
		return periodOver // the name of the cohort is not a date
	}
	end := addUnits(begin, r.Cohort, 1) // users of the cohort started from begin to end
	last := time.UnixMilli(through)
	if r.HasFrom && time.UnixMilli(r.From).After(begin) {
		begin = time.UnixMilli(r.From)
	}
	if r.HasTo && time.UnixMilli(r.To).Before(end) {
		end = time.UnixMilli(r.To)
	}
	if last.Before(end) {
		end = last // no user has started later
	}
	user := end.Add(-time.Millisecond) // the last possible start
	over := periodBegin(r.Every, zone, user, k+1)
	// The last event is not exactly at the end of the period: a hundredth of a period
	// without events at the end is normal.
	slack := over.Sub(periodBegin(r.Every, zone, user, k)) / 100
	switch {
	case last.Before(periodBegin(r.Every, zone, begin, k)):
		return periodAhead
	case last.Add(slack).Before(over):
		return periodRunning
	}
	return periodOver
}

// periodBegin is when period k begins for a user who started at t.
func periodBegin(e query.Every, zone *time.Location, t time.Time, k int) time.Time {
	if e.Unit == query.NoUnit {
		return t.Add(time.Duration(k) * e.Elapsed)
	}
	t = t.In(zone)
	y, m, d := t.Date()
	switch e.Unit {
	case query.Minute, query.Hour:
		unit := time.Minute
		if e.Unit == query.Hour {
			unit = time.Hour
		}
		return t.Truncate(unit).Add(time.Duration(k) * unit)
	case query.Week:
		d -= (int(t.Weekday()) + 6) % 7
	case query.WeekSunday:
		d -= int(t.Weekday())
	case query.Month:
		d = 1
	}
	if k == 0 {
		return time.Date(y, m, d, 0, 0, 0, 0, zone) // which may be before t
	}
	return addUnits(time.Date(y, m, d, 0, 0, 0, 0, zone), e.Unit, k)
}

// addUnits adds days, weeks or months of the calendar.
func addUnits(t time.Time, unit query.Unit, n int) time.Time {
	switch unit {
	case query.Month:
		return t.AddDate(0, n, 0)
	case query.Week, query.WeekSunday:
		return t.AddDate(0, 0, 7*n)
	}
	return t.AddDate(0, 0, n)
}

// maxPivot bounds the groups that are shown as columns.
const maxPivot = 8

func segmentText(q *query.Segment, s *query.SegmentAnswer) string {
	if groups, ok := pivotGroups(s); ok {
		return pivotText(s, groups)
	}
	var t show.Table
	if s.Bucketed {
		t.Text("TIME")
	}
	byHeads(&t, s.By)
	t.Figures(measureName(q.Measure))
	t.Text("")
	most := 0.0
	for _, r := range s.Rows {
		most = max(most, amount(r.Value))
	}
	for _, r := range s.Rows {
		var cells []string
		if s.Bucketed {
			cells = append(cells, r.Bucket)
		}
		cells = append(cells, groupCells(s.By, r.Group, r.Other)...)
		drawn := ""
		if len(s.Rows) > 1 {
			drawn = show.Bar(amount(r.Value), most)
		}
		t.Row(append(cells, measured(r.Value), drawn)...)
	}
	return t.String()
}

// A column is a group that is shown as a column; of other, value is empty.
type column struct {
	value event.Value
	other bool
}

func columnOf(r query.SegmentRow) column {
	if r.Other {
		return column{other: true}
	}
	return column{value: r.Group[0]}
}

// pivotGroups returns the groups of an answer by time and one property, the
// largest first and the others last, if they are few enough for columns.
func pivotGroups(s *query.SegmentAnswer) (groups []column, ok bool) {
	if !s.Bucketed || len(s.By) != 1 {
		return nil, false
	}
	sums := make(map[column]float64)
	for _, r := range s.Rows {
		c := columnOf(r)
		if _, seen := sums[c]; !seen {
			groups = append(groups, c)
		}
		sums[c] += amount(r.Value)
	}
	slices.SortStableFunc(groups, func(a, b column) int {
		if a.other != b.other {
			return map[bool]int{true: 1, false: -1}[a.other]
		}
		return cmp.Or(cmp.Compare(sums[b], sums[a]), strings.Compare(a.value.String(), b.value.String()))
	})
	return groups, len(groups) > 1 && len(groups) <= maxPivot
}

// pivotText has a line for each bucket and a column for each group.
func pivotText(s *query.SegmentAnswer, groups []column) string {
	var t show.Table
	t.Text("TIME")
	for _, g := range groups {
		if g.other {
			t.Figures(others)
		} else {
			t.Figures(shown(g.value))
		}
	}
	var cells []string
	for i, r := range s.Rows {
		if i == 0 || r.Bucket != s.Rows[i-1].Bucket {
			cells = slices.Repeat([]string{"-"}, 1+len(groups))
			cells[0] = r.Bucket
			t.Row(cells...)
		}
		cells[1+slices.Index(groups, columnOf(r))] = measured(r.Value)
	}
	return t.String()
}

// measureName heads the column of a measure.
func measureName(m query.Measure) string {
	switch m.Kind {
	case query.Count:
		return "COUNT"
	case query.Users:
		return "USERS"
	case query.Sum:
		return "SUM OF " + strings.ToUpper(m.Property)
	case query.Avg:
		return "AVERAGE " + strings.ToUpper(m.Property)
	case query.Min:
		return "MIN " + strings.ToUpper(m.Property)
	case query.Max:
		return "MAX " + strings.ToUpper(m.Property)
	}
	return fmt.Sprintf("P%d OF %s", m.Percentile, strings.ToUpper(m.Property))
}

// cohortText writes how many users a cohort has, or which of a question were selected.
func cohortText(q *query.Query, c *query.CohortAnswer) string {
	head, who := "COHORT", cmp.Or(c.Name, "-")
	if q.Users != nil {
		head, who = "WHO", selectedWho(q)
	}
	var t show.Table
	t.Text(head)
	t.Figures("USERS")
	t.Row(who, number(c.Users))
	return t.String()
}

// selectedWho says which users of a question were selected.
func selectedWho(q *query.Query) string {
	s := q.Users
	var who, by []string
	switch {
	case q.Funnel != nil:
		by = q.Funnel.By
		step := func(n int) string { return fmt.Sprintf("step %d %s", n, strings.Join(q.Funnel.Steps[n-1].Events, "|")) }
		text := "reached " + step(s.Step)
		if s.Dropped && s.Step < len(q.Funnel.Steps) {
			text += ", not " + step(s.Step+1)
		}
		who = append(who, text)
	case q.Retention != nil:
		text := "cohort " + s.Cohort
		if s.HasPeriod {
			text += fmt.Sprintf(", back in %s", strings.ToLower(periodName(q.Retention.Every, s.Period)))
		}
		who = append(who, text)
	case q.Segment != nil:
		by = q.Segment.By
		text := "any event"
		if len(q.Segment.Events) > 0 {
			text = strings.Join(q.Segment.Events, "|")
		}
		who = append(who, text)
	case q.Paths != nil:
		who = append(who, pathText(s.Path))
	}
	for i, l := range s.Group {
		text := l.Text
		if l.Value.Missing() {
			text = "(missing)"
		}
		who = append(who, by[i]+" "+text)
	}
	if s.Other {
		who = append(who, "other "+strings.Join(by, ", "))
	}
	if s.Bucket != "" {
		who = append(who, s.Bucket)
	}
	return strings.Join(who, "; ")
}

func pathText(events []string) string { return strings.Join(events, " → ") }

func pathsText(p *query.PathsAnswer) string {
	var t show.Table
	t.Figures("USERS")
	t.Text("PATH")
	for _, path := range p.Paths {
		t.Row(number(path.Users), pathText(path.Path))
	}
	return t.String()
}

// statsText says how much was read, and how long that took.
func statsText(s query.Stats) string {
	text := fmt.Sprintf("read %s events (%s) in %s", show.Thousands(s.EventsRead), show.Bytes(s.BytesRead), show.Duration(time.Duration(s.ElapsedUS)*time.Microsecond))
	if s.Sample > 0 && s.Sample < 1 {
		text += fmt.Sprintf("; a sample of %s of the users, scaled to all: ± is the 95 %% confidence interval", show.Percent(s.Sample))
	}
	return text
}
