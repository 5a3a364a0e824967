package arm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestDue(t *testing.T) {
	f := func(rate, total, tick, want int) {
		t.Helper()
		if got := (schedule{rate, total}).due(tick); got != want {
			t.Errorf("rate %d, tick %d: got %d, want %d", rate, tick, got, want)
		}
	}
	f(2000, 120_000, 0, 10)
	f(2000, 120_000, 1, 20)
	f(2000, 120_000, 11_999, 120_000)
	f(2000, 120_000, 20_000, 120_000)
	f(300, 300, 0, 1)
	f(300, 300, 1, 3)
	f(300, 300, 199, 300)
}

// stuck is a subject that takes no events from one time to another.
type stuck struct {
	start    time.Time
	from, to time.Duration
	seen     []Event
	refuse   uint64 // every so many are refused; 0 for none
	mu       sync.Mutex
}

func (s *stuck) Offer(e *Event) string {
	if at := time.Since(s.start); at >= s.from && at < s.to {
		t := time.NewTimer(s.to - at)
		<-t.C
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse > 0 && e.Seq%s.refuse == 0 {
		return "full"
	}
	s.seen = append(s.seen, *e)
	return ""
}

func (s *stuck) Close(context.Context) error { return nil }

// TestOffer checks that every event is offered when it is due, also after a stall,
// and that Closed leaves out what fell due during the stall.
func TestOffer(t *testing.T) {
	f := func(l Load, wantAccepted, wantMissed int64, wantLast time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := &stuck{start: start, from: 100 * time.Millisecond, to: 250 * time.Millisecond}
			var got outcome
			if err := offer(t.Context(), s, l, schedule{2000, 1000}, start, &got); err != nil {
				t.Fatal(err)
			}
			if got.offered != 1000 || got.accepted.Load() != wantAccepted || got.dropped[Missed] != wantMissed {
				t.Errorf("%s: got %d offered, %d accepted, %v dropped, want 1000, %d, %d missed", l, got.offered, got.accepted.Load(), got.dropped, wantAccepted, wantMissed)
			}
			if took := time.Since(start); took != wantLast {
				t.Errorf("%s: got %v, want %v", l, took, wantLast)
			}
			next := uint64(0)
			for _, e := range s.seen {
				if e.Seq < next {
					t.Fatalf("%s: got event %d after %d, want them in order", l, e.Seq, next)
				}
				next = e.Seq + 1
				if due := start.Add(time.Duration(e.Seq/10) * tick).UnixNano(); e.Time != due {
					t.Fatalf("%s: got event %d of %d, want %d: when it was due", l, e.Seq, e.Time, due)
				}
			}
		})
	}
	const last = 495 * time.Millisecond
	f(Open, 1000, 0, last)
	// Of the tick at 100 ms all are offered, late; the ticks from 105 to 245 ms
	// are missed; that of 250 ms is not.
	f(Closed, 1000-29*10, 29*10, last)
}

func TestOfferCountsReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stuck{refuse: 4}
		var got outcome
		if err := offer(t.Context(), s, Open, schedule{2000, 100}, time.Now(), &got); err != nil {
			t.Fatal(err)
		}
		if got.dropped["full"] != 25 || got.accepted.Load() != 75 {
			t.Errorf("got %v and %d, want 25 full and 75 accepted", got.dropped, got.accepted.Load())
		}
	})
}

func TestOfferEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got outcome
		err := offer(ctx, &stuck{}, Open, schedule{2000, 1 << 20}, time.Now(), &got)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

// sample builds a sample of a stack, innermost first; "+" before a name says that
// it was inlined into the next.
func sample(values []int64, stack ...string) *profile.Sample {
	s := &profile.Sample{Value: values}
	loc := &profile.Location{}
	for _, name := range stack {
		name, inlined := strings.CutPrefix(name, "+")
		loc.Line = append(loc.Line, profile.Line{Function: &profile.Function{Name: name}})
		if !inlined {
			s.Location = append(s.Location, loc)
			loc = &profile.Location{}
		}
	}
	return s
}

