package trail_test

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/load"
	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// Two of the five founding lessons of the event store, each with the naive way
// next to ours. The other three are benchmarks of trail/internal/exec.

func lessonEvents(n int) []event.Event {
	g := trailtest.Ecom{Seed: 1, Events: n}
	schema := g.Schema()
	events := make([]event.Event, 0, n)
	for row := range g.Rows() {
		events = append(events, row.Event(schema))
	}
	return events
}

func parsed(tb testing.TB, doc string) *query.Query {
	tb.Helper()
	q, err := query.Parse("lesson", []byte(doc))
	if err != nil {
		tb.Fatal(err)
	}
	return q
}

// A partial is what some users contribute to an answer: numbers by what they
// count. The partials of different users are added.
type partial map[string]int64

func (p partial) add(other partial) {
	for key, n := range other {
		p[key] += n
	}
}

func partialOf(a *query.Answer) partial {
	p := partial{}
	if a.Funnel != nil {
		for i, s := range a.Funnel.Steps {
			p[fmt.Sprint(i, s.Event)] += s.Users.N
		}
	}
	if a.Segment != nil {
		for _, r := range a.Segment.Rows {
			p[fmt.Sprint(r.Bucket, r.Group)] += r.Value.Int
		}
	}
	return p
}

// A cluster is data nodes and a client. A node is an HTTP/2 server with some of the
// shards, each of which is a store. Every request is a stream of its connection.
type cluster struct {
	nodes  []*httptest.Server
	shards int // of a node
	client *http.Client
	query  *query.Query
	bytes  atomic.Int64 // over the connections
}

func newCluster(tb testing.TB, shards []*trail.Store, q *query.Query, nodes int) *cluster {
	tb.Helper()
	c := &cluster{query: q, shards: len(shards) / nodes}
	var h2c http.Protocols
	h2c.SetUnencryptedHTTP2(true)
	for part := range slices.Chunk(shards, c.shards) {
		n := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { c.serve(part, w, r) }))
		n.Config.Protocols = &h2c
		n.Start()
		tb.Cleanup(n.Close)
		c.nodes = append(c.nodes, n)
	}
	transport := &http.Transport{Protocols: &h2c, DisableCompression: true}
	transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return counted{conn, &c.bytes}, err
	}
	c.client = &http.Client{Transport: transport}
	tb.Cleanup(transport.CloseIdleConnections)
	return c
}

// serve adds up what the requested shards answer.
func (c *cluster) serve(shards []*trail.Store, w http.ResponseWriter, r *http.Request) {
	var from, to int
	if _, err := fmt.Sscanf(r.URL.Path, "/%d/%d", &from, &to); err != nil || from < 0 || to > len(shards) {
		http.Error(w, r.URL.Path, http.StatusBadRequest)
		return
	}
	total := partial{}
	for _, s := range shards[from:to] {
		a, err := s.Query(r.Context(), c.query, trail.QueryOptions{Workers: 1})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		total.add(partialOf(a))
	}
	if err := gob.NewEncoder(w).Encode(total); err != nil {
		panic(http.ErrAbortHandler) // the client is gone
	}
}

// ask queries all shards: on one stream for each node, or on one for each shard.
func (c *cluster) ask(ctx context.Context, perShard bool) (partial, error) {
	total := partial{}
	var mu sync.Mutex
	var streams sync.WaitGroup
	var failed error
	for _, n := range c.nodes {
		step := c.shards
		if perShard {
			step = 1
		}
		for from := 0; from < c.shards; from += step {
			streams.Go(func() {
				p, err := c.stream(ctx, fmt.Sprintf("%s/%d/%d", n.URL, from, from+step))
				mu.Lock()
				defer mu.Unlock()
				total.add(p)
				failed = errors.Join(failed, err)
			})
		}
	}
	streams.Wait()
	return total, failed
}

func (c *cluster) stream(ctx context.Context, url string) (p partial, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return p, gob.NewDecoder(resp.Body).Decode(&p)
}

// A counted connection adds the bytes that it carries to a counter.
type counted struct {
	net.Conn
	bytes *atomic.Int64
}

