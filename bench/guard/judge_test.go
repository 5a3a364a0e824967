package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

const seed = 20260717 // of all random samples below; printed when one fails

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestHolm(t *testing.T) {
	f := func(p, want []float64) {
		t.Helper()
		before := slices.Clone(p)
		if got := Holm(p); !slices.EqualFunc(got, want, near) {
			t.Errorf("%v: got %v, want %v", p, got, want)
		}
		if !slices.Equal(p, before) {
			t.Errorf("got the argument changed to %v, want %v", p, before)
		}
	}
	f(nil, nil)
	f([]float64{0.03}, []float64{0.03})
	f([]float64{0.01, 0.04, 0.03, 0.005}, []float64{0.03, 0.06, 0.06, 0.02})
	f([]float64{0.5, 0.9}, []float64{1, 1})
	f([]float64{0.02, 0.02}, []float64{0.04, 0.04})
}

func TestMannWhitney(t *testing.T) {
	low := []float64{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	high := []float64{30, 31, 32, 33, 34, 35, 36, 37, 38, 39}
	c := Compare(low, high)
	// The exact test: of the ways to split 20 values, two are as extreme.
	if want := 2.0 / 184756; math.Abs(c.P-want) > 1e-12 || c.Base != 14.5 || c.Head != 34.5 || !near(c.Change(), 20/14.5) {
		t.Errorf("got %+v, want medians 14.5 and 34.5, p %v", c, want)
	}
	same := []float64{3, 3, 3}
	if c := Compare(same, same); c.P != 1 || c.Change() != 0 {
		t.Errorf("the same: got %+v, want p 1", c)
	}
	if c := Compare(nil, low); c.P != 1 {
		t.Errorf("without a base: got %+v, want p 1", c)
	}
	if got := Compare([]float64{0, 0}, []float64{1, 1}).Change(); !math.IsInf(got, 1) {
		t.Errorf("from nothing: got %v, want infinite", got)
	}
}

// A noiseOf returns the measured time of a slice for its true time.
type noiseOf func(r *rand.Rand, true float64) float64

// quiet is 2 % of jitter, and a rare interruption.
func quiet(r *rand.Rand, true float64) float64 {
	v := true * (1 + 0.02*r.NormFloat64())
	if r.IntN(20) == 0 {
		v *= 1.5
	}
	return v
}

// shared is a processor that another program uses half of the time.
func shared(r *rand.Rand, true float64) float64 {
	if r.IntN(2) == 0 {
		return true * (1.8 + 0.2*r.Float64())
	}
	return quiet(r, true)
}

// drifting is a machine that gets slower over a set. The sides are interleaved.
func drifting() noiseOf {
	n := 0
	return func(r *rand.Rand, true float64) float64 {
		n++
		return quiet(r, true*(1+float64(n%200)/100))
	}
}

func makeSamples(r *rand.Rand, n noiseOf, rounds int, base, head float64) Samples {
	var s Samples
	for range rounds {
		if r.IntN(2) == 0 {
			s.Base = append(s.Base, n(r, base))
			s.Head = append(s.Head, n(r, head))
		} else {
			s.Head = append(s.Head, n(r, head))
			s.Base = append(s.Base, n(r, base))
		}
	}
	return s
}

func repeat(n int, v ...float64) []float64 {
	var all []float64
	for i := range n {
		all = append(all, v[i%len(v)])
	}
	return all
}

func TestCounted(t *testing.T) {
	f := func(name string, limit float64, base, head []float64, want bool) {
		t.Helper()
		rule := Rule{Limit: limit, Counted: true}
		s := Samples{Base: base, Head: head}
		p := Compare(base, head).P * 40
		got := Screen(rule, s) && Confirmed(rule, s, s.Plus(s), p, p)
		if got != want {
			t.Errorf("%s: got %t, want %t", name, got, want)
		}
	}
	f("none to one", 0, repeat(10, 0), repeat(10, 1), true)
	f("three to four", 0, repeat(10, 3), repeat(10, 4), true)
	f("three to four, with a stray", 0, append(repeat(9, 3), 7), append(repeat(9, 4), 3), true)
	f("the same", 0, repeat(10, 3), repeat(10, 3), false)
	f("less", 0, repeat(10, 4), repeat(10, 3), false)
	f("flapping", 0, repeat(10, 3, 4), repeat(10, 4, 3), false)
	f("flaps more often", 0, repeat(10, 3, 3, 3, 4), repeat(10, 4, 4, 4, 3), false)
	f("begins to flap", 0, repeat(10, 3), repeat(10, 3, 4), false)
	f("within its budget", 1, repeat(10, 3), repeat(10, 4), false)
	f("past its budget", 1, repeat(10, 3), repeat(10, 5), true)
}
