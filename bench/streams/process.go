package main

import (
	"context"
	"fmt"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// measureProcess is S7, by benchmarks of the engine.
func measureProcess(ctx context.Context, l *lab) error {
	binary := l.File("run.test")
	if err := (program.Toolchain{}).Compile(ctx, "./internal/run", binary); err != nil {
		return err
	}
	times, err := program.BenchRun{Binary: binary, Bench: "^BenchmarkAwait$", CPU: 1, Benchtime: l.span() / 2, Dir: l.Dir}.Output(ctx)
	if err != nil {
		return err
	}
	memory, err := program.BenchRun{Binary: binary, Bench: "^BenchmarkParked$", CPU: 1, Dir: l.Dir}.Output(ctx)
	if err != nil {
		return err
	}
	ours, parked := times["Await/uniflow"], memory["Parked/uniflow"]
	best := min(times["Await/goroutine"]["ns/op"], times["Await/worker"]["ns/op"])
	for _, name := range []string{"uniflow", "goroutine", "worker"} {
		ns := times["Await/"+name]["ns/op"]
		l.sides = append(l.sides, side{Line: "S7", Name: name, Rate: 1e9 / ns, CPU: ns / 1e3})
		l.table.Row("S7 "+name, fmt.Sprintf("%.0f", 1e9/ns), fmt.Sprintf("%.2f", best/ns), fmt.Sprintf("%.2f", ns/1e3), "")
	}
	l.targets.Add(ours["ns/op"] <= 400, "S7, a process that waits once", "at most 400 ns", fmt.Sprintf("%.0f ns", ours["ns/op"]))
	l.targets.Add(ours["allocs/op"] <= 2, "S7, its allocations", "at most 2", fmt.Sprintf("%.0f", ours["allocs/op"]))
	l.targets.Add(parked["MB"] <= 150, "S7, 100,000 that wait", "at most 150 MB", fmt.Sprintf("%.0f MB, goroutines %.0f MB", parked["MB"], memory["Parked/goroutine"]["MB"]))
	return nil
}