func TestLockShare(t *testing.T) {
	ms := func(n int64) []int64 { return []int64{n, n * 1e6} }
	f := func(want float64, wantSamples int64, samples ...*profile.Sample) {
		t.Helper()
		p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples"}, {Type: "cpu"}}, Sample: samples}
		if got, n := lockShare(p); got != want || n != wantSamples {
			t.Errorf("got %v of %d samples, want %v of %d", got, n, want, wantSamples)
		}
	}
	f(0, 0)
	f(0, 10, sample(ms(10), "main.main"))
	f(0.4, 50,
		sample(ms(10), "runtime.lock2", "+runtime.lockWithRank", "+runtime.lock", "+runtime.sellock", "runtime.selectgo", "main.run"),
		sample(ms(10), "runtime.selectgo", "main.run"),
		sample(ms(30), "main.run"))
	f(0.75, 40,
		sample(ms(10), "runtime.lock2", "runtime.chansend", "runtime.chansend1", "main.run"),
		sample(ms(10), "runtime.chanrecv", "runtime.chanrecv1", "main.run"),
		sample(ms(10), "runtime.semacquire1", "internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).Lock", "main.run"),
		sample(ms(10), "runtime.lock2", "runtime.mallocgc", "main.run"))
}

func TestCopyShare(t *testing.T) {
	d := &Design{Under: []string{"x.(*pool).run"}, Copies: []string{"x.deepCopy"}}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects"}, {Type: "alloc_space"}, {Type: "inuse_objects"}, {Type: "inuse_space"}},
		Sample: []*profile.Sample{
			sample([]int64{1, 100, 9, 9}, "x.deepCopy", "x.(*pool).flush", "x.(*pool).run"),
			sample([]int64{1, 300, 9, 9}, "x.post", "x.(*pool).run.func1"),
			sample([]int64{1, 5000, 9, 9}, "x.deepCopy", "y.other"),
			sample([]int64{1, 5000, 9, 9}, "net/http.read"),
		},
	}
	if share, all := copyShare(p, d); share != 0.25 || all != 400 {
		t.Errorf("got %v of %d, want 0.25 of 400", share, all)
	}
	d.Copies = []string{}
	if share, all := copyShare(p, d); share != 0 || all != 400 {
		t.Errorf("got %v of %d, want 0 of 400", share, all)
	}
	d.Under = []string{"z."}
	if share, all := copyShare(p, d); share != 0 || all != 0 {
		t.Errorf("got %v of %d, want nothing", share, all)
	}
}

// hoarder keeps its events until Close, and does not send them.
type hoarder struct {
	o      Options
	mu     sync.Mutex
	events []Event
	posted atomic.Pointer[[]byte]
}

func (h *hoarder) Offer(e *Event) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, *e)
	return ""
}

func (h *hoarder) Close(context.Context) error {
	h.finish()
	return nil
}

//go:noinline
func (h *hoarder) finish() {
	all := duplicate(h.events)
	body := AppendArray(nil, all, h.o.Size)
	h.posted.Store(&body)
}

//go:noinline
func duplicate(events []Event) []Event {
	all := make([]Event, len(events))
	copy(all, events)
	return all
}

