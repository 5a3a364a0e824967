package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

const kindsPkg = "bench/kinds"

// measureFor is N5. A second node in the body shows what a node in a body costs.
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

// byHand measures a benchmark of package kinds: the kind, and the same written by hand,
// of which the fastest form is the baseline.
func (l *lab) byHand(ctx context.Context, line Line, name string, cpu int) ([]Row, error) {
	got, err := l.benchTurns(ctx, bench{pkg: kindsPkg, name: "^Benchmark" + name + "$", cpu: cpu})
	if err != nil {
		return nil, err
	}
	ours := got[0][name+"/uniflow"]
	var rows []Row
	for form, rounds := range got[0] {
		part, ok := strings.CutPrefix(form, name+"/by-hand/")
		if !ok {
			continue
		}
		row := Row{Line: line, Part: "by hand, " + part, Figures: "ns", Ours: of(ours, "ns/op"), Baseline: of(rounds, "ns/op"), Side: true}
		if row.Ours > 0 {
			row.Value = row.Baseline / row.Ours
		}
		row.Notes = []string{fmt.Sprintf("%g allocations, baseline %g", of(ours, "allocs/op"), of(rounds, "allocs/op"))}
		rows = append(rows, row)
	}
	if len(ours) == 0 || len(rows) == 0 {
		return nil, fmt.Errorf("package %s has no %s with parts uniflow and by-hand", kindsPkg, name)
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Part, b.Part) })
	fastest := 0
	for i := range rows {
		if rows[i].Baseline < rows[fastest].Baseline {
			fastest = i
		}
	}
	rows[fastest].Side = false
	return rows, nil
}

// measureHTTP is N4.
func measureHTTP(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.byHand(ctx, line, "HTTP", 2)
}

// measureSQLite is N3.
func measureSQLite(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.byHand(ctx, line, "SQLite", 1)
}

// measurePostgres is N2.
func measurePostgres(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.byHand(ctx, line, "Postgres", 2)
}

// measureWasmCall is N9.
func measureWasmCall(ctx context.Context, l *lab, line Line) ([]Row, error) {
	got, err := l.benchTurns(ctx, bench{pkg: "nodes/wasm", name: "^BenchmarkCall$", cpu: 1})
	if err != nil {
		return nil, err
	}
	ours := got[0]["Call"]
	row := Row{Line: line, Figures: "ns", Ours: of(ours, "ns/op"), Value: of(ours, "ns/op")}
	row.Notes = []string{fmt.Sprintf("%g allocations, which are the payload that comes back", of(ours, "allocs/op"))}
	return []Row{row}, nil
}

// measureWasmHash is N10.
func measureWasmHash(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.byHand(ctx, line, "WasmHash", 1)
}

// measureWasmMap is N11.
func measureWasmMap(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.byHand(ctx, line, "WasmMap", 1)
}
