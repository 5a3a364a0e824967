package web_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// ticks is a workflow that sends the same event over and over.
func ticks(event string) string {
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: list, port: in}]}}
- {kind: snippet, name: list, language: json, code: '[%s]', ports: {out: [{name: each, port: in}]}}
- {kind: for, name: each, concurrency: 1, ports: {"out[0]": [{name: wait, port: in}], "out[1]": [{name: end, port: in}]}}
- {kind: sleep, name: wait, interval: 1ms, ports: {out: [{name: part, port: in}]}}
- {kind: emit, name: part, event: %s}
- {kind: snippet, name: end, language: text, code: done}
`, strings.TrimSuffix(strings.Repeat("1,", 400), ","), event)
}

// events opens a stream of events.
func (w *world) events() (*http.Response, *bufio.Scanner) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), "GET", "http://"+w.addr, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := w.client.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { resp.Body.Close() })
	return resp, bufio.NewScanner(resp.Body)
}

// A stream goes on in the workflow that it began with, while others begin in the next.
func TestStreamAcrossReloads(t *testing.T) {
	w := serve(t, ticks("old"), false)
	_, old := w.events()
	old.Scan()
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for i := range 20 {
			w.apply(ticks(fmt.Sprintf("new%d", i)))
		}
	})
	count := func(lines *bufio.Scanner, event string) {
		t.Helper()
		n, end := 0, false
		for lines.Scan() {
			switch lines.Text() {
			case "event: " + event:
				n++
			case "event: end":
				end = true
			}
		}
		if n != 400 || !end || lines.Err() != nil {
			t.Errorf("got %d events %s, the end %v, %v; want 400", n, event, end, lines.Err())
		}
	}
	count(old, "old")
	reloads.Wait()
	_, next := w.events()
	count(next, "new19")
}

// A shutdown waits for streams that end, and cuts the others when the grace is over:
// without an event, so that their clients come back.
func TestStreamAtShutdown(t *testing.T) {
	w := serve(t, ticks("tick"), false)
	_, lines := w.events()
	lines.Scan()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var shutdown sync.WaitGroup
	shutdown.Go(func() {
		if err := w.engine.Shutdown(ctx); err == nil {
			t.Error("the stream was over before the grace")
		}
	})
	text := ""
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	shutdown.Wait()
	if lines.Err() == nil || strings.Contains(text, "event: error") || strings.Contains(text, "event: end") || !strings.Contains(text, "retry: 1000\n\nevent: tick\ndata: 1\n\n") && !strings.Contains(text, "event: tick\ndata: 1\n\n") {
		t.Errorf("got error %v, %.300q", lines.Err(), text)
	}
}

// A client that leaves ends its process, whatever that waits for.
func TestStreamClientLeaves(t *testing.T) {
	w := serve(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: both, port: in}]}}
- {kind: pipe, name: both, ports: {"out[0]": [{name: part, port: in}], "out[1]": [{name: wait, port: in}]}}
- {kind: emit, name: part}
- {kind: sleep, name: wait, interval: 1h}
`, false)
	resp, lines := w.events()
	lines.Scan()
	resp.Body.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.engine.Shutdown(ctx); err != nil {
		t.Errorf("the process did not end: %v", err)
	}
}
