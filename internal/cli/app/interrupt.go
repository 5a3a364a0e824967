package app

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
)

// Interruptible runs f. The first signal cancels its context, and the command ends
// once f has returned. The second signal ends the command immediately.
func (a *App) Interruptible(ctx context.Context, f func(context.Context) error) error {
	signals, stop := a.Signals(syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	var worker sync.WaitGroup
	worker.Go(func() { done <- f(ctx) })
	select {
	case err := <-done:
		worker.Wait()
		return err
	case sig := <-signals:
		cancel()
		select {
		case err := <-done:
			worker.Wait()
			if err == nil || !errors.Is(err, context.Canceled) {
				return err // f ended before it saw the signal
			}
			return &ExitError{Code: SignalCode(sig), Err: fmt.Errorf("cancelled (%s)", sig)}
		case second := <-signals:
			return &ExitError{Code: SignalCode(second), Err: fmt.Errorf("ended immediately (%s)", second)}
		}
	}
}
