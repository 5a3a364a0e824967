package main

import (
	"context"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/program"
)

// facts are where the figures come from. What cannot be found out stays empty.
type facts struct {
	program.Facts
	Wrk string `json:"wrk"`
	Ab  string `json:"ab"`
}

func (f facts) String() string { return f.Facts.String() + ", " + f.Wrk + ", " + f.Ab }

func inspect(ctx context.Context) facts {
	return facts{program.Inspect(ctx), version(ctx, "wrk", "-v"), version(ctx, "ab", "-V")}
}

// version returns what a program calls itself.
func version(ctx context.Context, name, flag string) string {
	line := program.FirstLine(ctx, name, flag)
	line, _, _ = strings.Cut(line, " [") // of epoll and a copyright
	line, _, _ = strings.Cut(line, " <") // of a revision
	return strings.TrimSpace(strings.TrimPrefix(line, "This is "))
}
