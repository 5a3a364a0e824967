package client

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node/content"
	"github.com/uniflow-labs/uniflow/value"
)

// These benchmarks measure the kind http against a client written by hand with net/http
// and encoding/json, at one server in the same process. Each iteration sends an order as
// JSON and decodes an answer of JSON.

type benchItem struct {
	SKU   string `json:"sku"`
	Count int    `json:"count"`
	Note  string `json:"note"`
}

type benchOrder struct {
	ID    string      `json:"id"`
	Items []benchItem `json:"items"`
}

func benchOrders(items int) benchOrder {
	o := benchOrder{ID: "ord-173"}
	for range items {
		o.Items = append(o.Items, benchItem{"a-173", 2, "leave at the door"})
	}
	return o
}

var benchSizes = []struct {
	name  string
	items int
}{{"small", 2}, {"10kB", 180}}

// benchServer answers each request with the same order.
func benchServer(tb testing.TB, items int) *httptest.Server {
	answer, err := json.Marshal(benchOrders(items))
	if err != nil {
		tb.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write(answer)
	}))
	tb.Cleanup(s.Close)
	return s
}

// handWritten calls a service as a program without the engine would.
func handWritten(tb testing.TB, url string, items int) func() error {
	transport := &http.Transport{MaxIdleConnsPerHost: 1024}
	tb.Cleanup(transport.CloseIdleConnections)
	c := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	order := benchOrders(items)
	return func() error {
		data, err := json.Marshal(order)
		if err != nil {
			return err
		}
		resp, err := c.Post(url, "application/json", bytes.NewReader(data))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		data, err = io.ReadAll(resp.Body)
		if err != nil {
			return err
		}
		var got benchOrder
		return json.Unmarshal(data, &got)
	}
}

func byNode(tb testing.TB, url string, items int) func() error {
	n := newService(tb, `{"url":"`+url+`"}`)
	data, err := json.Marshal(benchOrders(items))
	if err != nil {
		tb.Fatal(err)
	}
	order := flowtest.Parse(tb, string(data))
	ctx := tb.Context()
	return func() error {
		e := runClient(ctx, n, order)
		return e.AsError()
	}
}

func BenchmarkClient(b *testing.B) {
	for _, size := range benchSizes {
		for _, side := range []struct {
			name string
			make func(testing.TB, string, int) func() error
		}{{"node", byNode}, {"nethttp", handWritten}} {
			b.Run(side.name+"/"+size.name, func(b *testing.B) {
				s := benchServer(b, size.items)
				f := side.make(b, s.URL, size.items)
				b.ReportAllocs()
				for b.Loop() {
					if err := f(); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// stillType is the type of its answers.
var stillType = []string{"application/json"}

// A still is a transport without a network.
type still struct{ body string }

func (s still) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: 200, Proto: "HTTP/1.1", Header: http.Header{"Content-Type": stillType}, ContentLength: int64(len(s.body)),
		Body: io.NopCloser(strings.NewReader(s.body)), Request: r,
	}, nil
}

// withoutNetwork returns calls of a node and of net/http that do the same, on a
// transport without a network.
func withoutNetwork(tb testing.TB) (byNode, byHand func()) {
	const url, body = "http://127.0.0.1/orders", `{"id":"ord-173"}`
	n := newService(tb, `{"url":"`+url+`","method":"GET"}`)
	n.http.Transport = still{body}
	c := &http.Client{Transport: still{body}, Timeout: 30 * time.Second}
	ctx := tb.Context()
	byNode = func() {
		if v := runClient(ctx, n, value.Null()); v.IsError() {
			tb.Fatal(v.AsError())
		}
	}
	byHand = func() {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			tb.Fatal(err)
		}
		resp, err := c.Do(req)
		if err != nil {
			tb.Fatal(err)
		}
		data, err := content.ReadAll(resp.Body, resp.ContentLength, 1<<20, unlimited)
		if err != nil {
			tb.Fatal(err)
		}
		if _, _, err := content.Decode("application/json", data, unlimited); err != nil {
			tb.Fatal(err)
		}
		resp.Body.Close()
	}
	return byNode, byHand
}

// BenchmarkClientOverhead is the part of a call that is not the network.
func BenchmarkClientOverhead(b *testing.B) {
	byNode, byHand := withoutNetwork(b)
	b.Run("node", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			byNode()
		}
	})
	b.Run("nethttp", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			byHand()
		}
	})
}

func TestHTTPAllocs(t *testing.T) {
	if invariant.Race {
		return // allocations are not counted under the race detector
	}
	byNode, byHand := withoutNetwork(t)
	got, base := testing.AllocsPerRun(200, byNode), testing.AllocsPerRun(200, byHand)
	// The blocking result and its function; the payload of the answer.
	const more = 3
	if got > base+more {
		t.Errorf("a call: got %v allocations, want at most %v and %v of net/http", got, more, base)
	}
}
