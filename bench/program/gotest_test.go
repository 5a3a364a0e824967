package program

import (
	"testing"
)

const benchOutput = `goos: linux
pkg: github.com/uniflow-labs/uniflow/internal/run
cpu: some
BenchmarkProcess      	 2928163	       129.2 ns/op	       0 B/op	       3 allocs/op
BenchmarkHop-2        	    8953	     39663 ns/op	        39.66 ns/hop	       0 B/op	       0 allocs/op
BenchmarkJSONRead/encoding-json-2             	    1867	     13480 ns/op	 100.15 MB/s	   10240 B/op	     291 allocs/op
PASS
`

func TestParseBench(t *testing.T) {
	got, err := ParseBench(benchOutput)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, unit string
		want       float64
	}{
		{"Process", "ns/op", 129.2},
		{"Process", "allocs/op", 3},
		{"Hop", "ns/hop", 39.66},
		{"JSONRead/encoding-json", "ns/op", 13480},
	} {
		if got := got[tt.name][tt.unit]; got != tt.want {
			t.Errorf("%s %s: got %v, want %v", tt.name, tt.unit, got, tt.want)
		}
	}
}
