package main

import (
	"cmp"
	"math"
	"slices"

	"golang.org/x/perf/benchmath"
)

// Alpha is the accepted probability of a false alarm, for all benchmarks together.
// It is lower in fact, since an alarm also needs a change beyond a limit, twice.
const Alpha = 0.05

// A Comparison is the result of comparing two samples.
type Comparison struct {
	Base float64 `json:"base"` // median
	Head float64 `json:"head"` // median

	// P is the probability of samples as different as these if nothing has
	// changed, for this comparison alone.
	P float64 `json:"p"`
}

// Change returns the growth of the median as a fraction: 0.1 for 10 % more. It is
// infinite if the base is 0.
func (c Comparison) Change() float64 {
	switch {
	case c.Base == c.Head:
		return 0
	case c.Base == 0:
		return math.Inf(1)
	}
	return c.Head/c.Base - 1
}

// Compare compares two samples. If one is empty, or all values are the same, P is
// 1.
func Compare(base, head []float64) Comparison {
	c := Comparison{Base: Quantile(base, 0.5), Head: Quantile(head, 0.5), P: 1}
	if len(base) > 0 && len(head) > 0 {
		c.P = benchmath.AssumeNothing.Compare(sampled(base), sampled(head)).P
	}
	return c
}

func sampled(v []float64) *benchmath.Sample {
	return benchmath.NewSample(slices.Clone(v), &benchmath.DefaultThresholds)
}

// Quantile returns the value below which the share q of the sample is,
// interpolated; 0 of an empty sample.
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

// Holm returns P values that are corrected for their number by the method of Holm
// and Bonferroni, to be compared with [Alpha].
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	adjusted := make([]float64, len(p))
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		adjusted[i] = least
	}
	return adjusted
}

// A Rule is how much a figure may grow; the zero Rule allows no growth.
type Rule struct {
	// Limit is the growth that is allowed: a fraction of the base for times, and
	// a number for what is counted.
	Limit float64

	// Counted is for figures such as allocations, which rarely vary. They have
	// grown only if nearly all values of the head are above nearly all of the
	// base: a benchmark that makes 3 or 4 allocations does not fail when it makes
	// 4 more often.
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
// counts as chance. It is not strict, since with few samples two interruptions on
// one side hide a real change.
const suspicious = 0.2

// Screen reports whether a first set of samples needs a second: if it shows more
// than the rule allows, or at least half of it with some significance.
func Screen(r Rule, first Samples) bool {
	c := Compare(first.Base, first.Head)
	if r.Counted {
		return r.Beyond(c) && r.apart(first)
	}
	return r.Beyond(c) || c.P < suspicious && c.Change() > r.Limit/2
}

// Confirmed reports whether a figure has grown beyond the rule: if both the second
// set of samples and all samples together show it. p and pAll are their corrected
// P values.
func Confirmed(r Rule, second, all Samples, p, pAll float64) bool {
	says := func(s Samples, p float64) bool {
		return p < Alpha && r.Beyond(Compare(s.Base, s.Head)) && r.apart(s)
	}
	return says(second, p) && says(all, pAll)
}

// confidence is the level of the intervals of [Samples.Resolution]. Of ten samples, an interval of 85 %
// leaves out the two largest, which may have been disturbed.
const confidence = 0.85

// Resolution returns the error of the change between the medians, as a fraction:
// half of the widths of both confidence intervals, added as independent errors. A
// slowdown of about that size may go unnoticed.
func (s Samples) Resolution() float64 {
	half := func(v []float64) float64 {
		if len(v) == 0 {
			return math.Inf(1)
		}
		sum := benchmath.AssumeNothing.Summary(sampled(v), confidence)
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