func (c counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

// makeShards makes a store for each shard, with the users whose hash falls into it.
func makeShards(tb testing.TB, events, shards int) []*trail.Store {
	tb.Helper()
	parts := make([][]event.Event, shards)
	for _, e := range lessonEvents(events) {
		i := int(event.Hash(e.User)>>56) * shards / 256
		parts[i] = append(parts[i], e)
	}
	all := make([]*trail.Store, shards)
	for i, part := range parts {
		s, err := trail.Open(tb.TempDir(), trail.Options{NoSync: true, FlushEvery: -1})
		if err == nil {
			err = errors.Join(s.Append(tb.Context(), part), s.Flush(tb.Context()))
		}
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() {
			if err := s.Close(); err != nil {
				tb.Error(err)
			}
		})
		all[i] = s
	}
	return all
}

var streamQuestions = []struct{ name, doc string }{
	{"funnel", "funnel: {steps: [view, cart, purchase], within: 7d}"},
	{"day-country", "segment: {where: {campaign: exists}, bucket: day, by: [country]}"},
}

// TestLessonStreams compares the answers of clusters with the reference.
func TestLessonStreams(t *testing.T) {
	const events = 3000
	shards := makeShards(t, events, 16)
	for _, question := range streamQuestions {
		q := parsed(t, question.doc)
		a, err := trailtest.Answer(lessonEvents(events), trailtest.Ecom{}.Schema(), q, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := newCluster(t, shards, q, 4)
		for _, perShard := range []bool{true, false} {
			if got, err := c.ask(t.Context(), perShard); err != nil || !maps.Equal(got, partialOf(a)) {
				t.Errorf("%s, a stream for each shard: %t: got %d numbers and %v, want %d", question.name, perShard, len(got), err, len(partialOf(a)))
			}
		}
	}
}

// clients runs a benchmark with a number of goroutines and returns the times that
// they measured.
func clients(b *testing.B, n int, ask func(more func() bool, times *load.Histogram) error) (times load.Histogram) {
	var mu sync.Mutex
	b.SetParallelism(max(1, n/runtime.GOMAXPROCS(0)))
	b.RunParallel(func(pb *testing.PB) {
		var own load.Histogram
		if err := ask(pb.Next, &own); err != nil {
			b.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		times.Merge(&own)
	})
	return times
}

// BenchmarkLessonStreams queries 256 shards on 4 nodes, from 8 clients: on a stream
// for each shard, and on one for each node.
func BenchmarkLessonStreams(b *testing.B) {
	shards := makeShards(b, 200_000, 256)
	for _, question := range streamQuestions {
		c := newCluster(b, shards, parsed(b, question.doc), 4)
		for _, way := range []struct {
			name     string
			perShard bool
		}{{"naive", true}, {"ours", false}} {
			b.Run(question.name+"/"+way.name, func(b *testing.B) {
				before := c.bytes.Load()
				times := clients(b, 8, func(more func() bool, times *load.Histogram) error {
					for more() {
						begin := time.Now()
						if _, err := c.ask(b.Context(), way.perShard); err != nil {
							return err
						}
						times.Add(time.Since(begin))
					}
					return nil
				})
				b.ReportMetric(times.Quantile(0.5).Seconds()*1e3, "p50-ms")
				b.ReportMetric(float64(c.bytes.Load()-before)/float64(b.N), "wire-B/op")
			})
		}
	}
}

// metadata guards what a question looks up against a flush that changes it.
type metadata struct {
	name  string
	look  func(ask func() error) error
	flush func(flush func() error) error
}

func metadataWays() []metadata {
	var mu sync.Mutex
	var rw sync.RWMutex
	questions := 0
	return []metadata{
		{"mutex", func(ask func() error) error { // held for looking up segments, and by a flush
			mu.Lock()
			questions++
			mu.Unlock()
			return ask()
		}, func(flush func() error) error {
			mu.Lock()
			defer mu.Unlock()
			return flush()
		}},
		{"rwmutex", func(ask func() error) error { // held while a question reads
			rw.RLock()
			defer rw.RUnlock()
			return ask()
		}, func(flush func() error) error {
			rw.Lock()
			defer rw.Unlock()
			return flush()
		}},
		{"ours", func(ask func() error) error { return ask() }, func(flush func() error) error { return flush() }},
	}
}

// A lessonStorm is a store that is queried while it is flushed all the time.
type lessonStorm struct {
	store *trail.Store
	query *query.Query
	more  []event.Event // for each flush
	way   metadata
}

func newStorm(tb testing.TB, events int, way metadata) *lessonStorm {
	tb.Helper()
	s, err := trail.Open(tb.TempDir(), trail.Options{FlushEvery: -1})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	all := lessonEvents(events + 500)
	if err := errors.Join(s.Append(tb.Context(), all[500:]), s.Flush(tb.Context())); err != nil {
		tb.Fatal(err)
	}
	return &lessonStorm{s, parsed(tb, "sample: 0.05\nfunnel: {steps: [view, cart, purchase], within: 7d}"), all[:500], way}
}

// runQueries runs queries while more returns true. The test finds its samples in profiles by
// its name.
func (s *lessonStorm) runQueries(ctx context.Context, more func() bool, times *load.Histogram) error {
	for more() {
		begin := time.Now()
		err := s.way.look(func() error {
			_, err := s.store.Query(ctx, s.query, trail.QueryOptions{Workers: 1})
			return err
		})
		if err != nil {
			return err
		}
		times.Add(time.Since(begin))
	}
	return nil
}

// keepFlushing appends and flushes until the context is done.
func (s *lessonStorm) keepFlushing(ctx context.Context, pause time.Duration) (flushes int, err error) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return flushes, nil
		case <-ticker.C:
		}
		whole := context.WithoutCancel(ctx)
		if err := s.way.flush(func() error { return errors.Join(s.store.Append(whole, s.more), s.store.Flush(whole)) }); err != nil {
			return flushes, err
		}
		flushes++
	}
}

