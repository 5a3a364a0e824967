package arm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A Run is what happens between Begin and End of a client.
type Run struct {
	Latency time.Duration `json:"latency"` // of each answer
	Expect  int           `json:"expect"`  // events have a Seq below this
	Discard bool          `json:"discard"` // answer immediately, and count requests only
}

// maxExpect bounds the memory of a run, to 80 MB.
const maxExpect = 10_000_000

// Counts are the account of a run so far.
type Counts struct {
	Requests   int64   `json:"requests"`
	Events     int64   `json:"events"`     // with duplicates
	Distinct   int64   `json:"distinct"`   // events that came at least once
	Duplicates int64   `json:"duplicates"` // arrivals of an event that had come before
	Foreign    int64   `json:"foreign"`    // events whose Seq is not below Expect
	Malformed  int64   `json:"malformed"`  // requests whose body is not JSON
	AgeP50     float64 `json:"age_p50_ms"` // of events when their batch was answered
	AgeP99     float64 `json:"age_p99_ms"`
}

// A Receiver takes batches over HTTP:
//
//	PUT    /run/{run}         a Run as JSON: begins it
//	POST   /run/{run}/batch   a batch: JSON array, lines, or an envelope
//	GET    /run/{run}         its Counts
//	DELETE /run/{run}         ends it
//	GET    /ping
//
// Several runs may go on at the same time. Make it with NewReceiver; it is safe
// for concurrent use.
type Receiver struct {
	mux *http.ServeMux
	mu  struct {
		sync.Mutex
		runs map[string]*running
	}
}

// A running is a run with its account.
type running struct {
	Run
	mu struct {
		sync.Mutex
		counts Counts
		seen   []bool  // by Seq
		ages   []int32 // by Seq, in microseconds when answered; absent before
	}
}

const absent = math.MinInt32

// NewReceiver returns a receiver without runs.
func NewReceiver() *Receiver {
	s := &Receiver{mux: http.NewServeMux()}
	s.mu.runs = make(map[string]*running)
	s.mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("PUT /run/{run}", s.begin)
	s.mux.HandleFunc("GET /run/{run}", s.find((*running).count))
	s.mux.HandleFunc("DELETE /run/{run}", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.mu.runs, r.PathValue("run"))
	})
	s.mux.HandleFunc("POST /run/{run}/batch", s.find((*running).take))
	s.mux.HandleFunc("POST /run/{run}/batch/{$}", s.find((*running).take)) // as posthog-go's path ends
	return s
}

