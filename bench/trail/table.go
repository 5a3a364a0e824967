package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"

	"github.com/uniflow-labs/uniflow/bench/machine"
	"github.com/uniflow-labs/uniflow/bench/show"
)

// A figures is all that was measured.
type figures struct {
	Machine machine.Facts  `json:"machine"`
	Shape   string         `json:"shape"`
	Seed    uint64         `json:"seed"`
	Rounds  int            `json:"rounds"`
	Made    made           `json:"made"`
	Queries []queryFigures `json:"queries"`
	Storms  []stormFigures `json:"concurrent"`
	Targets []target       `json:"targets"`
	Notes   []string       `json:"notes"`
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

// print prints tables of all that was measured.
func (f *figures) print(w io.Writer) error {
	for _, part := range []func(io.Writer) error{f.printMade, f.printTimes, f.printReading, f.printStorms, f.printTargets} {
		if err := part(w); err != nil {
			return err
		}
	}
	for i := range f.Queries {
		q := &f.Queries[i]
		if q.Rounds < f.Rounds {
			fmt.Fprintf(w, "\nnote: %s: %d rounds alone, since one takes long", q.Name, q.Rounds)
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

// disturbed is how many times the median a round takes that says more about the
// machine than about what was asked.
const disturbed = 2

func (f *figures) printMade(w io.Writer) error {
	p := f.Made.Parquet
	fmt.Fprintf(w, "\n%s events of the %s shape, of %s users; as Parquet %s MB, %.2f bytes an event\n\n",
		show.Thousands(p.Events), f.Shape, show.Thousands(p.Users), megabytes(p.Bytes), float64(p.Bytes)/float64(max(p.Events, 1)))
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "from Parquet to\tMB on disk\tB/event\tloading s\tevents/s\tmemory MB\tresident, no file MB\t")
	if i := f.Made.Import; i != nil {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.1f\t%s\t%s\t%s\t\n", engineTrail, megabytes(i.Bytes), i.PerEvent, i.Seconds, show.Thousands(int64(i.PerSecond)), megabytes(i.Peak.Heap), megabytes(i.Peak.Anon))
	}
	if d := f.Made.Load; d != nil {
		fmt.Fprintf(t, "%s\t%s\t%.2f\t%.1f\t%s\t%s\t\t\n", engineDuck, megabytes(d.Bytes), d.PerEvent, d.Seconds, show.Thousands(int64(d.PerSecond)), megabytes(d.PeakRSS))
	}
	return t.Flush()
}

// printTimes prints how long questions took.
func (f *figures) printTimes(w io.Writer) error {
	if len(f.Queries) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nMilliseconds, median (least to most) of %d rounds; cold is the first question after the files were dropped from memory\n\n", f.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "question\t")
	arms := f.Queries[0].Arms
	for i := range arms {
		fmt.Fprintf(t, "%s, %s\t", arms[i].Engine, processors(arms[i].Cores))
	}
	duck := f.Queries[0].arm(engineDuck, cores) != nil
	if duck {
		fmt.Fprintf(t, "%s ÷ %s\ton one\t", engineDuck, engineTrail)
	}
	for i := range arms {
		if arms[i].cold {
			fmt.Fprintf(t, "%s, cold\t", arms[i].Engine)
		}
	}
	fmt.Fprintln(t)
	for i := range f.Queries {
		q := &f.Queries[i]
		fmt.Fprintf(t, "%s\t", q.Name)
		for k := range q.Arms {
			fmt.Fprintf(t, "%s (%s to %s)\t", show.Short(q.Arms[k].Median), show.Short(q.Arms[k].Min), show.Short(q.Arms[k].Max))
		}
		for _, n := range []int{cores, 1} {
			if duck {
				fmt.Fprintf(t, "%s x\t", show.Short(q.arm(engineDuck, n).Median/q.arm(engineTrail, n).Median))
			}
		}
		for k := range q.Arms {
			if q.Arms[k].cold {
				fmt.Fprintf(t, "%s\t", cold(q.Arms[k].Cold))
			}
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// printReading prints what questions read and needed.
func (f *figures) printReading(w io.Writer) error {
	if len(f.Queries) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nOf %s, by event that is stored; memory is the heap beyond that of an open store, at most; in brackets what was resident and of no file\n\n", engineTrail)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "question\tns/event, two\tns/event, one\tevents read\tMB read\tB/event read\tGB/s\tmemory MB\t")
	if f.Queries[0].arm(engineDuck, cores) != nil {
		fmt.Fprintf(t, "%s, resident MB\t", engineDuck)
	}
	fmt.Fprintln(t)
	events := float64(f.Made.Parquet.Events)
	for i := range f.Queries {
		q := &f.Queries[i]
		two, one := q.arm(engineTrail, cores), q.arm(engineTrail, 1)
		fmt.Fprintf(t, "%s\t%.2f\t%.2f\t%s\t%s\t%.2f\t%s\t%s (%s)\t", q.Name, two.Median*1e6/events, one.Median*1e6/events,
			show.Thousands(q.EventsRead), megabytes(q.BytesRead), float64(q.BytesRead)/events, show.Short(float64(q.BytesRead)/(two.Median*1e6)), megabytes(q.Memory), megabytes(q.Anon))
		if d := q.arm(engineDuck, cores); d != nil {
			fmt.Fprintf(t, "%s\t", megabytes(d.RSS))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func (f *figures) printStorms(w io.Writer) error {
	if len(f.Storms) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nMany clients at once, each asking one question after the other, mixed\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "clients\t\tquestions\tp50 ms\tp95 ms\tquestions/s\tmemory MB\t")
	for _, s := range f.Storms {
		held := ""
		if s.Memory > 0 {
			held = megabytes(s.Memory)
		}
		fmt.Fprintf(t, "%d\t%s\t%d\t%s\t%s\t%s\t%s\t\n", s.Clients, s.Engine, s.Queries, show.Short(s.P50), show.Short(s.P95), show.Short(s.PerSecond), held)
	}
	return t.Flush()
}

func (f *figures) printTargets(w io.Writer) error {
	if len(f.Targets) == 0 {
		return nil
	}
	fmt.Fprintln(w)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "target\twant\tgot\t")
	for i := range f.Targets {
		g := &f.Targets[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", g.Name, g.Want, g.Got, g.verdict())
	}
	return t.Flush()
}

func processors(n int) string {
	if n == 1 {
		return "1 core"
	}
	return strconv.Itoa(n) + " cores"
}

func cold(ms float64) string {
	if ms == 0 {
		return "–"
	}
	return show.Short(ms)
}

func megabytes(n int64) string { return show.Short(float64(n) / 1e6) }

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
