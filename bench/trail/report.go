package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// results are all that was measured.
type results struct {
	Machine program.Facts `json:"machine"`
	Shapes  []*figures    `json:"shapes"`
}

// figures are what was measured with one shape of data.
type figures struct {
	Shape    string            `json:"shape"`
	Order    string            `json:"order"`
	Seed     uint64            `json:"seed"`
	Rounds   int               `json:"rounds"`
	Engines  map[string]string `json:"engines"` // the versions of the others
	Made     made              `json:"made"`
	Shuffled *made             `json:"shuffled,omitempty"` // of the same events in another order; imported alone
	Queries  []queryFigures    `json:"queries"`
	Storms   []stormFigures    `json:"concurrent"`
	Targets  program.Targets   `json:"targets"`
	Notes    []string          `json:"notes"`
}

// query returns the figures of a question, nil if it was not asked.
func (f *figures) query(name string) *queryFigures {
	for i := range f.Queries {
		if f.Queries[i].Name == name {
			return &f.Queries[i]
		}
	}
	return nil
}

// The targets, of every shape, hot and on two processors.
const (
	funnelLimit     = 2.2 // nanoseconds an event
	retentionLimit  = 2.2
	segmentLimit    = 2.4
	funnelFaster    = 5.0 // times, than each other engine
	retentionFaster = 5.0
	segmentFaster   = 2.0
	wideFaster      = 1.0         // than DuckDB
	processLimit    = 15.0        // milliseconds that a new process takes longer
	sampleFaster    = 7.0         // times, than all; of ecom
	shuffledLimit   = 2_000_000.0 // events a second
	memoryLimit     = 64 << 20
)

// bytesLimit is of a stored event, by shape.
var bytesLimit = map[string]float64{"ecom": 8, "short": 8.5}

// judge sets the targets.
func (f *figures) judge() {
	events := float64(f.Made.Parquet.Events)
	for _, t := range []struct {
		name          string
		limit, faster float64
	}{{nameFunnel, funnelLimit, funnelFaster}, {nameRetention, retentionLimit, retentionFaster}, {nameRetentionAny, retentionLimit, retentionFaster}, {nameSegment, segmentLimit, segmentFaster}} {
		q := f.query(t.name)
		if q == nil {
			continue
		}
		ours := q.arm(engineTrail, cores).Median
		ns := ours * 1e6 / events
		f.Targets.Add(ns <= t.limit, t.name+", an event", fmt.Sprintf("≤ %.1f ns", t.limit), fmt.Sprintf("%.2f ns", ns))
		for _, engine := range []string{engineDuck, engineHouse} {
			if a := q.arm(engine, cores); a != nil {
				f.Targets.Add(a.Median/ours >= t.faster, t.name+", faster than "+engine, fmt.Sprintf("≥ %.0f x", t.faster), fmt.Sprintf("%.1f x", a.Median/ours))
			}
		}
		if q.Process != nil {
			more := q.Process.Median - ours
			f.Targets.Add(more <= processLimit, t.name+" by a new process", fmt.Sprintf("≤ %.0f ms more", processLimit), fmt.Sprintf("%.1f ms more", more))
		}
	}
	for i := range f.Queries {
		q := &f.Queries[i]
		if a := q.arm(engineDuck, cores); a != nil && strings.HasPrefix(q.Name, nameWide) {
			times := a.Median / q.arm(engineTrail, cores).Median
			f.Targets.Add(times >= wideFaster, q.Name+", faster than "+engineDuck, fmt.Sprintf("≥ %.0f x", wideFaster), fmt.Sprintf("%.2f x", times))
		}
	}
	if full, sample := f.query(nameFunnel), f.query(nameSample); f.Shape == "ecom" && full != nil && sample != nil {
		times := full.arm(engineTrail, cores).Median / sample.arm(engineTrail, cores).Median
		f.Targets.Add(times >= sampleFaster, "10 % sample, faster than all", fmt.Sprintf("≥ %.0f x", sampleFaster), fmt.Sprintf("%.1f x", times))
	}
	if i, limit := f.Made.Import, bytesLimit[f.Shape]; i != nil && limit > 0 {
		f.Targets.Add(i.PerEvent <= limit, "bytes an event on disk", fmt.Sprintf("≤ %.1f", limit), fmt.Sprintf("%.2f", i.PerEvent))
	}
	if s := f.shuffledMade(); s != nil && s.Import != nil {
		got := s.Import.PerSecond
		f.Targets.Add(got >= shuffledLimit, "import of a shuffled file, events/s", "≥ "+show.Thousands(shuffledLimit), show.Thousands(int64(got)))
	}
	var most int64
	var where []string
	for i := range f.Queries {
		q := &f.Queries[i]
		most = max(most, q.Memory)
		if q.Memory > memoryLimit {
			where = append(where, q.Name)
		}
	}
	if len(f.Queries) > 0 {
		got := mib(most)
		if len(where) > 0 {
			got += " (" + strings.Join(where, ", ") + ")"
		}
		f.Targets.Add(most <= memoryLimit, "memory of a query beyond the mapped files", "≤ "+mib(memoryLimit), got)
	}
}

