package console

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/uniflow-labs/uniflow/internal/api"
	"github.com/uniflow-labs/uniflow/observe"
)

const (
	interval  = time.Second      // between samples
	window    = 5                // samples that a rate is made of
	heartbeat = 15 * time.Second // so that proxies and readers know that the stream lives
	patience  = time.Minute      // a reader that takes nothing for so long is gone

	// MaxReaders is how many may read a stream. The next is answered 429.
	MaxReaders = 16
)

// A Stream tells its readers each second what the nodes have done. While it has no reader, it does nothing.
// A reader that is slow gets the latest numbers, and the number of events that it has not seen.
type Stream struct {
	metrics func() observe.Metrics
	redact  func(string) string
	sampler sync.WaitGroup

	mu      sync.Mutex
	readers map[*reader]struct{}
	gone    chan struct{} // closed when the last reader leaves
	hello   *api.Hello
	window  []*sample // the latest last
	latest  api.Metrics
}

// NewStream returns a stream of metrics, in which redact hides secrets. Both are called from any goroutine.
func NewStream(metrics func() observe.Metrics, redact func(string) string) *Stream {
	return &Stream{metrics: metrics, redact: redact, readers: make(map[*reader]struct{})}
}

// Close waits until nothing of the stream runs. All requests must have ended.
func (s *Stream) Close() { s.sampler.Wait() }

// Metrics returns the counts now, with the rates of the last seconds if it has readers.
func (s *Stream) Metrics() api.Metrics {
	now := take(s.metrics)
	s.mu.Lock()
	before := now
	if len(s.window) > 0 {
		before = s.window[0]
	}
	s.mu.Unlock()
	m := now.since(before)
	m.Of = s.of(now)
	return m
}

// of names the nodes of a sample.
func (s *Stream) of(now *sample) []api.MetricsOf {
	of := make([]api.MetricsOf, len(now.nodes))
	for i, n := range now.nodes {
		of[i] = api.MetricsOf{Kind: n.Kind, Namespace: s.redact(n.Namespace), Name: s.redact(n.Name)}
	}
	return of
}

// ServeHTTP sends events until the reader leaves.
func (s *Stream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	reader := s.join()
	if reader == nil {
		api.Fail(w, http.StatusTooManyRequests, fmt.Sprintf("%d clients read the stream already", MaxReaders), "close a tab of the console")
		return
	}
	defer s.leave(reader)
	w.Header().Set("Content-Type", "text/event-stream")
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	control := http.NewResponseController(w)
	for {
		text := []byte(": \n\n")
		select {
		case <-r.Context().Done():
			return
		case <-beat.C:
		case <-reader.changed:
			var err error
			if text, err = s.events(reader); err != nil {
				return // what is sent are numbers and texts, which JSON has
			}
		}
		if err := control.SetWriteDeadline(time.Now().Add(patience)); err != nil {
			return
		}
		if _, err := w.Write(text); err != nil {
			return
		}
		if err := control.Flush(); err != nil {
			return
		}
	}
}

// events returns what waits for a reader.
func (s *Stream) events(r *reader) (text []byte, err error) {
	s.mu.Lock()
	hello, metrics := r.take()
	s.mu.Unlock()
	if hello != nil {
		if text, err = event(text, "hello", hello); err != nil {
			return nil, err
		}
	}
	return event(text, "metrics", metrics)
}

func event(text []byte, name string, body any) ([]byte, error) {
	data, err := json.Marshal(body)
	return fmt.Appendf(text, "event: %s\ndata: %s\n\n", name, data), err
}

// join adds a reader, who is told everything first; nil if there are too many.
func (s *Stream) join() *reader {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.readers) >= MaxReaders {
		return nil
	}
	r := &reader{changed: make(chan struct{}, 1), rows: make(map[int]api.NodeMetrics)}
	s.readers[r] = struct{}{}
	if len(s.readers) > 1 {
		r.tell(s.hello, s.latest, s.latest.Rows)
		return r
	}
	s.gone = make(chan struct{})
	s.advance()
	gone := s.gone
	s.sampler.Go(func() { s.sample(gone) })
	return r
}

func (s *Stream) leave(r *reader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.readers, r); len(s.readers) == 0 {
		close(s.gone)
		s.window, s.hello = nil, nil
	}
}

// sample advances the stream until the last reader leaves.
func (s *Stream) sample(gone <-chan struct{}) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-gone:
			return
		case <-tick.C:
			s.mu.Lock()
			if s.gone == gone && len(s.readers) > 0 {
				s.advance()
			}
			s.mu.Unlock()
		}
	}
}

// advance takes a sample and tells it to all readers. The caller holds the lock.
func (s *Stream) advance() {
	now := take(s.metrics)
	before, last := now, now
	if len(s.window) > 0 {
		before, last = s.window[0], s.window[len(s.window)-1]
	}
	metrics := now.since(before)
	if s.window = append(s.window, now); len(s.window) > window {
		s.window = slices.Delete(s.window, 0, 1)
	}
	rows := metrics.Rows
	var hello *api.Hello
	if s.hello == nil || s.hello.Generation != metrics.Generation || !now.same(last) {
		s.hello = &api.Hello{Generation: metrics.Generation, Interval: interval.Seconds(), Nodes: s.of(now)}
		hello = s.hello
	} else {
		rows = slices.DeleteFunc(slices.Clone(rows), func(row api.NodeMetrics) bool { return row.Equal(s.latest.Rows[row.Node]) })
	}
	s.latest = metrics
	for r := range s.readers {
		r.tell(hello, metrics, rows)
	}
}

// A reader is told of changes, of which the latest wait for it. The stream guards it.
type reader struct {
	changed chan struct{} // something waits
	waits   int           // events that are merged
	hello   *api.Hello
	metrics api.Metrics
	rows    map[int]api.NodeMetrics // that changed
}

func (r *reader) tell(hello *api.Hello, metrics api.Metrics, rows []api.NodeMetrics) {
	if hello != nil {
		r.hello = hello
		clear(r.rows)
	}
	for _, row := range rows {
		r.rows[row.Node] = row
	}
	r.metrics = metrics
	r.waits++
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// take returns what waits. The hello is nil unless it is new.
func (r *reader) take() (*api.Hello, api.Metrics) {
	hello, metrics := r.hello, r.metrics
	metrics.Dropped = max(r.waits-1, 0)
	metrics.Rows = make([]api.NodeMetrics, 0, len(r.rows))
	for i := range r.metrics.Rows {
		if row, ok := r.rows[i]; ok {
			metrics.Rows = append(metrics.Rows, row)
		}
	}
	r.hello, r.waits = nil, 0
	clear(r.rows)
	return hello, metrics
}
