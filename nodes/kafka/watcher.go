package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A watcher knows when a client that was connected loses its brokers, as the client goes on
// by itself. It logs that: at first, and then each time the pause has doubled.
type watcher struct {
	*connector
	mu struct {
		sync.Mutex
		begun   bool // the first connection is reported by the runtime
		pause   time.Duration
		next    time.Time
		logged  bool      // a failure was logged
		failure error     // since a broker has answered; nil if none
		heard   time.Time // when one has
	}
}

// silence is how long no broker answers before the client is not ready. A source asks each
// of them once a second.
const silence = 3 * time.Second

func (w *watcher) begin() {
	w.mu.Lock()
	w.mu.begun, w.mu.failure, w.mu.heard = true, nil, w.clock.Now()
	w.mu.Unlock()
}

// ready returns why no broker can be reached. Any goroutine may call it.
func (w *watcher) ready() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.failure == nil || w.clock.Now().Sub(w.mu.heard) < silence {
		return nil
	}
	return fmt.Errorf("no broker answers any more: %w", w.mu.failure)
}

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (w *watcher) OnBrokerConnect(meta kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	address, now := net.JoinHostPort(meta.Host, fmt.Sprint(meta.Port)), w.clock.Now()
	w.mu.Lock()
	again := err == nil && w.mu.logged
	warn := err != nil && w.mu.begun && !now.Before(w.mu.next) && !errors.Is(err, context.Canceled)
	switch {
	case err == nil:
		w.mu.logged, w.mu.pause, w.mu.next = false, 0, time.Time{}
	case warn:
		w.mu.logged = true
		w.mu.pause = min(max(2*w.mu.pause, time.Second), time.Minute)
		w.mu.next = now.Add(w.mu.pause)
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		w.mu.failure = err
	}
	w.mu.Unlock()
	if again {
		w.log.Info("connected again", "broker", address)
	}
	if warn {
		w.log.Warn("the broker cannot be reached, and is tried again", "broker", address, "error", err)
	}
}

// OnBrokerRead implements [kgo.HookBrokerRead]. A connection alone may lead only to a proxy.
func (w *watcher) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case err == nil:
		w.mu.failure, w.mu.heard = nil, w.clock.Now()
	case !errors.Is(err, context.Canceled):
		w.mu.failure = err
	}
}