// shuffledMade returns the figures of importing a shuffled file, nil without.
func (f *figures) shuffledMade() *made {
	if f.Order == orderShuffled {
		return &f.Made
	}
	return f.Shuffled
}

func (f *figures) print(w io.Writer) error {
	for _, part := range []func(io.Writer) error{f.printMade, f.printTimes, f.printForms, f.printReading, f.printStorms, f.Targets.Print} {
		if err := part(w); err != nil {
			return err
		}
	}
	for i := range f.Queries {
		q := &f.Queries[i]
		if q.Rounds < f.Rounds {
			fmt.Fprintf(w, "\nnote: %s: only %d rounds, since one takes long", q.Name, q.Rounds)
		}
		for k := range q.Arms {
			if a := &q.Arms[k]; a.Max > disturbed*a.Median {
				fmt.Fprintf(w, "\nnote: %s, %s on %s: one round took %.1f ms; the machine was busy with something else", q.Name, a.Engine, processors(a.Cores), a.Max)
			}
		}
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "\nnote: %s", n)
	}
	_, err := fmt.Fprintln(w)
	return err
}

// disturbed is how many times the median a round takes when the machine was busy
// with something else.
const disturbed = 2

func (f *figures) printMade(w io.Writer) error {
	var t program.Table
	t.Row("from Parquet to", "MB on disk", "B/event", "loading s", "events/s", "memory MB", "resident, no file MB")
	add := func(m *made, suffix string) {
		if i := m.Import; i != nil {
			t.Row(engineTrail+suffix, megabytes(i.Bytes), show.Short(i.PerEvent), show.Short(i.Seconds), show.Thousands(int64(i.PerSecond)), megabytes(i.Peak.Heap), megabytes(i.Peak.Anon))
		}
		for _, engine := range []string{engineDuck, engineHouse} {
			if l := m.Loads[engine]; l != nil {
				t.Row(engine+" "+l.Version+suffix, megabytes(l.Bytes), show.Short(l.PerEvent), show.Short(l.Seconds), show.Thousands(int64(l.PerSecond)), megabytes(l.PeakRSS), "")
			}
		}
	}
	add(&f.Made, ", "+f.Order)
	if f.Shuffled != nil {
		add(f.Shuffled, ", "+orderShuffled)
	}
	p := f.Made.Parquet
	return t.Print(w, fmt.Sprintf("%s events of the %s shape; as Parquet %s MB, %.2f bytes an event",
		show.Thousands(p.Events), f.Shape, megabytes(p.Bytes), float64(p.Bytes)/float64(max(p.Events, 1))))
}

func (f *figures) printTimes(w io.Writer) error {
	var t program.Table
	titles := []any{"question"}
	arms := f.Queries[0].Arms
	for i := range f.Queries {
		if len(f.Queries[i].Arms) > len(arms) {
			arms = f.Queries[i].Arms
		}
	}
	for k := range arms {
		titles = append(titles, arms[k].Engine+", "+processors(arms[k].Cores))
	}
	for k := range arms {
		if a := &arms[k]; a.Engine != engineTrail {
			titles = append(titles, a.Engine+" ÷ "+engineTrail+", "+processors(a.Cores))
		}
	}
	for k := range arms {
		if a := &arms[k]; a.Cold > 0 {
			titles = append(titles, a.Engine+", cold")
		}
	}
	t.Row(append(titles, "new process")...)
	for i := range f.Queries {
		q := &f.Queries[i]
		row := []any{q.Name}
		for k := range arms {
			cell := ""
			if a := q.arm(arms[k].Engine, arms[k].Cores); a != nil {
				cell = a.String()
			}
			row = append(row, cell)
		}
		for k := range arms {
			if arms[k].Engine != engineTrail {
				row = append(row, q.ratio(arms[k].Engine, arms[k].Cores))
			}
		}
		for k := range arms {
			if arms[k].Cold > 0 {
				cell := ""
				if a := q.arm(arms[k].Engine, arms[k].Cores); a != nil {
					cell = show.Short(a.Cold)
				}
				row = append(row, cell)
			}
		}
		cell := ""
		if q.Process != nil {
			cell = q.Process.String()
		}
		t.Row(append(row, cell)...)
	}
	return t.Print(w, fmt.Sprintf("Milliseconds, median (least to most) of %d rounds; cold is the first question after the files were dropped from memory", f.Rounds))
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s to %s)", show.Short(s.Median), show.Short(s.Min), show.Short(s.Max))
}

