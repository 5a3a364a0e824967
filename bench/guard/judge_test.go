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

// A noise makes the time of a slice from the true time.
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

// decideAll is what the guard does with many benchmarks of which the first changes.
func decideAll(r *rand.Rand, rule Rule, n noiseOf, benchmarks int, change float64) (alarms []int) {
	all := make([]Samples, benchmarks)
	second := make([]Samples, benchmarks)
	pAll, p := make([]float64, benchmarks), make([]float64, benchmarks)
	for i := range all {
		head := 100.0
		if i == 0 {
			head *= 1 + change
		}
		all[i] = makeSamples(r, n, 10, 100, head)
		if Screen(rule, all[i]) {
			second[i] = makeSamples(r, n, 20, 100, head)
			all[i] = all[i].Plus(second[i])
		}
		p[i] = Compare(second[i].Base, second[i].Head).P
		pAll[i] = Compare(all[i].Base, all[i].Head).P
	}
	p, pAll = Holm(p), Holm(pAll)
	for i := range all {
		if Confirmed(rule, second[i], all[i], p[i], pAll[i]) {
			alarms = append(alarms, i)
		}
	}
	return alarms
}

// TestDecisions runs the guard's decisions on made samples: there is no alarm if nothing
// changes, whatever the noise, and a change that exceeds the noise is found.
func TestDecisions(t *testing.T) {
	rule := Rule{Limit: 0.10}
	const runs, benchmarks = 100, 40
	for _, tt := range []struct {
		name    string
		noiseOf noiseOf
		change  float64
		least   int // runs with an alarm about the first
		most    int
	}{
		{"quiet, the same", quiet, 0, 0, 0},
		{"shared, the same", shared, 0, 0, 0},
		{"drifting, the same", drifting(), 0, 0, 0},
		{"quiet, 5 % more", quiet, 0.05, 0, 0},
		{"quiet, 15 % more", quiet, 0.15, 99, runs},
		{"shared, 50 % more", shared, 0.50, 10, runs},
		{"quiet, 15 % less", quiet, -0.15, 0, 0},
	} {
		r := rand.New(rand.NewPCG(seed, 1))
		caught, wrong := 0, 0
		for range runs {
			for _, i := range decideAll(r, rule, tt.noiseOf, benchmarks, tt.change) {
				if i == 0 {
					caught++
				} else {
					wrong++
				}
			}
		}
		t.Logf("%s: of %d runs with %d benchmarks %d caught the change, %d others raised", tt.name, runs, benchmarks, caught, wrong)
		if caught < tt.least || caught > tt.most || wrong > 0 {
			t.Errorf("%s (seed %d): got %d caught and %d wrong, want %d to %d and none", tt.name, seed, caught, wrong, tt.least, tt.most)
		}
	}
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
