package trail

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// funnelText writes the steps of all users, how long they took, then groups and buckets.
func funnelText(q *query.Funnel, f *query.FunnelAnswer) string {
	if len(f.Steps) == 0 {
		return ""
	}
	timed := q.Times != query.NoTimes
	var t show.Table
	t.Text("STEP")
	t.Figures("USERS", "OF FIRST", "OF PREVIOUS")
	if timed {
		t.Figures("MEDIAN", "P90")
	}
	t.Text("")
	first := f.Steps[0].Users
	for i, s := range f.Steps {
		previous := ""
		if i > 0 {
			previous = ratio(s.Users, f.Steps[i-1].Users)
		}
		cells := []string{stepName(i, s), number(s.Users), ratio(s.Users, first), previous}
		if timed {
			cells = append(cells, timeCells(s)...)
		}
		t.Row(append(cells, show.Bar(float64(s.Users.N), float64(first.N)))...)
	}
	parts := []string{t.String()}
	for i, s := range f.Steps {
		if s.Time == nil || len(s.Time.Histogram) == 0 {
			continue
		}
		from := i - 1
		if q.Times == query.FromFirst {
			from = 0
		}
		parts = append(parts, histogramText(stepName(from, f.Steps[from])+" → "+stepName(i, s), s.Time))
	}
	if len(f.By) > 0 {
		parts = append(parts, groupsText(f, timed))
	}
	if f.Trend != nil {
		parts = append(parts, trendText(f))
	}
	return strings.Join(parts, "\n")
}

func stepName(i int, s query.FunnelStep) string { return strconv.Itoa(i+1) + " " + s.Event }

// timeCells are the median and the p90 of a step.
func timeCells(s query.FunnelStep) []string {
	if s.Time == nil {
		return []string{"", ""}
	}
	const ms = time.Millisecond
	return []string{taken(time.Duration(s.Time.Median) * ms), taken(time.Duration(s.Time.P90) * ms)}
}

// histogramText has a line for each bucket of the time of a step. Empty buckets that
// follow each other share one.
func histogramText(name string, st *query.StepTime) string {
	var t show.Table
	t.Text(name)
	t.Figures("USERS")
	t.Text("")
	var most int64
	for _, b := range st.Histogram {
		most = max(most, b.Users.N)
	}
	from := beginOf(st.Histogram[0])
	for i, b := range st.Histogram {
		if b.Users.N == 0 && i+1 < len(st.Histogram) && st.Histogram[i+1].Users.N == 0 {
			continue
		}
		text := fmt.Sprintf("%s to %s", taken(from), taken(b.Below))
		switch {
		case b.Below == 0:
			text = taken(from) + " or more"
		case from == 0:
			text = "less than " + taken(b.Below)
		}
		t.Row(text, number(b.Users), show.Bar(float64(b.Users.N), float64(most)))
		from = b.Below
	}
	return t.String()
}

// beginOf returns the bound of the bucket before one.
func beginOf(b query.TimeBucket) (from time.Duration) {
	for _, bound := range query.TimeBounds() {
		if b.Below == 0 || bound < b.Below {
			from = bound
		}
	}
	return from
}

// stepHeads adds the columns of stepCells.
func stepHeads(t *show.Table, steps []query.FunnelStep, timed bool) {
	for i, s := range steps {
		t.Figures(stepName(i, s))
		if i > 0 {
			t.Figures("OF FIRST")
		}
		if i > 0 && timed {
			t.Figures("MEDIAN", "P90")
		}
	}
}

// stepCells are the steps of a group or bucket in one line.
func stepCells(steps []query.FunnelStep, timed bool) []string {
	var cells []string
	for i, s := range steps {
		cells = append(cells, number(s.Users))
		if i > 0 {
			cells = append(cells, ratio(s.Users, steps[0].Users))
		}
		if i > 0 && timed {
			cells = append(cells, timeCells(s)...)
		}
	}
	return cells
}

// groupsText has a line for each group.
func groupsText(f *query.FunnelAnswer, timed bool) string {
	var t show.Table
	byHeads(&t, f.By)
	stepHeads(&t, f.Steps, timed)
	for _, g := range f.Groups {
		t.Row(append(groupCells(f.By, g.Values, g.Other), stepCells(g.Steps, timed)...)...)
	}
	return t.String()
}

// trendText has a line for each bucket, with a bar of the share that reached the last
// step. The longest bar is the largest share.
func trendText(f *query.FunnelAnswer) string {
	var t show.Table
	t.Text("TIME")
	stepHeads(&t, f.Steps, false)
	t.Text("")
	share := func(b query.FunnelBucket) float64 {
		if len(b.Steps) < 2 || b.Steps[0].Users.N == 0 {
			return 0
		}
		return float64(b.Steps[len(b.Steps)-1].Users.N) / float64(b.Steps[0].Users.N)
	}
	best := 0.0
	for _, b := range f.Trend {
		best = max(best, share(b))
	}
	for _, b := range f.Trend {
		t.Row(append(append([]string{b.Bucket}, stepCells(b.Steps, false)...), show.Bar(share(b), best))...)
	}
	return t.String()
}
