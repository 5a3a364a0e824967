package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
	"github.com/uniflow-labs/uniflow/bench/show"
)

// print prints tables of all that was measured.
func (f *figures) print(w io.Writer) error {
	for _, part := range []func(io.Writer) error{f.printArms, f.printSaturation, f.printIngest, f.printTargets} {
		if err := part(w); err != nil {
			return err
		}
	}
	for _, n := range f.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", n)
	}
	return nil
}

func (f *figures) printArms(w io.Writer) error {
	if len(f.Arms) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%s events/s for %s s, the server answers after %v (%s); linger or interval %v, at most %d a batch;\n",
		show.Thousands(int64(f.Rate)), number(f.Seconds), latency, f.Mode, interval, limit)
	fmt.Fprintf(w, "median%s of %d. Age is that of an event when its batch is answered (arrives)\n\n", f.spread(), f.Reps)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "arm\tload\toffered\taccepted\tdropped\tbefore stop\tafter Close\tdup.\trequests\tmean batch\tage p50 ms\tage p99 ms\tCPU s\tB/event\tallocs/event\tGC\tgoroutines\tcopies\tS1\tS2\t")
	for i := range f.Arms {
		a := &f.Arms[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%.0f\t%.0f (%.0f)\t%.0f (%.0f)\t%s\t%.0f\t%.2f\t%d\t%d\t%s\t%s\t%s\t\n",
			a.Name, a.Load, show.Thousands(a.Offered), show.Thousands(a.Accepted), show.Thousands(a.Dropped),
			f.ranged(a, func(r *arm.Result) float64 { return float64(r.DeliveredBeforeStop) }, whole),
			f.ranged(a, func(r *arm.Result) float64 { return float64(r.Delivered) }, whole),
			show.Thousands(a.Duplicates), show.Thousands(a.Requests), a.MeanBatch, a.AgeP50, a.ArrivalP50, a.AgeP99, a.ArrivalP99,
			f.ranged(a, func(r *arm.Result) float64 { return r.CPU }, hundredths),
			a.BytesPerEvent, a.AllocsPerEvent, a.GC, a.Goroutines, copies(a.CopyShare), sampled(a, a.S1), sampled(a, a.S2))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range f.Arms {
		a := &f.Arms[i]
		if a.Dropped > 0 || a.CloseErr != "" {
			fmt.Fprintf(w, "%s: dropped %s%s\n", a.Name, reasons(a.DroppedBy), said(a.CloseErr))
		}
		if stall := a.most().Stall; stall > disturbed {
			fmt.Fprintf(w, "%s: the machine was busy with something else for %.0f ms, which is in these figures\n", a.Name, stall)
		}
	}
	return nil
}

func (f *figures) printSaturation(w io.Writer) error {
	if len(f.Saturation) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\nAs fast as accepted, by %d goroutines, to a server that answers at once\n\n", producers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "arm\tevents/s\tCPU ns/event\tB/event\tS1\tS2\tsamples\tgoroutines\t")
	for i := range f.Saturation {
		a := &f.Saturation[i]
		fmt.Fprintf(t, "%s\t%s\t%.0f\t%.0f\t%s\t%s\t%d\t%d\t\n", a.Name,
			f.ranged(a, func(r *arm.Result) float64 { return r.PerSecond }, whole),
			a.CPU*1e9/float64(max(a.Accepted, 1)), a.BytesPerEvent, sampled(a, a.S1), sampled(a, a.S2), a.Samples, a.Goroutines)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w, "S1: sellock, acquireSudog, and lock2, of selectgo; S2: selects, channel operations, and waiting for mutexes, of the process")
	return nil
}

func (f *figures) printIngest(w io.Writer) error {
	if len(f.Ingest) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nAdding an event when nothing is sent: nanoseconds per event, of all producers together (least to most)\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "design\tevent\t")
	for _, p := range ingestProducers() {
		fmt.Fprintf(t, "%d\t", p)
	}
	last := ""
	for _, form := range forms() {
		for _, d := range contenders() {
			fmt.Fprintln(t)
			if form.name != last && last != "" {
				fmt.Fprintln(t, "\t\t")
			}
			last = form.name
			fmt.Fprintf(t, "%s\t%s\t", d.name, form.name)
			for _, c := range f.Ingest {
				if c.Design == d.name && c.Event == form.name {
					fmt.Fprintf(t, "%.0f (%.0f to %.0f)\t", c.NS, c.Min, c.Max)
				}
			}
		}
	}
	fmt.Fprintln(t)
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

func (f *figures) spread() string {
	if f.Reps > 1 {
		return " (least to most)"
	}
	return ""
}

// ranged shows a figure, and where there are several how far they are apart.
func (f *figures) ranged(a *figure, of func(*arm.Result) float64, show func(float64) string) string {
	s := show(of(&a.Result))
	if a.Min != nil {
		s += fmt.Sprintf(" (%s to %s)", show(of(a.Min)), show(of(a.Max)))
	}
	return s
}

func whole(v float64) string      { return show.Thousands(int64(v)) }
func hundredths(v float64) string { return strconv.FormatFloat(v, 'f', 2, 64) }
func number(v float64) string     { return strconv.FormatFloat(v, 'f', -1, 64) }
func percent(v float64) string    { return strconv.FormatFloat(100*v, 'f', 1, 64) + " %" }

// disturbed is the stall, in milliseconds, from which on an arm's figures say
// something about the machine: what p99 may be above linger and latency.
const disturbed = float64(ageSlack / time.Millisecond)

// enough is how many samples of a profile a share is shown of.
const enough = 50

// sampled shows a share of a profile.
func sampled(a *figure, share float64) string {
	if a.Samples < enough {
		return "–"
	}
	return percent(share)
}

func copies(share *float64) string {
	if share == nil {
		return "–"
	}
	return percent(*share)
}

// reasons shows why events were dropped, in order.
func reasons(by map[string]int64) string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(by)) {
		parts = append(parts, fmt.Sprintf("%s %s", reason, show.Thousands(by[reason])))
	}
	return strings.Join(parts, ", ")
}
