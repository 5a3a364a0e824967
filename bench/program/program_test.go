package program

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestRun(t *testing.T) {
	f := func(want int, says string, args []string, check error, ok bool, measured error) {
		t.Helper()
		flags := Flags("name")
		flags.Bool("x", false, "")
		var stderr strings.Builder
		got := Run(flags, args, &stderr, func() error { return check }, func() (bool, error) { return ok, measured })
		if got != want || !strings.Contains(stderr.String(), says) {
			t.Errorf("%v: got exit code %d and %q, want %d and %q", args, got, stderr.String(), want, says)
		}
	}
	f(OK, "", []string{"-x"}, nil, true, nil)
	f(Failed, "", nil, nil, false, nil)
	f(Usage, "not defined", []string{"-y"}, nil, true, nil)
	f(Usage, "name: unexpected arguments", []string{"y"}, nil, true, nil)
	f(Usage, "name: EOF", nil, io.EOF, true, nil)
	f(Trouble, "name: broken", nil, nil, true, errors.New("broken"))
}

func TestTargets(t *testing.T) {
	var all Targets
	var out strings.Builder
	if err := all.Print(&out); err != nil || out.Len() > 0 {
		t.Errorf("got %q, %v, want nothing", out.String(), err)
	}
	all.Must(true, "nothing lost", "0", "0")
	all.Add(false, "speed", "≥ 5 x", "4 x")
	if !all.Correct() {
		t.Error("got that something is wrong, want slow only")
	}
	all.Must(false, "doubled", "0", "1")
	if all.Correct() {
		t.Error("got that all is correct")
	}
	const want = `
Targets

target         want  got
nothing lost      0    0      ok
speed         ≥ 5 x  4 x  MISSED
doubled           0    1  MISSED
`
	if err := all.Print(&out); err != nil || out.String() != want {
		t.Errorf("got %q, %v, want %q", out.String(), err, want)
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 3}, 3}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := Median(tt.in); got != tt.want {
			t.Errorf("%v: got %v, want %v", tt.in, got, tt.want)
		}
	}
}

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out", "a.json")
	if err := Write(path, map[string]int{"a": 1}); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(data), "{\n  \"a\": 1\n}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInspect(t *testing.T) {
	got := Inspect(t.Context())
	if got.Processors != runtime.NumCPU() || got.Go != runtime.Version() || got.Time.IsZero() {
		t.Errorf("got %+v, want the processors, the version, and the time", got)
	}
	if !strings.Contains(got.String(), runtime.Version()) {
		t.Errorf("got %s, want the version in it", got)
	}
	if got := FirstLine(t.Context(), "no-such-program-here"); got != "no no-such-program-here" {
		t.Errorf("got %q", got)
	}
	if got := Content("/no/such/file"); got != "" {
		t.Errorf("got %q, want nothing", got)
	}
}

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
