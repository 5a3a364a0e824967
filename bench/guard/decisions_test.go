//go:build !race

// The race detector would see nothing here: the numbers come from one goroutine, and the seed
// does not change.

package main

import (
	"math/rand/v2"
	"testing"
)

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
