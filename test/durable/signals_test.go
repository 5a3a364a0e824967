//go:build unix

package durable

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
)

// waiting answers an order with the signal for it. A signal of a durable process has an id, which is that of its
// request.
const waiting = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %d
  durability: {level: checkpoint, key: 'header["Idempotency-Key"][0]'}
  ports: {out: [{name: routes}]}
- kind: router
  name: routes
  routes:
  - {method: POST, path: /orders, port: 'out[0]'}
  - {method: POST, path: /signal, port: 'out[1]'}
  ports: {'out[0]': [{name: approval}], 'out[1]': [{name: approve}]}
- {kind: wait, name: approval, event: approved, key: 'string(int(self.body.order))', timeout: 1h, ports: {out: [{name: done}]}}
- {kind: snippet, name: done, language: cel, code: '{"body": self.signal}'}
- {kind: signal, name: approve, event: approved, key: 'self.query.key[0]', payload: 'self.query.id[0]', ports: {out: [{name: thanks}]}}
- {kind: snippet, name: thanks, language: cel, code: '{"status": 204}'}
`

// send sends a signal until it is durable.
func send(ctx context.Context, url, key string) error {
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
		if err != nil {
			return err
		}
		req.Header.Set("Idempotency-Key", key)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch {
			case err == nil && resp.StatusCode == http.StatusNoContent:
				return nil
			case err == nil && resp.StatusCode != http.StatusServiceUnavailable && resp.StatusCode != http.StatusConflict:
				return fmt.Errorf("status %d: %s", resp.StatusCode, body)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestKillWaiting kills the server while runs wait for signals, are unloaded and are resumed, and signals are sent, some
// of them twice: each run gets its own.
func TestKillWaiting(t *testing.T) {
	const orders, crashes = 200, 5 // a run that waits in six crashes without a record, and is never unloaded, is dead
	port := freeport.Port(t)
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	p := newProgram(t, t.TempDir(), fmt.Sprintf(waiting, port))
	p.start()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	base := fmt.Sprintf("http://127.0.0.1:%d", port)
	answers := make([]string, orders)
	var clients sync.WaitGroup
	for i := range orders {
		clients.Go(func() {
			var err error
			if answers[i], err = order(ctx, base+"/orders", i); err != nil {
				t.Errorf("order %d: %v", i, err)
			}
		})
	}
	var senders sync.WaitGroup
	slots := make(chan struct{}, 8)
	for n, i := range rng.Perm(orders) {
		slots <- struct{}{}
		senders.Go(func() {
			defer func() { <-slots }()
			for range 1 + i%2 {
				if err := send(ctx, fmt.Sprintf("%s/signal?key=%d&id=for-%d", base, i, i), fmt.Sprint("signal-", i)); err != nil {
					t.Errorf("signal %d: %v", i, err)
				}
			}
		})
		if n%(orders/crashes) == orders/crashes/2 {
			p.crash()
		}
	}
	senders.Wait()
	clients.Wait()
	for i, got := range answers {
		if want := fmt.Sprintf("for-%d", i); got != want {
			t.Errorf("order %d got %q, want %q", i, got, want)
		}
	}
	p.stop()
	if t.Failed() {
		t.Log(p.log.String())
	}
}
