package main

import (
	"context"
	"fmt"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// measureProcess is S7, by benchmarks of the engine.
func measureProcess(ctx context.Context, l *lab) error {
	binary := l.file("run.test")
	if err := (program.Toolchain{}).Compile(ctx, "./internal/run", binary); err != nil {
		return err
	}
	got, err := program.BenchRun{Binary: binary, Bench: "^BenchmarkAwait", CPU: 1, Dir: l.dir}.Output(ctx)
	if err != nil {
		return err
	}
	return fmt.Errorf("to be read: %v", got)
}
