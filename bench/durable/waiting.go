package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/bench/server"
	"github.com/uniflow-labs/uniflow/journal"
)

const (
	dueTogether = 10_000
	signalRate  = 1_000 // a second
)

// waits is a server of runs that wait, and of signals. What is resumed calls a service.
const waits = `
- kind: listener
  name: orders
  host: 127.0.0.1
  port: %[1]s
  durability: {level: checkpoint, when: '"Idempotency-Key" in header'}
  ports: {out: [{name: routes}]}
- kind: router
  name: routes
  routes:
  - {method: POST, path: /orders, port: 'out[0]'}
  - {method: POST, path: /signal, port: 'out[1]'}
  - {method: GET, path: /ping, port: 'out[2]'}
  - {method: POST, path: /orders/soon, port: 'out[3]'}
  ports: {'out[0]': [{name: approval}], 'out[1]': [{name: approve}], 'out[2]': [{name: pong}], 'out[3]': [{name: soon}]}
- {kind: wait, name: approval, event: approved, key: '"the first"', timeout: 24h, ports: {out: [{name: approved}], timeout: [{name: late}]}}
- {kind: wait, name: soon, event: approved, key: '"the second"', timeout: 5s, ports: {timeout: [{name: late}]}}
- {kind: snippet, name: approved, language: cel, code: '{"body": {"key": self.signal}}', ports: {out: [{name: resumed}]}}
- {kind: snippet, name: late, language: cel, code: '{"body": {"key": ""}}', ports: {out: [{name: resumed}]}}
- {kind: http, name: resumed, method: POST, url: %[2]q}
- {kind: signal, name: approve, event: approved, key: 'self.query.key[0]', payload: 'self.query.key[0]', ports: {out: [{name: thanks}]}}
- {kind: snippet, name: thanks, language: cel, code: '{"status": 204}'}
- {kind: snippet, name: pong, language: text, code: pong}
`

// A bell is the service that runs call when they are resumed: with the key of the signal, or without one when their
// time is over.
type bell struct {
	mu      sync.Mutex
	late    []time.Time
	resumed map[string]time.Time
}

func (b *bell) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	now := time.Now()
	var body struct{ Key string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(to, err.Error(), http.StatusBadRequest)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if body.Key == "" {
		b.late = append(b.late, now)
	} else if _, ok := b.resumed[body.Key]; !ok {
		b.resumed[body.Key] = now
	}
}

// until waits until the runs have called as often as it must be.
func (b *bell) until(ctx context.Context, late, resumed int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		b.mu.Lock()
		nLate, nResumed := len(b.late), len(b.resumed)
		b.mu.Unlock()
		if nLate >= late && nResumed >= resumed {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d of %d runs are resumed by time, and %d of %d by a signal: %w", nLate, late, nResumed, resumed, ctx.Err())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// measureWaiting is D8. The runs are copies of one that the program has made, with keys of their own. Those that are
// due together are copies of another, whose time is over soon after.
func measureWaiting(ctx context.Context, l *lab) (err error) {
	runs := 1_000_000
	if l.small() {
		runs = 100_000
	}
	l.files++
	file := l.File(fmt.Sprintf("%d-waiting", l.files))
	b := &bell{resumed: make(map[string]time.Time)}
	service := &http.Server{Handler: b, ReadHeaderTimeout: time.Minute}
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = service.Serve(at) }) // ends with ErrServerClosed
	defer func() {
		err = errors.Join(err, service.Close())
		serving.Wait()
	}()
	addr, err := server.FreeAddr() // the same for all starts, as runs are pinned to the document
	if err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}
	document := l.File("waiting.yaml")
	if err := os.WriteFile(document, fmt.Appendf(nil, waits, port, "http://"+at.Addr().String()), 0o600); err != nil {
		return err
	}
	start := func() (*server.Server, error) {
		return server.Start(ctx, server.Options{
			Name: "waiting", Addr: addr, Path: "/ping", Program: l.Binary, Log: l.File("waiting.log"),
			Args: []string{"start", "--from-specs", document, "--journal", "sqlite:" + file},
		})
	}
	key := func(i int) string { return fmt.Sprint("order-", i) }
	idle, err := l.order(ctx, start, addr, "/orders")
	if err != nil {
		return err
	}
	err = copies(ctx, file, runs, func(run *journal.Run, records []journal.Record, all []journal.Wait, b *journal.Batch, i int) {
		b.Records = append(b.Records, records...)
		for _, w := range all {
			w.Run, w.Key = run.ID, key(i)
			b.Waits = append(b.Waits, w)
		}
	})
	if err != nil {
		return err
	}
	l.Progress("  %d runs wait", runs)
	loaded, took, err := l.signalled(ctx, start, addr, key, b)
	if err != nil {
		return err
	}
	if _, err := l.order(ctx, start, addr, "/orders/soon"); err != nil {
		return err
	}
	err = copies(ctx, file, dueTogether, func(run *journal.Run, records []journal.Record, all []journal.Wait, b *journal.Batch, _ int) {
		b.Records = append(b.Records, records...)
		for _, w := range all {
			w.Run = run.ID
			b.Waits = append(b.Waits, w)
		}
	})
	if err != nil {
		return err
	}
	running, err := start()
	if err != nil {
		return err
	}
	if err := b.until(ctx, dueTogether, 0); err != nil {
		return errors.Join(err, errors.New(running.Output()), running.Stop())
	}
	if err := errors.Join(running.Stop(), remove(file)); err != nil {
		return err
	}
	slices.SortFunc(b.late, time.Time.Compare)
	slices.Sort(took)
	s := side{Line: "D8", Name: fmt.Sprintf("%d runs wait, from a signal to the next effect", runs), figures: figures{
		Rate: signalRate, P50: took[len(took)/2].Seconds() * 1e3, P99: took[len(took)*99/100].Seconds() * 1e3, RSS: loaded - idle,
	}}
	l.enter(0, s)
	l.most(fmt.Sprintf("D8, MB more with %d runs that wait", runs), 100, s.RSS)
	l.most(fmt.Sprintf("D8, s from the first to the last of %d due together", dueTogether), 3, b.late[dueTogether-1].Sub(b.late[0]).Seconds())
	l.most("D8, ms from an accepted signal until the run goes on, p99", 50, s.P99)
	return nil
}

