package model

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// A Mode is how a run's server behaves.
type Mode string

const (
	// Parallel answers each request after Latency, however many there are.
	Parallel Mode = "s1"
	// Serial serves one request at a time, for 1 ms and 2 us an event.
	Serial Mode = "s2"
	// Lognormal is Parallel with a latency whose median is Latency and whose
	// logarithm deviates by 0.5: one request in a hundred takes three times as long.
	Lognormal Mode = "s3"
	// Null answers at once and looks at nothing.
	Null Mode = "null"
)

// Service times of Serial, and the deviation of Lognormal.
const (
	serialRequest = time.Millisecond
	serialEvent   = 2 * time.Microsecond
	sigma         = 0.5
)

// A Run is what a client does with the server between two accounts.
type Run struct {
	Mode      Mode    `json:"mode"`
	LatencyMS float64 `json:"latency_ms"` // of Parallel and Lognormal
	Expect    int     `json:"expect"`     // events have a Seq below this
}

// maxExpect bounds what a run may have the server remember: 80 MB.
const maxExpect = 10_000_000

// A Server is the model server. It serves
//
//	PUT    /run/{run}         a Run as JSON: begins it, whatever was there
//	POST   /run/{run}/batch   a batch: JSON array, lines, or an envelope; gzip
//	GET    /run/{run}         its Counts; with ?ages=no without ages
//	DELETE /run/{run}         forgets it
//	GET    /ping
//
// Several runs may go on at once and do not touch each other. Make it with
// NewServer; it is safe for concurrent use.
type Server struct {
	mux *http.ServeMux
	mu  struct {
		sync.Mutex
		runs map[string]*running
	}
}

// A running is a run with its account.
type running struct {
	Run
	serial sync.Mutex // held while Serial serves
	mu     struct {
		sync.Mutex
		oracle   *oracle
		requests int64 // of Null
	}
}

// NewServer returns a server without runs.
func NewServer() *Server {
	s := &Server{mux: http.NewServeMux()}
	s.mu.runs = make(map[string]*running)
	s.mux.HandleFunc("GET /ping", func(http.ResponseWriter, *http.Request) {})
	s.mux.HandleFunc("PUT /run/{run}", s.begin)
	s.mux.HandleFunc("GET /run/{run}", s.counts)
	s.mux.HandleFunc("DELETE /run/{run}", s.forget)
	s.mux.HandleFunc("POST /run/{run}/batch", s.batch)
	s.mux.HandleFunc("POST /run/{run}/batch/{$}", s.batch) // the events client's path ends so
	return s
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

func (s *Server) begin(w http.ResponseWriter, r *http.Request) {
	var o Run
	if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch o.Mode {
	case Parallel, Serial, Lognormal, Null:
	default:
		http.Error(w, fmt.Sprintf("unknown mode %q", o.Mode), http.StatusBadRequest)
		return
	}
	if o.Expect < 0 || o.Expect > maxExpect || o.LatencyMS < 0 {
		http.Error(w, "a run expects up to ten million events, and no negative latency", http.StatusBadRequest)
		return
	}
	run := &running{Run: o}
	run.mu.oracle = newOracle(o.Expect)
	s.mu.Lock()
	s.mu.runs[r.PathValue("run")] = run
	s.mu.Unlock()
}

func (s *Server) forget(_ http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	delete(s.mu.runs, r.PathValue("run"))
	s.mu.Unlock()
}

// find returns the run of a request, or answers that there is none.
func (s *Server) find(w http.ResponseWriter, r *http.Request) *running {
	s.mu.Lock()
	run := s.mu.runs[r.PathValue("run")]
	s.mu.Unlock()
	if run == nil {
		http.Error(w, "no such run", http.StatusNotFound)
	}
	return run
}

func (s *Server) counts(w http.ResponseWriter, r *http.Request) {
	run := s.find(w, r)
	if run == nil {
		return
	}
	run.mu.Lock()
	c := run.mu.oracle.counts
	if r.URL.Query().Get("ages") != "no" { // sorting them takes the processor from what is measured
		c = run.mu.oracle.account()
	}
	c.Requests += run.mu.requests
	run.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(c); err != nil {
		panic(http.ErrAbortHandler) // the client has gone
	}
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	run := s.find(w, r)
	if run == nil {
		return
	}
	if run.Mode == Null {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		run.mu.Lock()
		run.mu.requests++
		run.mu.Unlock()
		return
	}
	body, err := read(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	events := sight(body)
	valid := wellFormed(body)
	now := time.Now()
	run.mu.Lock()
	run.mu.oracle.arrive(events, len(body), now)
	if !valid {
		run.mu.oracle.counts.Malformed++
	}
	run.mu.Unlock()

	run.serve(r, len(events))
	now = time.Now()
	run.mu.Lock()
	run.mu.oracle.answer(events, now)
	run.mu.Unlock()
}

// read returns the body of a request, decompressed. A body with a length is
// read into memory of that length at once.
func read(r *http.Request) ([]byte, error) {
	body := r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(body)
		if err != nil {
			return nil, err
		}
		return io.ReadAll(z)
	}
	if r.ContentLength <= 0 {
		return io.ReadAll(body)
	}
	all := make([]byte, r.ContentLength)
	_, err := io.ReadFull(body, all)
	return all, err
}

// serve takes the time that the mode says.
func (run *running) serve(r *http.Request, events int) {
	latency := time.Duration(run.LatencyMS * float64(time.Millisecond))
	switch run.Mode {
	case Lognormal:
		latency = time.Duration(float64(latency) * math.Exp(sigma*rand.NormFloat64()))
	case Serial:
		latency = serialRequest + time.Duration(events)*serialEvent
		run.serial.Lock() // the queue: in order of arrival, nearly
		defer run.serial.Unlock()
	}
	t := time.NewTimer(latency)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done(): // who does not wait gets no answer
	}
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

// errStatus is for answers of the server that are not what was asked for.
var errStatus = errors.New("unexpected answer")

func status(resp *http.Response, body []byte) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	return fmt.Errorf("%w: %s: %s", errStatus, strconv.Itoa(resp.StatusCode), bytes.TrimSpace(body))
}
