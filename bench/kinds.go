package main

import (
	"context"
	"fmt"
)

const kindsPkg = "bench/kinds"

// measureFor is N5. A body of two nodes tells what a body costs.
func measureFor(ctx context.Context, l *lab, line Line) ([]Row, error) {
	got, err := l.benchTurns(ctx, bench{pkg: kindsPkg, name: "^BenchmarkFor$", cpu: 1})
	if err != nil {
		return nil, err
	}
	one, two := of(got[0]["For/one"], "ns/element"), of(got[0]["For/two"], "ns/element")
	row := Row{Line: line, Figures: "ns", Ours: one, Baseline: two - one, Value: one - (two - one)}
	row.Notes = []string{fmt.Sprintf("ours is an element with a body of one node; the baseline is what a second node adds; %.3g allocations for a list",
		of(got[0]["For/one"], "allocs/op"))}
	return []Row{row}, nil
}
