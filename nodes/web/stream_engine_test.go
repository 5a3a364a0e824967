package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
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

// openEvents opens a stream of events.
func openEvents(t *testing.T, f *flowtest.Flow) (*http.Response, *bufio.Scanner) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+f.Address(), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := f.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp, bufio.NewScanner(resp.Body)
}

// A stream goes on in the workflow that it began with, while others begin in the next.
func TestStreamAcrossReloads(t *testing.T) {
	w := serve(t, ticks("old"))
	_, old := openEvents(t, w)
	old.Scan()
	var reloads sync.WaitGroup
	reloads.Go(func() {
		for i := range 20 {
			w.Load(ticks(fmt.Sprintf("new%d", i)))
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
	_, next := openEvents(t, w)
	count(next, "new19")
}

// A shutdown waits for streams that end, and ends the others when the grace is over:
// without an event, so that their clients come back.
func TestStreamAtShutdown(t *testing.T) {
	w := serve(t, ticks("tick"))
	_, lines := openEvents(t, w)
	lines.Scan()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	var shutdown sync.WaitGroup
	shutdown.Go(func() {
		if err := w.Engine().Shutdown(ctx); err == nil {
			t.Error("the stream was over before the grace")
		}
	})
	text := ""
	for lines.Scan() {
		text += lines.Text() + "\n"
	}
	shutdown.Wait()
	if lines.Err() != nil || strings.Contains(text, "event: error") || strings.Contains(text, "event: end") || !strings.Contains(text, "retry: 1000\n\nevent: tick\ndata: 1\n\n") && !strings.Contains(text, "event: tick\ndata: 1\n\n") {
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
`)
	resp, lines := openEvents(t, w)
	lines.Scan()
	resp.Body.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := w.Engine().Shutdown(ctx); err != nil {
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
`, full))
			const deaf = 20
			for range deaf {
				conn, err := net.Dial("tcp", w.Address())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				if err := conn.(*net.TCPConn).SetReadBuffer(4 << 10); err != nil {
					t.Fatal(err)
				}
				fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n")
			}
			_, lines := openEvents(t, w)
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
			for w.Figure("subscribe_subscriptions") < deaf+1 {
				<-time.After(time.Millisecond)
			}
			// Payloads are published until the buffers of all sockets, and of all subscriptions,
			// are full.
			for n := 0; ; n++ {
				payload := fmt.Sprintf("%012000d", n)
				answer := w.Request("POST", "/", payload, "Content-Type", "text/plain").Body
				heard(payload)
				if full == "close" && answer == `{"subscriptions":1}` || full == "drop_oldest" && w.Figure("topics_dropped_total") >= 10*deaf {
					break
				}
				if full == "drop_oldest" && answer != fmt.Sprintf(`{"subscriptions":%d}`, deaf+1) {
					t.Fatalf("got %s", answer)
				}
			}
		})
	}
}

// subscribed is a workflow whose streams are of a topic, to which POST publishes. An event that
// has the version shows that the stream is open.
func subscribed(version int) string {
	return fmt.Sprintf(`
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: routes, port: in}]}}
- kind: router
  name: routes
  routes: [{method: GET, path: /, port: "out[0]"}, {method: POST, path: /, port: "out[1]"}]
  ports: {"out[0]": [{name: open, port: in}], "out[1]": [{name: body, port: in}]}
- {kind: pipe, name: open, ports: {"out[0]": [{name: hello, port: in}], "out[1]": [{name: live, port: in}]}}
- {kind: snippet, name: hello, language: text, code: version %d, ports: {out: [{name: part, port: in}]}}
- {kind: emit, name: part}
- {kind: subscribe, name: live, topic: all, buffer: 1000, ports: {out: [{name: slow, port: in}]}}
- {kind: sleep, name: slow, interval: 1ms, ports: {out: [{name: next, port: in}]}}
- {kind: emit, name: next}
- {kind: snippet, name: body, language: cel, code: body, ports: {out: [{name: tell, port: in}]}}
- {kind: publish, name: tell, topic: all}
`, version)
}

// A reload ends the streams of subscribe without an event, upon which pages close for ever: a
// client that comes back after each, as an EventSource does, is there after 50 reloads. It
// gets all that was published while it was subscribed, once and in order, also what waited when
// the reload came.
func TestSubscribersComeBack(t *testing.T) {
	w := serve(t, subscribed(0))
	stop := make(chan struct{})
	var took []string // the numbers that a subscription took
	var publishing sync.WaitGroup
	publishing.Go(func() {
		bursts := time.NewTicker(20 * time.Millisecond)
		defer bursts.Stop()
		for n := 0; ; n++ {
			if n%10 == 0 { // within a burst, each request waits for the answer to the one before
				select {
				case <-stop:
					return
				case <-bursts.C:
				}
			}
			number := strconv.Itoa(n)
			resp, err := w.Client().Post("http://"+w.Address(), "text/plain", strings.NewReader(number))
			if err != nil {
				t.Error(err)
				return
			}
			answer, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			switch string(answer) {
			case `{"subscriptions":1}`:
				took = append(took, number)
			case `{"subscriptions":0}`:
			default:
				t.Errorf("got %s, %v", answer, err)
				return
			}
		}
	})
	var got []string
	for version := range 51 {
		_, lines := openEvents(t, w)
		for lines.Scan() && lines.Text() != fmt.Sprintf("data: version %d", version) {
		}
		next, reloaded := 0, version == 50
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "event:") {
				t.Fatalf("version %d: got %s", version, lines.Text())
			}
			number, ok := strings.CutPrefix(lines.Text(), "data: ")
			if !ok {
				continue
			}
			got = append(got, number)
			if next++; next < 15 {
				continue
			}
			if version == 50 {
				break
			}
			if !reloaded {
				reloaded = true
				publishing.Go(func() { w.Load(subscribed(version + 1)) })
			}
		}
		if version == 50 {
			break
		}
		if lines.Err() != nil {
			t.Fatalf("version %d ended with %v: a browser drops what it has read last", version, lines.Err())
		}
	}
	close(stop)
	publishing.Wait()
	if len(took) < len(got) || !slices.Equal(got, took[:len(got)]) {
		i := 0
		for i < len(got) && i < len(took) && got[i] == took[i] {
			i++
		}
		t.Errorf("got %d numbers, want %d; they differ from %v on", len(got), len(took), took[i:min(i+10, len(took))])
	}
	if logs := w.Log(); strings.Contains(logs, "level=ERROR") {
		t.Errorf("got log %s", logs)
	}
}
