package model

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestAppendJSON(t *testing.T) {
	f := func(e Event, size int) {
		t.Helper()
		got := AppendJSON([]byte("x"), &e, size)[1:]
		if len(got) != size || !json.Valid(got) {
			t.Errorf("got %d bytes, %s, want %d of JSON", len(got), got, size)
		}
		seen := sight(got)
		if len(seen) != 1 || seen[0] != (sighting{e.Seq, e.Time}) {
			t.Errorf("got %v of %s, want %d and %d", seen, got, e.Seq, e.Time)
		}
	}
	f(Event{}, JSONSize)
	f(Event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}, JSONSize)
	f(Event{Seq: 1}, LargeSize)
}

func TestAppendFlat(t *testing.T) {
	e := Event{Seq: 0x0102030405060708, Time: -1}
	got := AppendFlat(nil, &e)
	if len(got) != FlatSize || !bytes.Equal(got[:8], []byte{8, 7, 6, 5, 4, 3, 2, 1}) || got[8] != 255 {
		t.Errorf("got % x, want 32 bytes, the least first", got)
	}
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	if invariant.Race {
		return // it allocates itself
	}
	e := Event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}
	buf := make([]byte, 0, LargeSize)
	if n := testing.AllocsPerRun(100, func() { buf = AppendFlat(AppendJSON(buf[:0], &e, JSONSize), &e) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestSight(t *testing.T) {
	f := func(body string, want ...sighting) {
		t.Helper()
		if got := sight([]byte(body)); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
	f("")
	f("[]")
	f(`[{"seq":1,"time":10},{"seq":2,"time":20}]`, sighting{1, 10}, sighting{2, 20})
	f("{\"seq\":1,\"time\":10}\n{\"seq\":2,\"time\":20}\n", sighting{1, 10}, sighting{2, 20})
	f(`{"batch":[{"type":"capture","properties":{"payload":"x","seq":3,"time":30},"timestamp":"y"}]}`, sighting{3, 30})
	f(`[{"seq":1},{"seq":2,"time":20}]`, sighting{2, 20}) // the time is not that of the next
	f(`[{"seq":`)
}

func FuzzSight(f *testing.F) {
	f.Add([]byte(`[{"seq":1,"time":10},{"seq":2,"time":20}]`))
	f.Add([]byte(`"seq":"seq":"time":"time":9`))
	f.Add([]byte(`"seq":99999999999999999999,"time":99999999999999999999`))
	f.Fuzz(func(t *testing.T, body []byte) {
		seen := sight(body)
		if most := bytes.Count(body, []byte(`"seq":`)); len(seen) > most {
			t.Errorf("%q: got %d events, want at most %d", body, len(seen), most)
		}
		o := newOracle(10)
		o.arrive(seen, len(body), time.Unix(0, 0))
		o.answer(seen, time.Unix(0, 1))
		c := o.account()
		if c.Distinct+c.Duplicates+c.Foreign != c.Events || c.Events != int64(len(seen)) {
			t.Errorf("%q: got %+v, which does not add up", body, c)
		}
	})
}

func TestOracle(t *testing.T) {
	o := newOracle(4)
	at := time.Unix(100, 0)
	event := func(seq uint64, age time.Duration) sighting { return sighting{seq, at.Add(-age).UnixNano()} }
	first := []sighting{event(0, 10*time.Millisecond), event(1, 20*time.Millisecond), event(1, 20*time.Millisecond), event(9, 0)}
	o.arrive(first, 100, at)
	o.answer(first, at.Add(5*time.Millisecond))
	second := []sighting{event(0, 10*time.Millisecond), event(3, 40*time.Millisecond)}
	o.arrive(second, 50, at)
	got := o.account()
	want := Counts{
		Requests: 2, Events: 6, Distinct: 3, Duplicates: 2, Foreign: 1, Bytes: 150,
		Arrival: Ages{20, 40, 40}, Age: Ages{15, 25, 25}, // the second has not been answered
	}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
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

// TestMicros wants ages that do not fit to be at their limits.
func TestMicros(t *testing.T) {
	f := func(age time.Duration, want int32) {
		t.Helper()
		now := time.Unix(1000000, 0)
		if got := micros(now, now.Add(-age).UnixNano()); got != want {
			t.Errorf("%v: got %d, want %d", age, got, want)
		}
	}
	f(time.Millisecond, 1000)
	f(-time.Millisecond, -1000)
	f(100*time.Hour, 1<<31-1)
	f(-100*time.Hour, absent+1)
}

// serve returns a server and the client of a run on it.
func serve(t *testing.T) *Client {
	s := httptest.NewServer(NewServer())
	t.Cleanup(s.Close)
	return NewClient(s.URL, "test")
}

func post(t *testing.T, url, encoding string, body []byte) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if encoding != "" {
		req.Header.Set("Content-Encoding", encoding)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// TestServer sends every kind of body in every mode.
func TestServer(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, mode := range []Mode{Parallel, Serial, Lognormal, Null} {
		t.Run(string(mode), func(t *testing.T) {
			c := serve(t)
			if err := c.Begin(t.Context(), Run{Mode: mode, LatencyMS: 1, Expect: 4}); err != nil {
				t.Fatal(err)
			}
			now := time.Now().UnixNano()
			array := AppendArray(nil, []Event{{Seq: 0, Time: now}, {Seq: 1, Time: now}}, JSONSize)
			var zipped bytes.Buffer
			z := gzip.NewWriter(&zipped)
			if _, err := z.Write(AppendJSON(nil, &Event{Seq: 2, Time: now}, JSONSize)); err != nil {
				t.Fatal(err)
			}
			if err := z.Close(); err != nil {
				t.Fatal(err)
			}
			lines := append(AppendJSON(nil, &Event{Seq: 1, Time: now}, JSONSize), '\n')
			lines = append(AppendJSON(lines, &Event{Seq: 5, Time: now}, JSONSize), '\n')
			for _, b := range []struct {
				url, encoding string
				body          []byte
			}{{c.URL(), "", array}, {c.URL() + "/", "gzip", zipped.Bytes()}, {c.URL(), "", lines}, {c.URL(), "", []byte("{")}} {
				if got := post(t, b.url, b.encoding, b.body); got != http.StatusOK {
					t.Errorf("got status %d, want 200", got)
				}
			}
			got, err := c.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if mode == Null {
				if got.Requests != 4 || got.Events != 0 {
					t.Errorf("got %+v, want 4 requests and nothing else", got)
				}
				return
			}
			age := got.Age
			got.Arrival, got.Age = Ages{}, Ages{}
			got.Bytes = 0
			if want := (Counts{Requests: 4, Events: 5, Distinct: 3, Duplicates: 1, Foreign: 1, Malformed: 1}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
			if age.P99 < 0.1 || age.P99 > 60_000 {
				t.Errorf("got %+v, want the time it takes to answer in it", age)
			}
			brief, err := c.Brief(t.Context())
			if err != nil || brief.Distinct != 3 || brief.Age != (Ages{}) {
				t.Errorf("got %+v, %v, want 3 events and no ages", brief, err)
			}
		})
	}
}

// TestServerRuns wants runs to be apart, to begin anew, and to end.
func TestServerRuns(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c := serve(t)
	event := AppendJSON(nil, &Event{Seq: 0}, JSONSize)
	if got := post(t, c.URL(), "", event); got != http.StatusNotFound {
		t.Errorf("got status %d before the run, want 404", got)
	}
	run := Run{Mode: Parallel, Expect: 1}
	for range 2 {
		if err := c.Begin(t.Context(), run); err != nil {
			t.Fatal(err)
		}
		post(t, c.URL(), "", event)
		if got, err := c.Counts(t.Context()); err != nil || got.Distinct != 1 || got.Duplicates != 0 {
			t.Errorf("got %+v, %v, want one event", got, err)
		}
	}
	if err := c.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Counts(t.Context()); err == nil || !strings.Contains(err.Error(), "404") {
		t.Errorf("got %v after the end, want 404", err)
	}
	for _, bad := range []Run{{Mode: "s4"}, {Mode: Parallel, Expect: -1}, {Mode: Parallel, LatencyMS: -1}, {Mode: Parallel, Expect: maxExpect + 1}} {
		if err := c.Begin(t.Context(), bad); err == nil {
			t.Errorf("%+v: got no error, want one", bad)
		}
	}
}

// TestSerial wants requests to be served one after the other.
func TestSerial(t *testing.T) {
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	c := serve(t)
	if err := c.Begin(t.Context(), Run{Mode: Serial, Expect: 1}); err != nil {
		t.Fatal(err)
	}
	const requests = 8
	start := time.Now()
	done := make(chan struct{})
	for range requests {
		go func() {
			defer func() { done <- struct{}{} }()
			resp, err := http.Post(c.URL(), "", strings.NewReader("[]"))
			if err != nil {
				t.Error(err)
				return
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}()
	}
	for range requests {
		<-done
	}
	if took := time.Since(start); took < requests*serialRequest {
		t.Errorf("got %d answers in %v, want them to take %v at least", requests, took, requests*serialRequest)
	}
}