// ratio returns how many times as long as trail an engine takes, "" without it.
func (f *queryFigures) ratio(engine string, n int) string {
	a := f.arm(engine, n)
	if a == nil {
		return ""
	}
	return show.Short(a.Median/f.arm(engineTrail, n).Median) + " x"
}

// printForms tells the fastest form of each question.
func (f *figures) printForms(w io.Writer) error {
	var t program.Table
	t.Row("question", "engine", "fastest form", "ms, least", "of forms", "slowest, ms")
	for i := range f.Queries {
		q := &f.Queries[i]
		for _, engine := range []string{engineDuck, engineHouse} {
			n, most := 0, 0.0
			var best *formFigures
			for k := range q.Forms {
				form := &q.Forms[k]
				if form.Engine != engine {
					continue
				}
				n, most = n+1, max(most, form.Min)
				if form.Fastest {
					best = form
				}
			}
			if best != nil {
				t.Row(q.Name, engine, best.Form, show.Short(best.Min), n, show.Short(most))
			}
		}
	}
	return t.Print(w, "The forms of SQL, on two processors; trail.json has all of them")
}

// printRatios puts the shapes next to each other.
func (r *results) printRatios(w io.Writer) error {
	var t program.Table
	t.Row("question", "shape", "trail ms", "ns/event", "DuckDB ms", "÷ trail", "ClickHouse ms", "÷ trail")
	for _, name := range []string{nameFunnel, nameRetention, nameRetentionAny, nameSegment, nameExists, nameExistsUsers, nameWide} {
		for _, f := range r.Shapes {
			for i := range f.Queries {
				q := &f.Queries[i]
				if q.Name != name && (name != nameWide || !strings.HasPrefix(q.Name, name)) {
					continue
				}
				ours := q.arm(engineTrail, cores).Median
				row := []any{q.Name, f.Shape, show.Short(ours), show.Short(ours * 1e6 / float64(f.Made.Parquet.Events))}
				for _, engine := range []string{engineDuck, engineHouse} {
					cell := ""
					if a := q.arm(engine, cores); a != nil {
						cell = show.Short(a.Median)
					}
					row = append(row, cell, q.ratio(engine, cores))
				}
				t.Row(row...)
			}
		}
	}
	if err := t.Print(w, "Every shape, hot, on two processors; the others in their fastest form"); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w)
	return err
}

func (f *figures) printReading(w io.Writer) error {
	var t program.Table
	t.Row("question", "ns/event, two", "ns/event, one", "events read", "MB read", "B/event read", "GB/s", "memory MB", engineDuck+", resident MB")
	events := float64(f.Made.Parquet.Events)
	for i := range f.Queries {
		q := &f.Queries[i]
		two, one, duck := q.arm(engineTrail, cores), q.arm(engineTrail, 1), ""
		if d := q.arm(engineDuck, cores); d != nil {
			duck = megabytes(d.RSS)
		}
		t.Row(q.Name, show.Short(two.Median*1e6/events), show.Short(one.Median*1e6/events), show.Thousands(q.EventsRead), megabytes(q.BytesRead),
			show.Short(float64(q.BytesRead)/events), show.Short(float64(q.BytesRead)/(two.Median*1e6)), fmt.Sprintf("%s (%s)", megabytes(q.Memory), megabytes(q.Anon)), duck)
	}
	return t.Print(w, "Of "+engineTrail+", by stored event; memory is the largest heap in addition to that of an open store, in brackets what was resident and not of a file")
}

func (f *figures) printStorms(w io.Writer) error {
	var t program.Table
	t.Row("clients", "", "questions", "p50 ms", "p95 ms", "questions/s", "memory MB")
	for _, s := range f.Storms {
		t.Row(s.Clients, s.Engine, s.Queries, show.Short(s.P50), show.Short(s.P95), show.Short(s.PerSecond), megabytes(s.Memory))
	}
	return t.Print(w, "Many clients concurrently, each asking one question after the other, mixed")
}

func processors(n int) string {
	if n == 1 {
		return "1 core"
	}
	return strconv.Itoa(n) + " cores"
}

func megabytes(n int64) string { return show.Short(float64(n) / 1e6) }

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
