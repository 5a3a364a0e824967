// Package judge decides from samples whether a figure has grown.
//
// [Compare] sets two samples beside each other with the Mann-Whitney test, which
// assumes nothing of how noise is distributed; [Holm] corrects for having asked
// about many benchmarks at once; [Screen] says which figures are worth a second
// set of samples, and [Confirmed] what both sets together come to.
//
// In all samples less is better. The package must not know what was measured, or
// how.
package judge

import (
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Alpha is the probability of an alarm, for all benchmarks together, that is put
// up with where nothing has changed. That an alarm also takes a change beyond a
// limit, twice, makes it far less likely than that.
const Alpha = 0.05

// A Comparison is two samples beside each other.
type Comparison struct {
	Base float64 `json:"base"` // median
	Head float64 `json:"head"` // median

	// P is how likely samples as different as these are where nothing has
	// changed, of this comparison alone.
	P float64 `json:"p"`
}

// Change returns what the head's median is more than the base's, as a fraction
// of that: 0.1 for 10 % more. It is infinite where the base has nothing.
func (c Comparison) Change() float64 {
	switch {
	case c.Base == c.Head:
		return 0
	case c.Base == 0:
		return math.Inf(1)
	}
	return c.Head/c.Base - 1
}

// Compare compares two samples, which it leaves as they are. Where one is empty,
// or all values are the same, P is 1.
func Compare(base, head []float64) Comparison {
	c := Comparison{Base: Quantile(base, 0.5), Head: Quantile(head, 0.5), P: 1}
	if len(base) > 0 && len(head) > 0 {
		// Of samples of one value only, the library says that it cannot tell,
		// and a P of 1.
		c.P = benchmath.AssumeNothing.Compare(sample(base), sample(head)).P
	}
	return c
}

func sample(v []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(v), &benchmath.DefaultThresholds)
}

// Quantile returns the value below which the share q of the sample is, between
// two values that in between; 0 of nothing.
func Quantile(v []float64, q float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(v))
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low == len(sorted)-1 {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Holm returns the P values as they are to be compared with [Alpha] when so many
// questions were asked at once: the correction of Bonferroni, step by step from
// the least, after Holm.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case p[a] < p[b]:
			return -1
		case p[a] > p[b]:
			return 1
		}
		return 0
	})
	adjusted := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = least
	}
	return adjusted
}

// A Rule is how much a figure may grow. The zero Rule is that it may not.
type Rule struct {
	// Limit is the growth up to which nothing is said, as a fraction of the
	// base for figures that are measured, as times are, and in units for those
	// that are counted.
	Limit float64

	// Counted is for figures such as allocations that are the same each time but
	// for a stray one: they have grown only if nearly all of the head's values
	// are above nearly all of the base's, so that a benchmark that makes 3 or 4
	// of something raises nothing when the 4 become more frequent.
	Counted bool
}

// Beyond reports whether the medians are further apart than the rule allows.
func (r Rule) Beyond(c Comparison) bool {
	if r.Counted {
		return c.Head-c.Base > r.Limit
	}
	return c.Change() > r.Limit
}

// stray is the share of counted values, on either side, that may be anything.
const stray = 0.1

// apart reports whether counted values on both sides do not overlap.
func (r Rule) apart(s Samples) bool {
	return !r.Counted || Quantile(s.Head, stray) > Quantile(s.Base, 1-stray)+r.Limit
}

// suspicious is the P value of a first set above which a change within the rule
// is taken for chance. It is no test yet: with few samples, two interruptions on
// one side hide a real change from a strict one.
const suspicious = 0.2

// Screen reports whether a first set of samples calls for a second: if it shows
// more than the rule allows, however unsure that is, or at least half of it. It
// is meant to miss nothing; it is Confirmed that is meant to be right.
func Screen(r Rule, first Samples) bool {
	c := Compare(first.Base, first.Head)
	if r.Counted {
		return r.Beyond(c) && r.apart(first)
	}
	return r.Beyond(c) || c.P < suspicious && c.Change() > r.Limit/2
}

// Confirmed reports whether a figure has grown beyond the rule: if the second set
// of samples, which had no part in the suspicion, says so, and all samples
// together do. p and pAll are the P values of both, corrected for how many
// benchmarks there are.
func Confirmed(r Rule, second, all Samples, p, pAll float64) bool {
	says := func(s Samples, p float64) bool {
		return p < Alpha && r.Beyond(Compare(s.Base, s.Head)) && r.apart(s)
	}
	return says(second, p) && says(all, pAll)
}

// confidence is that of [Samples.Resolution]. Of ten samples, an interval of 85 %
// leaves out the two largest, so that two that were disturbed do not count.
const confidence = 0.85

// Resolution returns what the change between the medians may be wrong by, as a
// fraction: half of the widths of both confidence intervals, added as independent
// errors are. A slowdown of about that size may go unnoticed.
func (s Samples) Resolution() float64 {
	half := func(v []float64) float64 {
		if len(v) == 0 {
			return math.Inf(1)
		}
		sum := benchmath.AssumeNothing.Summary(sample(v), confidence)
		if sum.Hi == sum.Lo {
			return 0
		}
		return (sum.Hi - sum.Lo) / 2 / sum.Center
	}
	return math.Hypot(half(s.Base), half(s.Head))
}

// Samples are the values of both sides, in the order in which they were measured.
type Samples struct {
	Base []float64 `json:"base"`
	Head []float64 `json:"head"`
}

// Plus returns the samples with others after them.
func (s Samples) Plus(t Samples) Samples {
	return Samples{slices.Concat(s.Base, t.Base), slices.Concat(s.Head, t.Head)}
}