// TestChild runs each job in this process, and checks that the figures add up.
func TestChild(t *testing.T) {
	s := httptest.NewServer(NewReceiver())
	defer s.Close()
	const self = "github.com/uniflow-labs/uniflow/bench/batch/arm."
	designs := []Design{{
		Name: "hoarder", Load: Open,
		Make:  func(o Options) (Subject, error) { return &hoarder{o: o}, nil },
		Under: []string{self + "(*hoarder).finish"}, Copies: []string{self + "duplicate"},
	}}
	f := func(job Job) Result {
		t.Helper()
		c := NewClient(s.URL, string(job))
		if err := c.Begin(t.Context(), Run{Expect: 1000}); err != nil {
			t.Fatal(err)
		}
		task := Task{Job: job, Design: "hoarder", Server: s.URL, Run: string(job), Rate: 2000, Length: 100 * time.Millisecond, Producers: 2,
			Options: Options{Size: JSONSize, Interval: time.Second, Limit: 10}}
		var out, errs strings.Builder
		if code := Child(t.Context(), task.Args(), designs, &out, &errs); code != 0 {
			t.Fatalf("%s: got exit code %d and %s, want 0", job, code, errs.String())
		}
		var r Result
		if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	if r := f(Deliver); r.Offered != 200 || r.Accepted != 200 || r.Delivered != 0 || r.DroppedBy[Silent] != 200 || r.Elapsed <= 0 || r.Goroutines < 1 {
		t.Errorf("got %+v, want 200 offered, accepted, and lost without a word", r)
	}
	if r := f(Memory); r.CopyShare == nil || *r.CopyShare <= 0 || *r.CopyShare >= 1 {
		t.Errorf("got %+v, want a share of copies", r)
	}
	if r := f(Saturate); r.Accepted < 1 || r.PerSecond <= 0 || r.Load != "saturated" {
		t.Errorf("got %+v, want events", r)
	}
}

func TestChildUsage(t *testing.T) {
	good := Task{Job: Deliver, Rate: 1, Length: time.Second, Producers: 1} // of no design
	for _, args := range [][]string{nil, {"nonsense"}, {"{}"}, good.Args()} {
		if code := Child(t.Context(), args, nil, io.Discard, io.Discard); code != 2 {
			t.Errorf("%v: got exit code %d, want 2", args, code)
		}
	}
}

func TestDrops(t *testing.T) {
	f := func(tells bool, dropped map[string]int64, want int64, wantSilent int64) {
		t.Helper()
		r := Result{Offered: 100, Delivered: 80}
		r.drops(&Design{Tells: tells}, &outcome{dropped: dropped}, Deliver)
		if r.Dropped != want || r.DroppedBy[Silent] != wantSilent {
			t.Errorf("got %d, %v, want %d, %d of them silent", r.Dropped, r.DroppedBy, want, wantSilent)
		}
	}
	f(true, map[string]int64{"full": 20}, 20, 0)
	f(true, map[string]int64{}, 0, 0) // lost, and said that it was not: the target finds it
	f(false, map[string]int64{}, 20, 20)
	f(false, map[string]int64{"full": 15}, 20, 5)
}

// offerAll offers n events to a subject, closes it, and returns what the receiver
// got, and how many were not accepted.
func offerAll(t *testing.T, d Design, n int, latency time.Duration) (counts Counts, dropped int64) {
	t.Helper()
	s := httptest.NewServer(NewReceiver())
	defer s.Close()
	c := NewClient(s.URL, "test")
	if err := c.Begin(t.Context(), Run{Latency: latency, Expect: n}); err != nil {
		t.Fatal(err)
	}
	subject, err := d.Make(Options{URL: c.URL(), Endpoint: c.Endpoint(), Size: JSONSize, Interval: 10 * time.Millisecond, Limit: 20})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if subject.Offer(&Event{Seq: uint64(i), Time: time.Now().UnixNano()}) != "" {
			dropped++
		}
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if late := subject.(Dropper).Dropped(); len(late) != 0 {
		t.Errorf("got %v dropped, want nothing", late)
	}
	counts, err = c.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return counts, dropped
}

// TestDesigns checks that each accepted event arrives once.
func TestDesigns(t *testing.T) {
	for _, d := range Designs() {
		t.Run(d.Name, func(t *testing.T) {
			const n = 500
			got, dropped := offerAll(t, d, n, time.Millisecond)
			if got.Distinct != n || dropped != 0 || got.Duplicates+got.Foreign+got.Malformed != 0 {
				t.Errorf("got %+v and %d dropped of %d, want all of them, once", got, dropped, n)
			}
		})
	}
}

// TestFailed checks that events of refused batches are counted.
func TestFailed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	subject, err := Designs()[0].Make(Options{URL: s.URL, Size: JSONSize, Interval: time.Millisecond, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		subject.Offer(&Event{Seq: uint64(i)})
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := subject.(Dropper).Dropped(); got["failed"] != 100 {
		t.Errorf("got %v, want 100 failed", got)
	}
}

// TestIngest checks that every event is encoded, except those in memory when a
// design is closed.
func TestIngest(t *testing.T) {
	f := func(name string, add func(Encode) (func(*Event), func()), most int64) {
		t.Helper()
		var encoded atomic.Int64
		do, end := add(func(dst []byte, e *Event) []byte {
			encoded.Add(1)
			return AppendFlat(dst, e)
		})
		const producers, each = 4, 10_000
		var all sync.WaitGroup
		for range producers {
			all.Go(func() {
				e := Event{}
				for range each {
					do(&e)
				}
			})
		}
		all.Wait()
		end()
		if left := producers*each - encoded.Load(); left < 0 || left > most {
			t.Errorf("%s: got %d events that were not encoded, want 0 to %d", name, left, most)
		}
	}
	for _, queue := range []int{0, Queue} {
		f("channel", func(e Encode) (func(*Event), func()) { c := NewChannel(e, queue); return c.Add, c.Close }, int64(queue+batchEvents))
	}
	f("swap", func(e Encode) (func(*Event), func()) { s := NewSwap(e); return s.Add, s.Close }, 0)
}

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
