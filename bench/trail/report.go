package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// figures are all that was measured.
type figures struct {
	Machine program.Facts   `json:"machine"`
	Shape   string          `json:"shape"`
	Seed    uint64          `json:"seed"`
	Rounds  int             `json:"rounds"`
	Made    made            `json:"made"`
	Queries []queryFigures  `json:"queries"`
	Storms  []stormFigures  `json:"concurrent"`
	Targets program.Targets `json:"targets"`
	Notes   []string        `json:"notes"`
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

// The targets. Times are of 20 M events on two processors, hot.
const (
	targetEvents    = 20_000_000
	targetShape     = "ecom"
	funnelLimit     = 60.0 // milliseconds
	retentionLimit  = 75.0
	segmentLimit    = 60.0
	sampleFaster    = 7.0 // times, than all
	bytesLimit      = 8.0 // an event, on disk
	memoryLimit     = 64 << 20
	importLimit     = 300_000.0 // events a second
	funnelFaster    = 10.0      // times, than DuckDB
	retentionFaster = 5.0
)

// judge sets the targets; of another shape, those of importing and memory only.
func (f *figures) judge() {
	ours := f.Shape == targetShape
	share := float64(f.Made.Parquet.Events) / targetEvents
	for _, t := range []struct {
		name  string
		limit float64
	}{{nameFunnel, funnelLimit}, {nameRetention, retentionLimit}, {nameSegment, segmentLimit}} {
		q := f.query(t.name)
		if !ours || q == nil {
			continue
		}
		got := q.arm(engineTrail, cores).Median
		want := fmt.Sprintf("≤ %.3g ms", t.limit*share)
		if share != 1 {
			want += fmt.Sprintf(" (%.0f for 20 M)", t.limit)
		}
		f.Targets.Add(got <= t.limit*share, t.name, want, fmt.Sprintf("%.1f ms", got))
	}
	if full, sample := f.query(nameFunnel), f.query(nameSample); ours && full != nil && sample != nil {
		times := full.arm(engineTrail, cores).Median / sample.arm(engineTrail, cores).Median
		f.Targets.Add(times >= sampleFaster, "10 % sample, faster than all", fmt.Sprintf("≥ %.0f x", sampleFaster), fmt.Sprintf("%.1f x", times))
	}
	if i := f.Made.Import; i != nil {
		if ours {
			f.Targets.Add(i.PerEvent <= bytesLimit, "bytes an event on disk", fmt.Sprintf("≤ %.0f", bytesLimit), fmt.Sprintf("%.2f", i.PerEvent))
		}
		f.Targets.Add(i.PerSecond >= importLimit, "import, events/s", "≥ "+show.Thousands(importLimit), show.Thousands(int64(i.PerSecond)))
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
	for _, t := range []struct {
		name  string
		times float64
	}{{nameFunnel, funnelFaster}, {nameRetention, retentionFaster}} {
		q := f.query(t.name)
		if !ours || q == nil || q.arm(engineDuck, cores) == nil {
			continue
		}
		got := q.arm(engineDuck, cores).Median / q.arm(engineTrail, cores).Median
		f.Targets.Add(got >= t.times, t.name+", faster than DuckDB", fmt.Sprintf("≥ %.0f x", t.times), fmt.Sprintf("%.1f x", got))
	}
}

func (f *figures) print(w io.Writer) error {
	for _, part := range []func(io.Writer) error{f.printMade, f.printTimes, f.printReading, f.printStorms, f.Targets.Print} {
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
	if i := f.Made.Import; i != nil {
		t.Row(engineTrail, megabytes(i.Bytes), show.Short(i.PerEvent), show.Short(i.Seconds), show.Thousands(int64(i.PerSecond)), megabytes(i.Peak.Heap), megabytes(i.Peak.Anon))
	}
	if d := f.Made.Load; d != nil {
		t.Row(engineDuck, megabytes(d.Bytes), show.Short(d.PerEvent), show.Short(d.Seconds), show.Thousands(int64(d.PerSecond)), megabytes(d.PeakRSS), "")
	}
	p := f.Made.Parquet
	return t.Print(w, fmt.Sprintf("%s events of the %s shape; as Parquet %s MB, %.2f bytes an event",
		show.Thousands(p.Events), f.Shape, megabytes(p.Bytes), float64(p.Bytes)/float64(max(p.Events, 1))))
}

func (f *figures) printTimes(w io.Writer) error {
	var t program.Table
	for i := range f.Queries {
		q := &f.Queries[i]
		titles, row := []any{"question"}, []any{q.Name}
		add := func(title, cell string) { titles, row = append(titles, title), append(row, cell) }
		for k := range q.Arms {
			a := &q.Arms[k]
			add(a.Engine+", "+processors(a.Cores), fmt.Sprintf("%s (%s to %s)", show.Short(a.Median), show.Short(a.Min), show.Short(a.Max)))
		}
		for _, n := range []int{cores, 1} {
			if duck := q.arm(engineDuck, n); duck != nil {
				add(engineDuck+" ÷ "+engineTrail+", "+processors(n), show.Short(duck.Median/q.arm(engineTrail, n).Median)+" x")
			}
		}
		for k := range q.Arms {
			if a := &q.Arms[k]; a.Cold > 0 {
				add(a.Engine+", cold", show.Short(a.Cold))
			}
		}
		if i == 0 {
			t.Row(titles...)
		}
		t.Row(row...)
	}
	return t.Print(w, fmt.Sprintf("Milliseconds, median (least to most) of %d rounds; cold is the first question after the files were dropped from memory", f.Rounds))
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
