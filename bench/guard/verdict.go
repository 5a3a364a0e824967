package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// States of rows that are not measured, since a side does not have them, or both have the
// same.
const (
	stateNew    = "new"           // the head has it
	stateGone   = "gone"          // the base has it
	stateNotYet = "not there yet" // neither has
	stateEqual  = "equal binary"  // both have it in programs that are equal to the byte
)

// A row is a benchmark with its result.
type row struct {
	ID      string   `json:"benchmark"`
	Group   string   `json:"group"`
	State   string   `json:"state,omitempty"` // empty if it was measured
	Time    figure   `json:"time"`
	Allocs  figure   `json:"allocs"`
	Bytes   figure   `json:"bytes"`
	Verdict string   `json:"verdict"`
	Failed  bool     `json:"failed"`
	Reasons []string `json:"reasons,omitempty"` // of the failure

	// Unjudged is set where the machine was too noisy to see a change of the limit.
	Unjudged bool       `json:"unjudged,omitempty"`
	Budget   string     `json:"budget,omitempty"` // the reason of the exception
	Blame    []suspects `json:"blame,omitempty"`
	First    *set       `json:"first,omitempty"`
	Second   *set       `json:"second,omitempty"` // nil unless the first looked slower

	rate      bool // times are shown as how many there are in a second
	allowGone bool
}

// suspects are functions to blame for a failure, by one kind of profile.
type suspects struct {
	By        profileKind `json:"by"`
	Functions []Suspect   `json:"functions"`
}

// A figure is what is compared of a row: the medians of all samples.
type figure struct {
	Comparison
	Corrected float64 `json:"pCorrected"` // P for all benchmarks together
	Limit     float64 `json:"limit"`      // a fraction for times, a number for allocations

	// Resolution is what the change of a time may be wrong by, a fraction.
	Resolution float64 `json:"resolution,omitempty"`

	rule   Rule
	grown  bool    // confirmed
	second float64 // P of the second set, corrected
}

// allow sets what the row may grow.
func (r *row) allow(limit float64, budgets budgetList) {
	r.Time.rule.Limit, r.Allocs.rule = limit, Rule{Counted: true}
	if b, ok := budgets.Find(r.ID); ok {
		r.Budget, r.allowGone = b.Reason, b.Gone
		if b.Limit > 0 {
			r.Time.rule.Limit = b.Limit
		}
		r.Allocs.rule.Limit = b.Allocs
	}
	r.Time.Limit, r.Allocs.Limit = r.Time.rule.Limit, r.Allocs.rule.Limit
}

// noisy reports whether the possible error of times is more than half of what the
// row may grow.
func (r *row) noisy(s Samples) bool { return s.Resolution() > r.Time.rule.Limit/2 }

// suspect reports whether the row is to be measured again.
func (r *row) suspect() bool {
	return r.First != nil && (Screen(r.Time.rule, r.First.Time) || Screen(r.Allocs.rule, r.First.Allocs))
}

// decide judges all rows from what was measured of them.
func decide(rows []*row) {
	var measured []*row
	for _, r := range rows {
		if r.First != nil {
			measured = append(measured, r)
		}
	}
	compareAll(measured, func(r *row) *figure { return &r.Time }, func(s *set) Samples { return s.Time })
	compareAll(measured, func(r *row) *figure { return &r.Allocs }, func(s *set) Samples { return s.Allocs })
	compareAll(measured, func(r *row) *figure { return &r.Bytes }, func(s *set) Samples { return s.Bytes })
	for _, r := range measured {
		all := r.First.Time
		if r.Second != nil {
			all = all.Plus(r.Second.Time)
		}
		r.Time.Resolution = min(all.Resolution(), 1)
	}
	for _, r := range rows {
		r.judge()
	}
}

// compareAll compares one figure of all rows, and corrects for their number.
func compareAll(rows []*row, fig func(*row) *figure, of func(*set) Samples) {
	all, second := make([]Samples, len(rows)), make([]Samples, len(rows))
	pAll, pSecond := make([]float64, len(rows)), make([]float64, len(rows))
	for i, r := range rows {
		all[i] = of(r.First)
		if r.Second != nil {
			second[i] = of(r.Second)
			all[i] = all[i].Plus(second[i])
		}
		fig(r).Comparison = Compare(all[i].Base, all[i].Head)
		pAll[i] = fig(r).P
		pSecond[i] = Compare(second[i].Base, second[i].Head).P
	}
	pAll, pSecond = Holm(pAll), Holm(pSecond)
	for i, r := range rows {
		f := fig(r)
		f.Corrected, f.second = pAll[i], pSecond[i]
		f.grown = Confirmed(f.rule, second[i], all[i], f.second, f.Corrected)
	}
}

