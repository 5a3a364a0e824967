package batch_test

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

// A task is what a receiver does with the batches that come.
type task struct {
	Latency time.Duration // of each answer
	Expect  int           // events have a Seq below this
	Discard bool          // answer immediately, and count requests only
}

// counts are what a receiver has got since it was given its task.
type counts struct {
	Requests   int64
	Events     int64   // with duplicates
	Distinct   int64   // events that came at least once
	Duplicates int64   // arrivals of an event that had come before
	Foreign    int64   // events whose Seq is not below Expect
	Malformed  int64   // requests whose body is not JSON
	AgeP50     float64 // ms, of events when their batch was answered
	AgeP99     float64
}

// A receiver takes batches over HTTP, of one client at a time. Make it with newReceiver; it
// is safe for concurrent use.
//
//	PUT  /task   a task as JSON: forgets what came before
//	POST /batch  a batch: JSON array, lines, or an envelope
//	GET  /counts
//	GET  /ping
type receiver struct {
	*http.ServeMux
	mu struct {
		sync.Mutex
		task
		counts
		seen []bool  // by Seq
		ages []int32 // by Seq, in microseconds when answered; absent before
	}
}

const absent = math.MinInt32

func newReceiver() *receiver {
	r := &receiver{ServeMux: http.NewServeMux()}
	r.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	r.HandleFunc("PUT /task", r.begin)
	r.HandleFunc("GET /counts", r.count)
	r.HandleFunc("POST /batch", r.take)
	r.HandleFunc("POST /batch/{$}", r.take) // as posthog-go's path ends
	return r
}

func (r *receiver) begin(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := json.NewDecoder(req.Body).Decode(&r.mu.task); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mu.counts, r.mu.seen, r.mu.ages = counts{}, make([]bool, r.mu.Expect), slices.Repeat([]int32{absent}, r.mu.Expect)
}

func (r *receiver) count(w http.ResponseWriter, _ *http.Request) {
	r.mu.Lock()
	c := r.mu.counts
	known := slices.DeleteFunc(slices.Clone(r.mu.ages), func(us int32) bool { return us == absent })
	r.mu.Unlock()
	slices.Sort(known)
	c.AgeP50, c.AgeP99 = quantile(known, 0.5), quantile(known, 0.99)
	if err := json.NewEncoder(w).Encode(c); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

func (r *receiver) take(w http.ResponseWriter, req *http.Request) {
	r.mu.Lock()
	todo := r.mu.task
	r.mu.Requests++
	r.mu.Unlock()
	if todo.Discard {
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events := find(body)
	r.arrive(events, wellFormed(body))
	t := time.NewTimer(todo.Latency)
	defer t.Stop()
	select {
	case <-t.C:
	case <-req.Context().Done(): // the client did not wait
	}
	r.answer(events, time.Now())
}

func (r *receiver) arrive(events []stamp, valid bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.mu.Events += int64(len(events))
	if !valid {
		r.mu.Malformed++
	}
	for _, e := range events {
		switch {
		case e.seq >= uint64(len(r.mu.seen)):
			r.mu.Foreign++
		case r.mu.seen[e.seq]:
			r.mu.Duplicates++
		default:
			r.mu.Distinct++
			r.mu.seen[e.seq] = true
		}
	}
}

// answer enters the ages of events that are answered for the first time.
func (r *receiver) answer(events []stamp, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range events {
		if e.seq < uint64(len(r.mu.ages)) && r.mu.ages[e.seq] == absent {
			us := (now.UnixNano() - e.time) / int64(time.Microsecond)
			r.mu.ages[e.seq] = int32(min(max(us, absent+1), math.MaxInt32))
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

// begin gives the receiver at a URL its task.
func begin(ctx context.Context, url string, t task) error {
	body, err := json.Marshal(t)
	if err != nil {
		return err
	}
	_, err = call(ctx, http.MethodPut, url+"/task", body)
	return err
}

// counted returns what the receiver at a URL has got so far.
func counted(ctx context.Context, url string) (c counts, err error) {
	body, err := call(ctx, http.MethodGet, url+"/counts", nil)
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(body, &c)
}

// call makes a request over a connection of its own.
func call(ctx context.Context, method, url string, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
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
