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
	Machine  machine.Facts     `json:"machine"`
	Events   int               `json:"events"`
	Rounds   int               `json:"rounds"`
	Shards   int               `json:"shards"`
	Ways     []wayFigures      `json:"ways"`
	Streams  []streamFigures   `json:"streams"`
	Snapshot []snapshotFigures `json:"snapshot"`
	Lessons  []lessonFigures   `json:"lessons"`
}

// A lessonFigures is a lesson in a line.
type lessonFigures struct {
	Lesson  string  `json:"lesson"`
	Unit    string  `json:"unit"`
	Naive   float64 `json:"naive"`
	Ours    float64 `json:"ours"`
	Factor  float64 `json:"factor"`
	Article string  `json:"article"` // the factor that the founding article found, and of what
}

func (f *figures) way(lesson, way string) *wayFigures {
	for i := range f.Ways {
		if w := &f.Ways[i]; w.Lesson == lesson && w.Way == way {
			return w
		}
	}
	return nil
}

// judge makes the lines of the lessons. Only the ratios are to be compared with the
// article, whose figures are seconds of one slow question on other machines.
func (f *figures) judge() {
	add := func(lesson, unit string, naive, ours float64, article string) {
		l := lessonFigures{Lesson: lesson, Unit: unit, Naive: naive, Ours: ours, Article: article}
		if ours > 0 && naive > 0 {
			l.Factor = naive / ours
		}
		f.Lessons = append(f.Lessons, l)
	}
	of := func(lesson, ours, title, article string, more bool) {
		n, o := f.way(lesson, wayNaive), f.way(lesson, ours)
		if n == nil || o == nil {
			return
		}
		add(title, "ns/event", n.NS, o.NS, article)
		if more {
			add(title+": allocations", "", n.Allocs, o.Allocs, "")
		}
	}
	of(lessonExists, wayOurs, "exists: codes for strings", "1.3 x (13.5 → 10.5 s)", false)
	of(lessonCursor, wayLent, "cursor: lent rows for copied ones", "2.0 x (8.5 → 4.2 s)", true)
	of(lessonCursor, wayOurs, "cursor: columns for copied rows", "", true)
	for i := range f.Streams {
		each := &f.Streams[i]
		for k := range f.Streams {
			one := &f.Streams[k]
			if each.Streams == f.Shards && one.Nodes > 1 && one != each && one.Question == each.Question && one.Clients == each.Clients {
				article := ""
				if one.Clients > 1 && one.Question == streamQuestions()[0].name {
					article = "2.3 x (14.7 → 6.4 s)"
				}
				title := fmt.Sprintf("streams: of nodes for shards; %s, %s", one.Question, clients(one.Clients))
				add(title, "ms", each.MS, one.MS, article)
				add(title+": bytes", "", each.Bytes, one.Bytes, "")
			}
		}
	}
	for i := range f.Snapshot {
		naive, ours := &f.Snapshot[i], &f.Snapshot[len(f.Snapshot)-1]
		if naive == ours {
			continue
		}
		add("snapshot for "+naive.Way+": p99", "ms", naive.P99, ours.P99, "2.6 x (19.9 → 7.6 s)")
		add("snapshot for "+naive.Way+": time a question", "ms", 1e3/naive.PerSecond, 1e3/ours.PerSecond, "")
	}
	of(lessonSample, wayOurs, "sample: a range for a filter", "1.3 x (13.5 → 10.5 s)", false)
	if n, o := f.way(lessonSample, wayNaive), f.way(lessonSample, wayOurs); n != nil && o != nil {
		add("sample: bytes read", "", n.Read, o.Read, "")
	}
}

// print prints the lessons, then what is behind them.
func (f *figures) print(w io.Writer) error {
	fmt.Fprintf(w, "\n%s events of the ecom shape; medians of %d rounds; factors are naive ÷ ours\n\n", show.Thousands(int64(f.Events)), f.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "lesson\tnaive\tours\tfactor\tthe article's\t")
	for i := range f.Lessons {
		l := &f.Lessons[i]
		factor := "–"
		if l.Factor > 0 {
			factor = show.Short(l.Factor) + " x"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t\n", l.Lesson, amount(l.Naive, l.Unit), amount(l.Ours, l.Unit), factor, l.Article)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, part := range []func(io.Writer) error{f.printWays, f.printStreams, f.printSnapshot} {
		if err := part(w); err != nil {
			return err
		}
	}
	return nil
}

func (f *figures) printWays(w io.Writer) error {
	if len(f.Ways) == 0 {
		return nil
	}
	fmt.Fprint(w, "\nOn one core, for all events once\n\n")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "lesson\tway\tms\tns/event\tallocations\tbytes allocated\tbytes read\t")
	for i := range f.Ways {
		y := &f.Ways[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", y.Lesson, y.Way, show.Short(y.MS), show.Short(y.NS), show.Thousands(int64(y.Allocs)), show.Thousands(int64(y.Bytes)), show.Thousands(int64(y.Read)))
	}
	return t.Flush()
}

func (f *figures) printStreams(w io.Writer) error {
	if len(f.Streams) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%d shards on data nodes that are gRPC servers of this process, over TCP; by question\n\n", f.Shards)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "question\tclients\tnodes\tstreams\tms\tbytes sent and received\t")
	for i := range f.Streams {
		s := &f.Streams[i]
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%s\t%s\t\n", s.Question, s.Clients, s.Nodes, s.Streams, show.Short(s.MS), show.Thousands(int64(s.Bytes)))
	}
	return t.Flush()
}

func (f *figures) printSnapshot(w io.Writer) error {
	if len(f.Snapshot) == 0 {
		return nil
	}
	fmt.Fprintf(w, "\n%d askers of a small question, beside constant flushing; the profile is of a run of its own\n\n", askers)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "metadata\tquestions/s\tp50 ms\tp99 ms\tflushes/s\tµs a question waits for locks\tcontentions of questions in the mutex profile\t")
	for i := range f.Snapshot {
		s := &f.Snapshot[i]
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Way, show.Thousands(int64(s.PerSecond)), show.Short(s.P50), show.Short(s.P99), show.Short(s.Flushes), show.Short(s.Waits), show.Thousands(int64(s.Contended)))
	}
	return t.Flush()
}

func clients(n int) string {
	if n == 1 {
		return "1 client"
	}
	return strconv.Itoa(n) + " clients"
}

// amount shows a figure with its unit.
func amount(v float64, unit string) string {
	if unit == "" {
		return show.Thousands(int64(v))
	}
	return show.Short(v) + " " + unit
}
