package main

import (
	"context"
	"fmt"
	"time"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// measureShare is P8: the share of CPU samples of the loaded ping server that have a
// function of package value on the stack.
func measureShare(ctx context.Context, l *lab, line Line) (rows []Row, err error) {
	file := l.file("cpu.pprof")
	if _, err := server.PingWorkload().Run(ctx, l.binary, l.dir, environ(), 2*l.span(), "--cpuprofile", file); err != nil {
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
