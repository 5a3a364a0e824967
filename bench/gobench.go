package main

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

const module = "github.com/uniflow-labs/uniflow"

// testBinary compiles the tests of a package once, with an overlay if it is not
// empty.
func (l *lab) testBinary(ctx context.Context, pkg, overlay string) (string, error) {
	key := pkg + overlay
	if file := l.tests[key]; file != "" {
		return file, nil
	}
	file := l.File(fmt.Sprintf("%d-%s.test", len(l.tests), path.Base(pkg)))
	if err := (program.Toolchain{}).Compile(ctx, module+"/"+pkg, file, "-overlay", overlay); err != nil {
		return "", err
	}
	l.tests[key] = file
	return file, nil
}

type bench struct {
	pkg  string
	name string // a regular expression, as -bench has it
	cpu  int

	overlay string // for go build -overlay; usually empty
}

// benchmark runs the benchmarks that match, once, and returns their figures by
// name, without "Benchmark" and the processors.
func (l *lab) benchmark(ctx context.Context, b bench) (map[string]program.Units, error) {
	file, err := l.testBinary(ctx, b.pkg, b.overlay)
	if err != nil {
		return nil, err
	}
	benchtime := 300 * time.Millisecond
	if l.quick {
		benchtime = 100 * time.Millisecond
	}
	return program.BenchRun{Binary: file, Bench: b.name, CPU: b.cpu, Benchtime: benchtime}.Output(ctx)
}

// benchTurns runs benchmarks in turns, for three times as many rounds as servers,
// since they are short. It returns the figures of each by name and round.
func (l *lab) benchTurns(ctx context.Context, benches ...bench) ([]map[string][]program.Units, error) {
	got := make([]map[string][]program.Units, len(benches))
	sides := make([]func(context.Context) (float64, error), len(benches))
	for i, b := range benches {
		got[i] = make(map[string][]program.Units)
		sides[i] = func(ctx context.Context) (float64, error) {
			figures, err := l.benchmark(ctx, b)
			if err == nil && len(figures) == 0 {
				err = fmt.Errorf("%s has no benchmark %s", b.pkg, b.name)
			}
			for name, u := range figures {
				got[i][name] = append(got[i][name], u)
			}
			return 0, err
		}
	}
	_, err := l.turns(ctx, 3*l.rounds(), sides...)
	return got, err
}

// of returns the least value of a unit, since other load can only make a loop
// slower; 0 if there is none.
func of(rounds []program.Units, unit string) float64 {
	least := 0.0
	for i, u := range rounds {
		if i == 0 || u[unit] < least {
			least = u[unit]
		}
	}
	return least
}

const (
	enginePkg = "internal/run"
	plainPkg  = "bench/baseline"
)

// cost is P4 and P5: a benchmark of the engine, and the same written by hand.
func (l *lab) cost(ctx context.Context, line Line, name, unit string, perOp, allocs float64) ([]Row, error) {
	got, err := l.benchTurns(ctx,
		bench{pkg: enginePkg, name: "^Benchmark" + name + "$", cpu: 1}, bench{pkg: plainPkg, name: "^Benchmark" + name + "$", cpu: 1})
	if err != nil {
		return nil, err
	}
	engine, plain := got[0][name], got[1]
	row := Row{Line: line, Figures: "ns", Ours: of(engine, unit), Baseline: of(plain[name+"/goroutines"], unit)}
	row.Value = row.Ours
	each := of(engine, "allocs/op") / perOp
	row.Notes = []string{fmt.Sprintf("%.3g allocations; the baseline is a goroutine and a channel for each node, calls of functions are %.1f ns",
		each, of(plain[name+"/calls"], unit))}
	if each > allocs {
		row.Broken = []string{fmt.Sprintf("%.3g allocations, at most %g are allowed", each, allocs)}
	}
	return []Row{row}, nil
}

func measureHop(ctx context.Context, l *lab, line Line) ([]Row, error) {
	// The process around the hops may allocate, which P5 measures.
	rows, err := l.cost(ctx, line, "Hop", "ns/hop", 1000, 0.01)
	if err != nil {
		return nil, err
	}
	got, err := l.benchTurns(ctx, bench{pkg: enginePkg, name: "^BenchmarkMetrics$", cpu: 1})
	if err != nil {
		return nil, err
	}
	on, off := of(got[0]["Metrics/on"], "ns/hop"), of(got[0]["Metrics/off"], "ns/hop")
	metrics := Row{Line: line, Part: "what metrics add", Figures: "ns", Ours: on, Baseline: off, Value: on - off, Side: true}
	metrics.Notes = []string{"a hop with metrics, and without; a sample of processes is measured by the clock"}
	return append(rows, metrics), nil
}

