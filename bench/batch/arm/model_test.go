package arm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
)

func TestAppendJSON(t *testing.T) {
	f := func(e Event, size int) {
		t.Helper()
		got := AppendJSON([]byte("x"), &e, size)[1:]
		if len(got) != size || !json.Valid(got) {
			t.Errorf("got %d bytes, %s, want %d of JSON", len(got), got, size)
		}
		seen := find(got)
		if len(seen) != 1 || seen[0] != (stamp{e.Seq, e.Time}) {
			t.Errorf("got %v of %s, want %d and %d", seen, got, e.Seq, e.Time)
		}
	}
	f(Event{}, JSONSize)
	f(Event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}, JSONSize)
	f(Event{Seq: 1}, JSONSize)
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	if invariant.Race {
		return // it allocates itself
	}
	e := Event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}
	buf := make([]byte, 0, JSONSize)
	if n := testing.AllocsPerRun(100, func() { buf = AppendFlat(AppendJSON(buf[:0], &e, JSONSize), &e) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestFind(t *testing.T) {
	f := func(body string, want ...stamp) {
		t.Helper()
		if got := find([]byte(body)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
	f("")
	f("[]")
	f(`[{"seq":1,"time":10},{"seq":2,"time":20}]`, stamp{1, 10}, stamp{2, 20})
	f("{\"seq\":1,\"time\":10}\n{\"seq\":2,\"time\":20}\n", stamp{1, 10}, stamp{2, 20})
	f(`{"batch":[{"type":"capture","properties":{"payload":"x","seq":3,"time":30},"timestamp":"y"}]}`, stamp{3, 30})
	f(`[{"seq":1},{"seq":2,"time":20}]`, stamp{2, 20}) // the time is not that of the next
	f(`[{"seq":`)
}

func TestQuantile(t *testing.T) {
	f := func(q, want float64, sorted ...int32) {
		t.Helper()
		if got := quantile(sorted, q); got != want {
			t.Errorf("%v of %v: got %v, want %v", q, sorted, got, want)
		}
	}
	f(0.5, 0)
	f(0.5, 7, 7000)
	f(0.99, 7, 7000)
	f(0.5, 1, 1000, 2000)
	f(0.51, 2, 1000, 2000)
	f(1, 3, 1000, 2000, 3000)
	f(0, 1, 1000, 2000, 3000)
	all := make([]int32, 1000)
	for i := range all {
		all[i] = int32(i+1) * 1000
	}
	f(0.99, 990, all...)
	f(0.5, 500, all...)
}

// post sends a body and returns the status of the answer.
func post(t *testing.T, url string, body []byte) int {
	t.Helper()
	resp, err := http.Post(url, "", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestReceiver sends every kind of body, and begins and ends runs.
func TestReceiver(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	s := httptest.NewServer(NewReceiver())
	t.Cleanup(s.Close)
	c := NewClient(s.URL, "test")
	now := time.Now().UnixNano()
	array := AppendArray(nil, []Event{{Seq: 0, Time: now}, {Seq: 1, Time: now}}, JSONSize)
	lines := append(AppendJSON(nil, &Event{Seq: 1, Time: now}, JSONSize), '\n')
	lines = append(AppendJSON(lines, &Event{Seq: 5, Time: now}, JSONSize), '\n')
	bodies := [][]byte{array, lines, []byte("{")}
	if got := post(t, c.URL(), array); got != http.StatusNotFound {
		t.Errorf("got status %d before the run, want 404", got)
	}
	for _, tt := range []struct {
		run  Run
		want Counts
	}{
		{Run{Latency: time.Millisecond, Expect: 4}, Counts{Requests: 3, Events: 4, Distinct: 2, Duplicates: 1, Foreign: 1, Malformed: 1}},
		{Run{Discard: true}, Counts{Requests: 3}},
	} {
		if err := c.Begin(t.Context(), tt.run); err != nil {
			t.Fatal(err)
		}
		for _, body := range bodies {
			if got := post(t, c.URL()+"/", body); got != http.StatusOK {
				t.Errorf("got status %d, want 200", got)
			}
		}
		got, err := c.Counts(t.Context())
		if err != nil || !tt.run.Discard && (got.AgeP50 < 1 || got.AgeP99 < got.AgeP50) {
			t.Errorf("got %+v, %v, want the latency in the ages", got, err)
		}
		if got.AgeP50, got.AgeP99 = 0, 0; got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Counts(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v after the end, want 404", err)
	}
	for _, bad := range []Run{{Expect: -1}, {Latency: -1}, {Expect: maxExpect + 1}} {
		if err := c.Begin(t.Context(), bad); err == nil {
			t.Errorf("%+v: got no error, want one", bad)
		}
	}
}