// BenchmarkLessonSnapshot has 64 goroutines ask small questions during constant
// flushing. -mutexprofile shows who waits for whom.
func BenchmarkLessonSnapshot(b *testing.B) {
	for _, way := range metadataWays() {
		b.Run(way.name, func(b *testing.B) {
			s := newStorm(b, 200_000, way)
			ctx, stop := context.WithCancel(b.Context())
			var flusher sync.WaitGroup
			flusher.Go(func() {
				if _, err := s.keepFlushing(ctx, 50*time.Millisecond); err != nil {
					b.Error(err)
				}
			})
			b.ResetTimer()
			times := clients(b, 64, func(more func() bool, times *load.Histogram) error { return s.runQueries(b.Context(), more, times) })
			stop()
			flusher.Wait()
			b.ReportMetric(times.Quantile(0.5).Seconds()*1e3, "p50-ms")
			b.ReportMetric(times.Quantile(0.99).Seconds()*1e3, "p99-ms")
		})
	}
}

// TestNoLocks looks for questions that wait for locks during constant flushing,
// in the profiles of mutexes and of blocking.
func TestNoLocks(t *testing.T) {
	ways := metadataWays()
	s := newStorm(t, 20_000, ways[len(ways)-1])
	before := lockWaits(t)
	runtime.SetBlockProfileRate(1)
	fraction := runtime.SetMutexProfileFraction(1)
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if err := s.runQueries(t.Context(), func() bool { return ctx.Err() == nil }, new(load.Histogram)); err != nil {
				t.Error(err)
			}
		})
	}
	if flushes, err := s.keepFlushing(ctx, time.Millisecond); err != nil || flushes == 0 {
		t.Errorf("got %d flushes, %v, want some", flushes, err)
	}
	all.Wait()
	runtime.SetBlockProfileRate(0)
	runtime.SetMutexProfileFraction(fraction)
	if got := lockWaits(t) - before; got != 0 {
		t.Errorf("got %d waits for locks, want none", got)
	}
}

// lockWaits counts samples of the profiles that are of a question and a lock.
// Waiting for a worker does not count.
func lockWaits(t *testing.T) (waits int64) {
	t.Helper()
	for _, name := range []string{"block", "mutex"} {
		var buf bytes.Buffer
		err := pprof.Lookup(name).WriteTo(&buf, 0)
		p, parse := profile.Parse(&buf)
		if err := errors.Join(err, parse); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.Sample {
			functions := program.Stack(s)
			has := func(part string) bool {
				return slices.ContainsFunc(functions, func(f string) bool { return strings.Contains(f, part) })
			}
			if has(".runQueries") && (has("sync.(*Mutex)") || has("sync.(*RWMutex)") || has("semaphore.(*Weighted)")) {
				waits += s.Value[0]
			}
		}
	}
	return waits
}
