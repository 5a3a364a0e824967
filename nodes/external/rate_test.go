//go:build !race

package external_test

import "testing"

// withRace says that this binary, which is the program of the tests, maps terabytes.
const withRace = false

// TestRate is what a process has to answer, in packets of 300 bytes. They are the goals of the kinds; a quiet machine
// does three to five times as much, so a busy one does it once in some tries.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		bench func(*testing.B)
		want  float64
	}{{"exec", BenchmarkExec, 50_000}, {"python", BenchmarkPython, 20_000}} {
		t.Run(c.name, func(t *testing.T) {
			best := 0.0
			for range 5 {
				if best = max(best, testing.Benchmark(c.bench).Extra["lines/s"]); best >= c.want {
					return
				}
			}
			t.Errorf("got %.0f lines a second, want %.0f", best, c.want)
		})
	}
}
