//go:build unix

package durable

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// TestStop stops the server, as an operator does, while many runs call services, wait for signals and for items of a
// queue. It ends with the status 0, and after the next start all go on: none has failed, and no call is repeated.
func TestStop(t *testing.T) {
	const stops = 3
	orders := 150
	if full() {
		orders = 1000
	}
	o := newOracle(t)
	defer o.Close()
	port, signals, dir := freeport.Port(t), freeport.Port(t), t.TempDir()
	p := newProgram(t, dir, fmt.Sprintf(stations, port, o.URL, signals))
	p.args = append(p.args, "--grace", "4s")
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	url, approvals := fmt.Sprintf("http://127.0.0.1:%d/", port), fmt.Sprintf("http://127.0.0.1:%d/", signals)
	inParallel(orders, func(i int) {
		if err := begin(ctx, url, i); err != nil {
			t.Errorf("order %d: %v", i, err)
		}
	})
	var clients sync.WaitGroup
	clients.Go(func() {
		inParallel(orders, func(i int) {
			if err := o.approve(ctx, approvals, i); err != nil {
				t.Errorf("order %d: its signal: %v", i, err)
			}
		})
	})
	for n := range stops {
		waitFor(t, ctx, "a part of the effects", func() bool { return o.count() > orders*(12+7*n)/10 })
		p.stop()
		o.quiet()
		p.start()
		up(t, ctx, url+"none") // before, the signal kills it
	}
	clients.Wait()
	answers := make([]string, orders)
	inParallel(orders, func(i int) {
		var err error
		if answers[i], err = order(ctx, url, i); err != nil {
			t.Errorf("order %d: %v", i, err)
		}
		if of, err := o.chain(answers[i]); err != nil || of != fmt.Sprint(i) {
			t.Errorf("order %d: its answer %s is of order %q, %v", i, answers[i], of, err)
		}
	})
	p.stop()
	repeated := 0
	for _, e := range o.effects {
		repeated += e.calls - 1
	}
	if repeated > 0 {
		t.Errorf("%d calls were repeated, although the server has stopped in time", repeated)
	}
	o.recorded(filepath.Join(dir, "runs.db"), orders, orders)
	if t.Failed() {
		t.Log(p.log.String())
	}
}
