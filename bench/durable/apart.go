package main

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/node"
)

// apartForm sends packets through chains that are not durable, of two engines in turns: one
// with a journal and a durable trigger, and one without. The figures are the least ns a
// packet.
func apartForm(ctx context.Context, j job) (f figures, err error) {
	document := chain("hop", j.Hops)
	var engines [2]*uniflow.Engine
	var sources [2]node.Starter
	for i := range engines {
		at, file := i, ""
		if j.First {
			at = 1 - i
		}
		if at == 0 {
			file = j.File
		}
		if engines[at], sources[at], err = serve(ctx, document, file, func() {}); err != nil {
			return f, err
		}
		defer func() { err = errors.Join(err, engines[at].Shutdown(context.WithoutCancel(ctx))) }()
	}
	in := payload()
	durable, _ := sources[0].(node.DurableStarter)
	receipt, err := durable.Submit(ctx, node.Submission{Level: node.LevelCheckpoint, Payload: in, Same: in})
	if err != nil {
		return f, err
	}
	<-receipt.Done
	const turn = 20 * time.Millisecond
	between := 1 + 1000/(1+j.Hops) // processes from one look at the clock to the next
	least := [2]float64{math.Inf(1), math.Inf(1)}
	for start := time.Now(); time.Since(start) < j.Span; {
		for i, src := range sources {
			n, begun := 0, time.Now()
			for ; time.Since(begun) < turn; n++ {
				for range between {
					if resp := src.Run(ctx, node.Send(0, in)); resp.IsError() {
						return f, resp.Payload.AsError()
					}
				}
			}
			each := float64(time.Since(begun).Nanoseconds()) / float64(n*between)
			least[i] = min(least[i], each)
		}
	}
	return figures{Rate: 1e9 / least[0], Ours: least[0], Other: least[1]}, nil
}