func measureProcess(ctx context.Context, l *lab, line Line) ([]Row, error) {
	rows, err := l.cost(ctx, line, "Process", "ns/op", 1, 3)
	for i := range rows {
		if strings.HasPrefix(rows[i].Notes[0], "0 allocations") {
			continue
		}
		rows[i].Beyond = append(rows[i].Beyond, "it allocates")
	}
	return rows, err
}

// measureScaling is P13. A loop that shares nothing shows what the machine allows.
func measureScaling(ctx context.Context, l *lab, line Line) ([]Row, error) {
	const name = "^BenchmarkParallel$"
	got, err := l.benchTurns(ctx,
		bench{pkg: enginePkg, name: name, cpu: 1}, bench{pkg: enginePkg, name: name, cpu: 2},
		bench{pkg: plainPkg, name: name, cpu: 1}, bench{pkg: plainPkg, name: name, cpu: 2})
	if err != nil {
		return nil, err
	}
	rate := func(i int) float64 { return 1e9 / of(got[i]["Parallel"], "ns/op") }
	row := Row{Line: line, Figures: "/s"}
	row.Ratio(rate(1), rate(0))
	row.Notes = []string{fmt.Sprintf("a loop that shares nothing gains %.2fx here", rate(3)/rate(2))}
	return []Row{row}, nil
}

// measureCodec is P6.
func measureCodec(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.versusBench(ctx, line, "^BenchmarkCodec", "compiled", "reflect", func(name string) bool { return strings.Contains(name, "Struct") })
}

// measureJSON is P7.
func measureJSON(ctx context.Context, l *lab, line Line) ([]Row, error) {
	return l.versusBench(ctx, line, "^BenchmarkJSON", "ours", "encoding-json", func(string) bool { return true })
}

// versusBench makes a row of each pair of benchmarks of package value; the
// contract is about the pairs that counts picks.
func (l *lab) versusBench(ctx context.Context, line Line, pattern, ours, baseline string, counts func(name string) bool) ([]Row, error) {
	// The halves of a pair are neighbours in one run of the binary, so each
	// round has both sides.
	got, err := l.benchTurns(ctx, bench{pkg: "value", name: pattern, cpu: 1})
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range got[0] {
		if base, ok := strings.CutSuffix(name, "/"+ours); ok && got[0][base+"/"+baseline] != nil {
			names = append(names, base)
		}
	}
	slices.Sort(names)
	var rows []Row
	for _, name := range names {
		a, b := got[0][name+"/"+ours], got[0][name+"/"+baseline]
		row := Row{Line: line, Part: name, Figures: "ns", Ours: of(a, "ns/op"), Baseline: of(b, "ns/op"), Side: !counts(name)}
		row.Value = row.Baseline / row.Ours
		row.Notes = []string{fmt.Sprintf("%g allocations, baseline %g", of(a, "allocs/op"), of(b, "allocs/op"))}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("package value has no pairs of %s with %s and %s", pattern, ours, baseline)
	}
	return rows, nil
}

// measureShare is P8: the share of CPU samples of the loaded ping server that have a
// function of package value on the stack.
func measureShare(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	file := l.File("cpu.pprof")
	if _, err := server.PingWorkload().Run(ctx, l.Binary, l.Dir, environ(), 2*l.span(), "--cpuprofile", file); err != nil {
		return nil, err
	}
	p, err := program.ReadProfile(file)
	if err != nil {
		return nil, err
	}
	share, total := program.ProfileShare(p, len(p.SampleType)-1, nil, []string{module + "/value."})
	if total == 0 {
		return nil, fmt.Errorf("%s has no samples", file)
	}
	row := Row{Line: line, Figures: "%", Ours: 100 * share, Value: 100 * share}
	row.Notes = []string{fmt.Sprintf("of %v of CPU; a stack counts when a function of package value is in it; there is no baseline", time.Duration(total).Round(10*time.Millisecond))}
	return []Row{row}, nil
}