// order starts the server, orders, and stops it: the run waits then. It returns what the server uses of the memory
// before.
func (l *lab) order(ctx context.Context, start func() (*server.Server, error), addr, path string) (idle float64, err error) {
	running, err := start()
	if err != nil {
		return 0, err
	}
	idle, err = settled(ctx, running)
	return idle, errors.Join(err, post(ctx, "http://"+addr+path, http.StatusAccepted), running.Stop())
}

// settled returns what a server uses of the memory once it has done what it does at its start.
func settled(ctx context.Context, s *server.Server) (float64, error) {
	select {
	case <-time.After(2 * time.Second):
		return s.Resident()
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// signalled starts the server, and sends signals. It returns what the server uses of the memory before, and how long
// after the signals the runs went on.
func (l *lab) signalled(ctx context.Context, start func() (*server.Server, error), addr string, key func(int) string, b *bell) (loaded float64, took []time.Duration, err error) {
	running, err := start()
	if err != nil {
		return 0, nil, err
	}
	defer func() { err = errors.Join(err, running.Stop()) }()
	if loaded, err = settled(ctx, running); err != nil {
		return 0, nil, err
	}
	if took, err = l.signals(ctx, "http://"+addr+"/signal?key=", key, b); err != nil {
		return 0, nil, fmt.Errorf("%w: %s", err, running.Output())
	}
	return loaded, took, nil
}

// signals sends signals at their rate, each to a run of its own, and returns how long after their acceptance the runs
// went on.
func (l *lab) signals(ctx context.Context, url string, key func(int) string, b *bell) ([]time.Duration, error) {
	n := int(l.span.Seconds() * signalRate)
	accepted, failed := make([]time.Time, n), make([]error, n)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / signalRate)
	defer tick.Stop()
	for i := range n {
		<-tick.C
		all.Go(func() {
			failed[i] = post(ctx, url+key(i), http.StatusNoContent)
			accepted[i] = time.Now()
		})
	}
	all.Wait()
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	if err := b.until(ctx, 0, n); err != nil {
		return nil, err
	}
	took := make([]time.Duration, n)
	for i := range took {
		took[i] = max(b.resumed[key(i)].Sub(accepted[i]), 0) // it may go on before the client has its answer
	}
	return took, nil
}

// client keeps its connections.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}

// post sends an empty request, which is one for a durable process if it is an order.
func post(ctx context.Context, url string, want int) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	if err != nil {
		return err
	}
	if strings.Contains(url, "/orders") {
		req.Header.Set("Idempotency-Key", "the first")
		req.Header.Set("Prefer", "respond-async")
	}
	resp, err := client.Do(req)
	if err != nil {
		return err
	}
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != want {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	return errors.Join(err, resp.Body.Close())
}
