package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
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

// Clients that never read are not waited for: each payload reaches the one that reads. They
// lose payloads, or their subscriptions end.
func TestStreamDeafSubscribers(t *testing.T) {
	for _, full := range []string{"drop_oldest", "close"} {
		t.Run(full, func(t *testing.T) {
			w := serve(t, fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /, port: "out[0]"}, {method: POST, path: /, port: "out[1]"}]
  ports: {"out[0]": [{name: hello, port: in}], "out[1]": [{name: body, port: in}]}
- {kind: pipe, name: hello, ports: {"out[0]": [{name: first, port: in}], "out[1]": [{name: live, port: in}]}}
- {kind: snippet, name: first, language: text, code: hello, ports: {out: [{name: part, port: in}]}}
- {kind: subscribe, name: live, topic: all, buffer: 4, full: %s, ports: {out: [{name: part, port: in}]}}
- {kind: emit, name: part}
- {kind: snippet, name: body, language: cel, code: body, ports: {out: [{name: tell, port: in}]}}
- {kind: publish, name: tell, topic: all}
`, full), false)
			const deaf = 20
			for range deaf {
				conn, err := net.Dial("tcp", w.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
			}
			_, lines := w.events()
			heard := func(want string) {
				t.Helper()
				for lines.Scan() {
					if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
						if text != want {
							t.Fatalf("got %.60q, want %.60q", text, want)
						}
						return
					}
				}
				t.Fatalf("the stream ended: %v", lines.Err())
			}
			heard("hello")
			figure := func(name string) (sum float64) {
				for _, f := range w.engine.Metrics().Figures {
					if f.Metric.Name == name {
						sum += f.Metric.Value
					}
				}
				return sum
			}
			for figure("subscribe_subscriptions") < deaf+1 {
				<-time.After(time.Millisecond)
			}
			// Payloads are published until the buffers of all sockets, and of all subscriptions,
			// are full.
			for n := 0; ; n++ {
				payload := fmt.Sprintf("%012000d", n)
				resp, err := w.client.Post("http://"+w.addr, "text/plain", strings.NewReader(payload))
				if err != nil {
					t.Fatal(err)
				}
				answer, err := io.ReadAll(resp.Body)
				if resp.Body.Close(); err != nil {
					t.Fatal(err)
				}
				heard(payload)
				if full == "close" && string(answer) == `{"subscriptions":1}` || full == "drop_oldest" && figure("topics_dropped_total") >= 10*deaf {
					break
				}
				if full == "drop_oldest" && string(answer) != fmt.Sprintf(`{"subscriptions":%d}`, deaf+1) {
					t.Fatalf("got %s", answer)
				}
			}
		})
	}
}

// subscribed is a workflow whose streams are of a topic. An event that has the version tells
// that the stream is open.
func subscribed(version int) string {
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: open, port: in}]}}
- {kind: pipe, name: open, ports: {"out[0]": [{name: hello, port: in}], "out[1]": [{name: live, port: in}]}}
- {kind: snippet, name: hello, language: text, code: version %d, ports: {out: [{name: part, port: in}]}}
- {kind: emit, name: part}
- {kind: subscribe, name: live, topic: all, ports: {out: [{name: next, port: in}]}}
- {kind: emit, name: next}
`, version)
}

// A reload cuts the streams of subscribe without an end, upon which pages close for ever: a
// client that comes back after each cut, as an EventSource does, is there after 50 reloads.
func TestSubscribersComeBack(t *testing.T) {
	w := serve(t, subscribed(0), false)
	for version := range 51 {
		_, lines := w.events()
		for lines.Scan() && lines.Text() != fmt.Sprintf("data: version %d", version) {
		}
		if version == 50 {
			break
		}
		w.apply(subscribed(version + 1))
		text := ""
		for lines.Scan() {
			text += lines.Text() + "\n"
		}
		if lines.Err() == nil || strings.Contains(text, "event:") {
			t.Fatalf("version %d ended with %v, %q", version, lines.Err(), text)
		}
	}
	if got := w.logs.String(); strings.Contains(got, "level=ERROR") {
		t.Errorf("got log %s", got)
	}
}
