package web_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// Each event of the streams has the time when it was sent, in nanoseconds since start.
var start = time.Now()

func since() int64 { return int64(time.Since(start)) }

// plainEvents is what a program without an engine would be: events of a handler that
// flushes each.
func plainEvents(w http.ResponseWriter, r *http.Request) {
	parts, _ := strconv.Atoi(r.URL.Query().Get("parts"))
	pause, _ := time.ParseDuration(r.URL.Query().Get("pause"))
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	flusher := http.NewResponseController(w)
	var timer *time.Timer
	for range parts {
		if pause > 0 {
			if timer == nil {
				timer = time.NewTimer(pause)
			} else {
				timer.Reset(pause)
			}
			select {
			case <-timer.C:
			case <-r.Context().Done():
				return
			}
		}
		if _, err := fmt.Fprintf(w, "data: %d\n\n", since()); err != nil {
			return
		}
		if err := flusher.Flush(); err != nil {
			return
		}
	}
	io.WriteString(w, "event: end\ndata: \n\n")
}

// eventServers are the addresses of an engine and of plainEvents. Both answer with a
// number of events, with a pause before each.
func eventServers(t testing.TB) map[string]string {
	w := serve(t, `
- {kind: listener, name: web, host: 127.0.0.1, port: 0, ports: {out: [{name: events, port: in}]}}
- {kind: test_events, name: events}
`)
	plain := httptest.NewServer(http.HandlerFunc(plainEvents))
	t.Cleanup(plain.Close)
	return map[string]string{"engine": "http://" + w.Address(), "plain": plain.URL}
}

// listen reads events of many clients and returns how late each was.
func listen(t testing.TB, url string, clients, parts int, pause time.Duration) (late []time.Duration) {
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport}
	var all sync.WaitGroup
	each := make([][]time.Duration, clients)
	for i := range clients {
		if pause > 0 {
			<-time.After(pause / time.Duration(clients) * 4) // they come one after the other
		}
		all.Go(func() {
			r, _ := http.NewRequestWithContext(context.Background(), "GET", fmt.Sprintf("%s/?parts=%d&pause=%s", url, parts, pause), nil)
			r.Header.Set("Accept", "text/event-stream")
			resp, err := client.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for lines.Scan() {
				if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && text != "" {
					sent, _ := strconv.ParseInt(text, 10, 64)
					each[i] = append(each[i], time.Duration(since()-sent))
				}
			}
			if len(each[i]) != parts {
				t.Errorf("client %d got %d events, want %d", i, len(each[i]), parts)
			}
		})
	}
	all.Wait()
	return slices.Concat(each...)
}

// BenchmarkEvents sends events to 64 clients as fast as they take them, and to 1,000
// clients at 20 a second; for those it reports how late the events arrive.
func BenchmarkEvents(b *testing.B) {
	for _, name := range []string{"engine", "plain"} {
		b.Run("full/"+name, func(b *testing.B) {
			url := eventServers(b)[name]
			b.ResetTimer()
			listen(b, url, 64, b.N/64+1, 0)
		})
	}
	for _, name := range []string{"engine", "plain"} {
		b.Run("paced/"+name, func(b *testing.B) {
			url := eventServers(b)[name]
			for b.Loop() {
				late := listen(b, url, 1000, 60, 50*time.Millisecond)
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-µs")
				b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-µs")
			}
		})
	}
}

// eventsDef sends events as a loop of sleep and emit would: a pause, then a part.
var eventsDef = &node.Def{
	Kind: "test_events", Summary: "Sends events.",
	In: []node.Port{{Name: "in"}}, Out: []node.Port{{Name: "out"}},
	Traits: node.Fixed(node.Traits{Is: node.SendsParts}),
	New: func(*node.Init) (node.Node, error) {
		return node.ReceiverFunc(func(p node.Process, pkt node.Packet) node.Result {
			query, _ := pkt.Payload.Get("query")
			first := func(name string) string {
				list, _ := query.Get(name)
				v := list.At(0)
				s, _ := v.AsString()
				return s
			}
			left, _ := strconv.Atoi(first("parts"))
			pause, _ := time.ParseDuration(first("pause"))
			parts, ok := node.PartsOf(p.Context())
			if !ok {
				return node.Fail(errors.New("no parts"))
			}
			var next node.Then
			then := func(p node.Process, _ node.Response) node.Result {
				return node.After(node.SendPart(p, parts, value.Int(since())), next)
			}
			next = func(p node.Process, resp node.Response) node.Result {
				if resp.IsError() {
					return node.Respond(resp)
				}
				if left--; left < 0 {
					return node.None()
				}
				if pause == 0 {
					return then(p, node.Response{})
				}
				return node.Sleep(pause, then)
			}
			return next(p, node.Response{})
		}), nil
	},
}