func (r *row) judge() {
	switch {
	case r.State == stateGone && !r.allowGone:
		r.fail("GONE", "the base has it, and the head does not")
	case r.State == stateGone:
		r.Verdict = "gone, accepted"
	case r.State != "":
		r.Verdict = r.State
	case r.Time.grown && r.Allocs.grown:
		r.fail("SLOWER, ALLOCATES", r.timeReason(), r.allocsReason())
	case r.Time.grown:
		r.fail("SLOWER", r.timeReason())
	case r.Allocs.grown:
		r.fail("ALLOCATES", r.allocsReason())
	case r.Time.Corrected < Alpha && r.Time.Change() < -r.Time.rule.Limit:
		r.Verdict = "faster"
	case r.Time.Resolution > r.Time.rule.Limit/2:
		r.Verdict, r.Unjudged = fmt.Sprintf("too noisy to judge, ±%.0f %%", 100*r.Time.Resolution), true
	case r.Time.Corrected < Alpha && r.Time.Change() > 0 && !r.Time.rule.Beyond(r.Time.Comparison):
		r.Verdict = "slower, within the limit"
	case r.Second != nil:
		r.Verdict = "not confirmed"
	default:
		r.Verdict = "ok"
	}
	if r.Budget != "" && !r.Failed {
		r.Verdict += ", with a budget"
	}
}

func (r *row) fail(verdict string, reasons ...string) {
	r.Verdict, r.Failed, r.Reasons = verdict, true, reasons
}

func (r *row) timeReason() string {
	f := r.Time
	return fmt.Sprintf("%s → %s, %s (limit %+.4g %%), p = %.2g", r.time(f.Base), r.time(f.Head), r.change(), 100*f.Limit, f.Corrected)
}

func (r *row) allocsReason() string {
	f := r.Allocs
	allowed := "limit: no more"
	if f.Limit > 0 {
		allowed = fmt.Sprintf("limit %+.4g", f.Limit)
	}
	return fmt.Sprintf("%.4g → %.4g allocations/op (%s), p = %.2g", f.Base, f.Head, allowed, f.Corrected)
}

// change returns the change of the time, or of the rate.
func (r *row) change() string {
	c := r.Time.Change()
	if r.rate {
		c = 1/(1+c) - 1
	}
	return fmt.Sprintf("%+.1f %%", 100*c)
}

// time writes nanoseconds, or how many there are of them in a second.
func (r *row) time(ns float64) string {
	switch {
	case r.rate && ns > 0:
		return fmt.Sprintf("%.0f/s", 1e9/ns)
	case ns < 1e3:
		return fmt.Sprintf("%.4g ns", ns)
	case ns < 1e6:
		return fmt.Sprintf("%.4g µs", ns/1e3)
	}
	return fmt.Sprintf("%.4g ms", ns/1e6)
}

// table writes the rows, and under them why rows failed.
func table(w io.Writer, rows []*row) error {
	var t program.Table
	t.Text("benchmark")
	t.Figures("base", "head", "change", "p", "allocs", "bytes")
	t.Text("verdict")
	for _, r := range rows {
		t.Table.Row(r.cells()...)
	}
	var b strings.Builder
	for _, r := range rows {
		for _, reason := range r.Reasons {
			fmt.Fprintf(&b, "\nFAIL %s: %s", r.ID, reason)
		}
		if r.Failed {
			b.WriteByte('\n')
		}
		for _, s := range r.Blame {
			fmt.Fprintf(&b, "  shares of the %s, what grew most first:\n", s.By)
			for _, f := range s.Functions {
				fmt.Fprintf(&b, "    %s\n", f)
			}
		}
	}
	if n := unjudged(rows); n > 0 {
		fmt.Fprintf(&b, "\n%d of %d rows could not be judged: the machine was too noisy. Changes as large as the figure behind ± may hide in them.\n", n, len(rows))
	}
	_, err := fmt.Fprintf(w, "%s%s", &t, b.String())
	return err
}

func unjudged(rows []*row) (n int) {
	for _, r := range rows {
		if r.Unjudged {
			n++
		}
	}
	return n
}

func (r *row) cells() []string {
	if r.First == nil {
		return []string{r.ID, "", "", "", "", "", "", r.Verdict}
	}
	allocs, bytes := "", ""
	if !strings.HasPrefix(r.ID, "ping.") {
		allocs, bytes = counts(r.Allocs), counts(r.Bytes)
	}
	return []string{r.ID, r.time(r.Time.Base), r.time(r.Time.Head), r.change(), fmt.Sprintf("%.3f", r.Time.Corrected), allocs, bytes, r.Verdict}
}

// counts writes both medians, or one where they differ no more than by chance.
func counts(f figure) string {
	if f.Base == f.Head || f.Corrected >= Alpha {
		return fmt.Sprintf("%.6g", f.Base)
	}
	return fmt.Sprintf("%.6g → %.6g", f.Base, f.Head)
}
