package app

import (
	"os"
	"sync"
	"syscall"
	"time"
)

// repeatedWithin is how long after a SIGTERM another one is the same: GNU timeout sends it
// to the program and to its process group, and supervisors do likewise.
const repeatedWithin = 500 * time.Millisecond

// repeated passes signals on, except for a SIGTERM that repeats the one before. end ends
// that, and returns when it has.
func repeated(signals <-chan os.Signal, now func() time.Time) (once <-chan os.Signal, end func()) {
	out := make(chan os.Signal, cap(signals))
	stop := make(chan struct{})
	var worker sync.WaitGroup
	worker.Go(func() {
		var last time.Time
		for {
			select {
			case <-stop:
				return
			case sig := <-signals:
				if sig == syscall.SIGTERM {
					at := now()
					if !last.IsZero() && at.Sub(last) < repeatedWithin {
						continue
					}
					last = at
				}
				select {
				case out <- sig:
				case <-stop:
					return
				}
			}
		}
	})
	return out, func() {
		close(stop)
		worker.Wait()
	}
}