func (s *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Receiver) begin(w http.ResponseWriter, r *http.Request) {
	run := new(running)
	err := json.NewDecoder(r.Body).Decode(&run.Run)
	if err == nil && (run.Expect < 0 || run.Expect > maxExpect || run.Latency < 0) {
		err = fmt.Errorf("%+v: expect must be 0 to %d and the latency not negative", run.Run, maxExpect)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	run.mu.seen = make([]bool, run.Expect)
	run.mu.ages = slices.Repeat([]int32{absent}, run.Expect)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.runs[r.PathValue("run")] = run
}

// find returns the handler of requests that belong to a run.
func (s *Receiver) find(handle func(*running, http.ResponseWriter, *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		run := s.mu.runs[r.PathValue("run")]
		s.mu.Unlock()
		if run == nil {
			http.Error(w, "no such run", http.StatusNotFound)
			return
		}
		handle(run, w, r)
	}
}

func (run *running) count(w http.ResponseWriter, _ *http.Request) {
	run.mu.Lock()
	c := run.mu.counts
	known := slices.DeleteFunc(slices.Clone(run.mu.ages), func(us int32) bool { return us == absent })
	slices.Sort(known)
	c.AgeP50, c.AgeP99 = quantile(known, 0.5), quantile(known, 0.99)
	run.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(c); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func (run *running) take(w http.ResponseWriter, r *http.Request) {
	if run.Discard {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		run.mu.Lock()
		defer run.mu.Unlock()
		run.mu.counts.Requests++
		return
	}
	body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events, valid := find(body), wellFormed(body)
	run.arrive(events, valid)
	t := time.NewTimer(run.Latency)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done(): // the client did not wait
	}
	run.answer(events, time.Now())
}

func (run *running) arrive(events []stamp, valid bool) {
	run.mu.Lock()
	defer run.mu.Unlock()
	c := &run.mu.counts
	c.Requests++
	c.Events += int64(len(events))
	if !valid {
		c.Malformed++
	}
	for _, e := range events {
		switch {
		case e.seq >= uint64(len(run.mu.seen)):
			c.Foreign++
		case run.mu.seen[e.seq]:
			c.Duplicates++
		default:
			c.Distinct++
			run.mu.seen[e.seq] = true
		}
	}
}

// answer enters the ages of events that are answered for the first time.
func (run *running) answer(events []stamp, now time.Time) {
	run.mu.Lock()
	defer run.mu.Unlock()
	for _, e := range events {
		if e.seq < uint64(len(run.mu.ages)) && run.mu.ages[e.seq] == absent {
			us := (now.UnixNano() - e.time) / int64(time.Microsecond)
			run.mu.ages[e.seq] = int32(min(max(us, absent+1), math.MaxInt32))
		}
	}
}

// quantile returns the smallest of the sorted ages that a share of q does not
// exceed, in milliseconds; 0 if there is none.
func quantile(sorted []int32, q float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return float64(sorted[min(max(i, 0), len(sorted)-1)]) / 1000
}

func read(r *http.Request) ([]byte, error) {
	if r.ContentLength <= 0 {
		return io.ReadAll(r.Body)
	}
	all := make([]byte, r.ContentLength)
	_, err := io.ReadFull(r.Body, all)
	return all, err
}

// wellFormed reports whether a body is JSON, or lines of it.
func wellFormed(body []byte) bool {
	if json.Valid(body) {
		return true
	}
	lines := 0
	for line := range bytes.Lines(body) {
		if !json.Valid(line) {
			return false
		}
		lines++
	}
	return lines > 0
}

// A stamp identifies an event in a request.
type stamp struct {
	seq  uint64
	time int64
}

// find returns the events of a body. It searches for the two fields, so that it
// does not matter what a client wraps its events into: an array, lines, or
// another service's envelope. A "seq" without a "time" is not an event.
func find(body []byte) []stamp {
	var all []stamp
	for {
		i := bytes.Index(body, []byte(`"seq":`))
		if i < 0 {
			return all
		}
		seq, rest := number(body[i+len(`"seq":`):])
		body = rest
		end := len(body)
		if next := bytes.Index(body, []byte(`"seq":`)); next >= 0 {
			end = next
		}
		if t := bytes.Index(body[:end], []byte(`"time":`)); t >= 0 {
			at, _ := number(body[t+len(`"time":`) : end])
			all = append(all, stamp{seq, int64(at)})
		}
	}
}

func number(b []byte) (n uint64, rest []byte) {
	for len(b) > 0 && b[0] >= '0' && b[0] <= '9' {
		n = n*10 + uint64(b[0]-'0')
		b = b[1:]
	}
	return n, b
}

// A Client controls one run of a receiver. Each call has a connection of its own.
type Client struct {
	base string // http://host:port
	name string
}

// NewClient returns the client of the run with a name, on the receiver at
// http://host:port.
func NewClient(base, name string) *Client { return &Client{base, name} }

// URL returns where batches of the run go, without the last slash.
func (c *Client) URL() string { return c.Endpoint() + "/batch" }

// Endpoint returns the address that /batch is appended to.
func (c *Client) Endpoint() string { return c.base + "/run/" + c.name }

// Begin begins the run, and forgets an earlier one of its name.
func (c *Client) Begin(ctx context.Context, r Run) error {
	body, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = c.call(ctx, http.MethodPut, body)
	return err
}

// Counts returns the account so far.
func (c *Client) Counts(ctx context.Context) (counts Counts, err error) {
	body, err := c.call(ctx, http.MethodGet, nil)
	if err != nil {
		return counts, err
	}
	return counts, json.Unmarshal(body, &counts)
}

// End has the receiver forget the run.
func (c *Client) End(ctx context.Context) error {
	_, err := c.call(ctx, http.MethodDelete, nil)
	return err
}

func (c *Client) call(ctx context.Context, method string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.Endpoint(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(answer))
	}
	return answer, errors.Join(err, resp.Body.Close())
}
