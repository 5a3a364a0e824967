package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/graph"
	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/profiles"
	"github.com/uniflow-labs/uniflow/bench/report"
)

// measureShare is P8: the share of CPU samples of the loaded ping server that have a
// function of package value on the stack.
func measureShare(ctx context.Context, l *lab, line report.Line) (rows []report.Row, err error) {
	file := l.file("cpu.pprof")
	s, err := l.ours(ctx, "profiled", graph.Ping, "--cpuprofile", file)
	if err != nil {
		return nil, err
	}
	_, err = load.Run(ctx, load.Options{Addr: s.Addr, Path: "/ping", Conns: 64, KeepAlive: true, Duration: 2 * l.span()})
	if stopped := s.Stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return nil, err
	}
	shares, err := readShares(file)
	if err != nil {
		return nil, err
	}
	row := report.Row{Line: line, Figures: "%", Ours: 100 * shares.under[module+"/value"]}
	row.Value = row.Ours
	row.Notes = []string{
		fmt.Sprintf("of %v of CPU; a stack counts when a function of package value is in it; there is no baseline", shares.total.Round(10*time.Millisecond)),
		"spent in functions of packages themselves: " + shares.top(),
	}
	return []report.Row{row}, nil
}

// shares are how the samples of a profile are spread over packages.
type shares struct {
	total time.Duration
	in    map[string]float64 // of samples whose innermost function is in the package
	under map[string]float64 // of samples with the package anywhere in the stack
}

func readShares(file string) (*shares, error) {
	p, err := profiles.Read(file)
	if err != nil {
		return nil, err
	}
	s := share(p)
	if s.total == 0 {
		return nil, fmt.Errorf("%s has no samples", file)
	}
	return s, nil
}

func share(p *profile.Profile) *shares {
	s := &shares{in: make(map[string]float64), under: make(map[string]float64)}
	var total int64
	for _, sample := range p.Sample {
		n := sample.Value[len(sample.Value)-1] // nanoseconds of CPU
		total += n
		seen := make(map[string]bool)
		for i, function := range profiles.Stack(sample) {
			pkg := packageOf(function)
			if i == 0 {
				s.in[pkg] += float64(n)
			}
			if !seen[pkg] {
				seen[pkg] = true
				s.under[pkg] += float64(n)
			}
		}
	}
	for _, m := range []map[string]float64{s.in, s.under} {
		for pkg := range m {
			m[pkg] /= float64(max(total, 1))
		}
	}
	s.total = time.Duration(total)
	return s
}

// packageOf returns the import path in the name of a function, such as
// "net/http.(*conn).serve".
func packageOf(function string) string {
	if i := strings.IndexByte(function, '['); i >= 0 { // type arguments have paths of their own
		function = function[:i]
	}
	slash := strings.LastIndexByte(function, '/') + 1
	if dot := strings.IndexByte(function[slash:], '.'); dot >= 0 {
		return function[:slash+dot]
	}
	return function
}

// top shows the packages in which most was spent, and all of ours.
func (s *shares) top() string {
	pkgs := slices.SortedFunc(maps.Keys(s.in), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.in[b], s.in[a]), cmp.Compare(a, b))
	})
	var parts []string
	for i, pkg := range pkgs {
		short, ours := strings.CutPrefix(pkg, module+"/")
		if i < 6 || ours {
			parts = append(parts, fmt.Sprintf("%s %.1f %%", short, 100*s.in[pkg]))
		}
	}
	return strings.Join(parts, ", ")
}
