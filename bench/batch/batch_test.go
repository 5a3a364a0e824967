package batch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

// Constants of the protocol.
const (
	latency  = 150 * time.Millisecond // of the receiver
	interval = 500 * time.Millisecond // and linger
	limit    = 2000                   // events in a batch
)

var (
	seconds = flag.Float64("seconds", 60, "how long BenchmarkDeliver offers events to each design")
	rate    = flag.Int("rate", 2000, "events a second of BenchmarkDeliver")
)

// TestMain is the receiver when a benchmark starts this binary as one.
func TestMain(m *testing.M) {
	if addr, ok := os.LookupEnv("BATCH_RECEIVER"); ok {
		program.Main(func(ctx context.Context, _ []string, _, stderr io.Writer) int {
			if err := server.Listen(ctx, addr, newReceiver()); err != nil {
				return program.Report(stderr, "receiver", err, program.Trouble)
			}
			return program.OK
		})
	}
	leak.Main(m)
}

// startReceiver returns the URL of a receiver, a process of its own, on a processor of
// its own where there are two.
func startReceiver(b *testing.B) string {
	b.Helper()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	addr, err := server.FreeAddr()
	if err != nil {
		b.Fatal(err)
	}
	cpus, err := program.Processors()
	if err != nil {
		b.Fatal(err)
	}
	var s *server.Server
	err = program.Pinned(cpus[len(cpus)-1:], func() error {
		s, err = server.Start(b.Context(), server.Options{
			Name: "receiver", Addr: addr, Path: "/ping", Program: self,
			Env: append(os.Environ(), "BATCH_RECEIVER="+addr), Log: filepath.Join(b.TempDir(), "receiver.log"),
		})
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	})
	return "http://" + addr
}

// onDisk returns an empty folder on the disk of the repository, as the system's temporary
// folder may be in memory.
func onDisk(b *testing.B) string {
	b.Helper()
	out := filepath.Join("..", "out")
	if err := os.MkdirAll(out, 0o755); err != nil {
		b.Fatal(err)
	}
	dir, err := os.MkdirTemp(out, "spool-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})
	return dir
}

// tick is how often events are offered: 10 at 2,000 a second.
const tick = 5 * time.Millisecond

// A schedule says when events are due: rate events a second, in ticks.
type schedule struct {
	rate  int
	total int
}

// due returns how many events have fallen due when a tick comes, from 0.
func (s schedule) due(tickNumber int) int {
	return min(s.total, int(int64(s.rate)*int64(tickNumber+1)*int64(tick)/int64(time.Second)))
}

// An outcome counts what became of offers.
type outcome struct {
	offered  int64 // with the missed ones
	accepted atomic.Int64
	missed   int64         // were due while a closed load was kept waiting
	stall    time.Duration // the longest that the machine was late to wake the load
}

// offer offers all events from one goroutine. It ends early only with the context. An open load
// catches up when it was kept waiting: every event there should be is offered, and its age
// counts from when it should have been. A closed load never offers what falls due meanwhile:
// it is what a producer with a ticker does, and what the founding article measured.
func offer(ctx context.Context, s subject, closed bool, plan schedule, start time.Time, t *outcome) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	e := event{User: 7, Value: 42}
	next := 0 // the Seq of the next event
	for k := 0; next < plan.total; k++ {
		at := start.Add(time.Duration(k) * tick)
		if wait := time.Until(at); wait > 0 {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-timer.C:
				t.stall = max(t.stall, time.Since(at))
			}
		} else if closed && k > 0 {
			// The latest tick is served late, as by a time.Ticker; earlier ones are lost.
			latest := int(time.Since(start) / tick)
			if missed := plan.due(latest-1) - next; missed > 0 {
				t.missed += int64(missed)
				t.offered += int64(missed)
				next += missed
			}
			k, at = latest, start.Add(time.Duration(latest)*tick)
		}
		for due := plan.due(k); next < due; next++ {
			e.Seq, e.Time = uint64(next), at.UnixNano()
			t.offered++
			if s.Offer(&e) == nil {
				t.accepted.Add(1)
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}

// A delivery is what came of offering events at a rate.
type delivery struct {
	outcome
	lost       int64  // that the design knows of
	beforeStop counts // when the time was up
	after      counts // after Close
	cpu        time.Duration
	bytes      uint64 // allocated
	allocs     uint64
}

// closeLimit is how long a subject may take to deliver what is waiting.
const closeLimit = 30 * time.Second

// deliver offers events to a design on schedule, and closes it.
func deliver(ctx context.Context, url string, d *design, o options, rate int, length, latency time.Duration) (*delivery, error) {
	plan := schedule{rate, int(int64(rate) * int64(length) / int64(time.Second))}
	if err := begin(ctx, url, task{Latency: latency, Expect: plan.total}); err != nil {
		return nil, err
	}
	r := new(delivery)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	busy := program.CPUTime()
	s, err := d.make(o)
	if err != nil {
		return nil, err
	}
	// The account is read when the time is up, whether or not everything could be
	// offered by then.
	var stop sync.WaitGroup
	var countErr error
	start := time.Now()
	stop.Go(func() {
		<-time.After(length)
		r.beforeStop, countErr = counted(ctx, url)
	})
	err = offer(ctx, s, d.closed, plan, start, &r.outcome)
	stop.Wait()
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	var closeErr error
	r.lost, closeErr = s.Close(ctx)
	r.cpu = program.CPUTime() - busy
	runtime.ReadMemStats(&after)
	r.bytes, r.allocs = after.TotalAlloc-before.TotalAlloc, after.Mallocs-before.Mallocs
	var lateErr error
	r.after, lateErr = counted(ctx, url)
	return r, errors.Join(err, countErr, closeErr, lateErr)
}

func protocol(url, dir string) options {
	return options{url: url, dir: dir, interval: interval, limit: limit}
}

// BenchmarkDeliver offers the same events to each design for -seconds. It is meant for
// -benchtime 1x.
func BenchmarkDeliver(b *testing.B) {
	url, length := startReceiver(b), time.Duration(*seconds*float64(time.Second))
	for _, d := range designs() {
		b.Run(d.name, func(b *testing.B) {
			r, err := deliver(b.Context(), url, &d, protocol(url, onDisk(b)), *rate, length, latency)
			if err != nil {
				b.Fatal(err)
			}
			events := float64(max(1, r.accepted.Load()))
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(r.offered), "offered")
			b.ReportMetric(float64(r.accepted.Load()), "accepted")
			b.ReportMetric(float64(r.beforeStop.Distinct), "before-stop")
			b.ReportMetric(float64(r.after.Distinct), "delivered")
			b.ReportMetric(float64(r.after.Requests), "requests")
			b.ReportMetric(r.after.AgeP99, "age-p99-ms")
			b.ReportMetric(r.cpu.Seconds(), "cpu-s")
			b.ReportMetric(float64(r.bytes)/events, "B/event")
			b.ReportMetric(float64(r.allocs)/events, "allocs/event")
			if d.ours && (r.after.Distinct != r.offered || r.lost+r.after.Foreign+r.after.Malformed > 0) {
				b.Errorf("%d events offered, %d lost, and %+v", r.offered, r.lost, r.after)
			}
			if bound := interval + latency + 20*time.Millisecond; r.stall > 20*time.Millisecond {
				b.Logf("the machine was busy with something else for %v, which is in these figures", r.stall)
			} else if d.ours && r.after.AgeP99 > bound.Seconds()*1000 {
				b.Logf("99 %% of the events are at most %.0f ms old, want at most %v", r.after.AgeP99, bound)
			}
			if d.copies != nil {
				share, err := copyShare(b.Context(), url, &d, protocol(url, onDisk(b)))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(100*share, "copies-%")
			}
		})
	}
}

// copyShare returns the share of copies in the bytes that a design's functions allocate in
// two seconds, of which every allocation is recorded.
func copyShare(ctx context.Context, url string, d *design, o options) (float64, error) {
	defer func(before int) { runtime.MemProfileRate = before }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	copiedBefore, allBefore, err := allocated(d)
	if err != nil {
		return 0, err
	}
	if _, err := deliver(ctx, url, d, o, *rate, 2*time.Second, 10*time.Millisecond); err != nil {
		return 0, err
	}
	copied, all, err := allocated(d)
	if err == nil && all == allBefore {
		err = fmt.Errorf("nothing was allocated under %v: are these still its functions?", d.under)
	}
	return (copied - copiedBefore) / (all - allBefore), err
}

// allocated returns the bytes that a design's functions have allocated so far, of these the
// copies first.
func allocated(d *design) (copied, all float64, err error) {
	runtime.GC() // a heap profile is of the time before the last collection
	runtime.GC()
	var heap bytes.Buffer
	if err := pprof.Lookup("allocs").WriteTo(&heap, 0); err != nil {
		return 0, 0, err
	}
	p, err := profile.Parse(&heap)
	if err != nil {
		return 0, 0, err
	}
	space := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "alloc_space" })
	share, bytes := program.ProfileShare(p, space, d.under, d.copies)
	return share * float64(bytes), float64(bytes), nil
}

// contended are prefixes of the functions that the share of locks counts, with
// all they call: selects and channel operations, blocked or not, and the slow
// paths of mutexes.
var contended = []string{
	"runtime.selectgo", "runtime.selectnbsend", "runtime.selectnbrecv", "runtime.chansend", "runtime.chanrecv",
	"sync.(*Mutex).lockSlow", "sync.(*Mutex).unlockSlow",
	"internal/sync.(*Mutex).lockSlow", "internal/sync.(*Mutex).unlockSlow",
	"sync.(*RWMutex).Lock", "sync.(*Cond).Wait",
	"sync.runtime_Semacquire", "sync.runtime_notifyList", "internal/sync.runtime_Semacquire", "internal/sync.runtime_Semrelease",
	"github.com/uniflow-labs/uniflow/lock.(*Mutex).",
}

// stampEvery is how many events share a time in BenchmarkSaturate, since reading the clock
// for each takes too long.
const stampEvery = 256

// BenchmarkSaturate offers events from two goroutines as fast as they are accepted, to a receiver
// that answers immediately. The time ends when all are sent.
func BenchmarkSaturate(b *testing.B) {
	url := startReceiver(b)
	for _, d := range designs() {
		if d.other {
			continue // it drops most, or takes no more than it sends
		}
		b.Run(d.name, func(b *testing.B) {
			if err := begin(b.Context(), url, task{Discard: true}); err != nil {
				b.Fatal(err)
			}
			s, err := d.make(protocol(url, onDisk(b)))
			if err != nil {
				b.Fatal(err)
			}
			var cpu bytes.Buffer
			if err := pprof.StartCPUProfile(&cpu); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			busy := program.CPUTime()
			accepted := saturate(s, b.N)
			_, err = s.Close(b.Context())
			busy = program.CPUTime() - busy
			b.StopTimer()
			pprof.StopCPUProfile()
			if err != nil {
				b.Fatal(err)
			}
			p, err := profile.Parse(&cpu)
			if err != nil {
				b.Fatal(err)
			}
			locks, _ := program.ProfileShare(p, len(p.SampleType)-1, nil, contended)
			b.ReportMetric(float64(accepted)/b.Elapsed().Seconds()/1e6, "M/s")
			b.ReportMetric(float64(busy)/float64(max(1, accepted)), "cpu-ns/event")
			b.ReportMetric(100*locks, "locks-%")
		})
	}
}

// saturate offers n events from two goroutines, and returns how many were accepted.
func saturate(s subject, n int) int64 {
	var accepted atomic.Int64
	var all sync.WaitGroup
	for p := range 2 {
		all.Go(func() {
			e, mine := event{Seq: uint64(p) << 40, User: uint64(p)}, int64(0)
			for i := p; i < n; i += 2 {
				if i/2%stampEvery == 0 {
					e.Time = time.Now().UnixNano()
				}
				e.Seq++
				if s.Offer(&e) == nil {
					mine++
				}
			}
			accepted.Add(mine)
		})
	}
	all.Wait()
	return accepted.Load()
}

// BenchmarkSizing is the chart of docs/batch.md: what ten workers with a queue accept, by its
// size in parts of rate times latency, and how old events of our processor are, by its
// linger. It is meant for -benchtime 1x.
func BenchmarkSizing(b *testing.B) {
	url := startReceiver(b)
	const length = 4 * time.Second
	for _, latency := range []time.Duration{75 * time.Millisecond, 150 * time.Millisecond, 300 * time.Millisecond} {
		for _, parts := range []float64{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 2} {
			b.Run(fmt.Sprintf("latency=%v/queue=%g", latency, parts), func(b *testing.B) {
				d := pooled("", shape{workers: 10, queue: int(parts * float64(*rate) * latency.Seconds())})
				r, err := deliver(b.Context(), url, &d, protocol(url, ""), *rate, length, latency)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(100*float64(r.accepted.Load())/float64(r.offered), "accepted-%")
			})
		}
	}
	for _, linger := range []time.Duration{10, 50, 100, 250, 500, 1000} {
		b.Run(fmt.Sprintf("linger=%dms", linger), func(b *testing.B) {
			d, o := processor("", false), protocol(url, "")
			o.interval = linger * time.Millisecond
			r, err := deliver(b.Context(), url, &d, o, *rate, length, latency)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(r.after.AgeP50, "age-p50-ms")
			b.ReportMetric(r.after.AgeP99, "age-p99-ms")
		})
	}
}

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
	seen     []event
	refuse   uint64 // every so many are refused; 0 for none
}

func (s *stuck) Offer(e *event) error {
	if at := time.Since(s.start); at >= s.from && at < s.to {
		<-time.After(s.to - at)
	}
	if s.refuse > 0 && e.Seq%s.refuse == 0 {
		return errors.New("full")
	}
	s.seen = append(s.seen, *e)
	return nil
}

func (s *stuck) Close(context.Context) (int64, error) { return 0, nil }

// TestOffer checks that every event is offered when it is due, also after a stall,
// and that a closed load leaves out what fell due during the stall.
func TestOffer(t *testing.T) {
	f := func(closed bool, wantAccepted, wantMissed int64, wantLast time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			s := &stuck{start: start, from: 100 * time.Millisecond, to: 250 * time.Millisecond}
			var got outcome
			if err := offer(t.Context(), s, closed, schedule{2000, 1000}, start, &got); err != nil {
				t.Fatal(err)
			}
			if got.offered != 1000 || got.accepted.Load() != wantAccepted || got.missed != wantMissed {
				t.Errorf("closed %v: got %d offered, %d accepted, %d missed, want 1000, %d, %d", closed, got.offered, got.accepted.Load(), got.missed, wantAccepted, wantMissed)
			}
			if took := time.Since(start); took != wantLast {
				t.Errorf("closed %v: got %v, want %v", closed, took, wantLast)
			}
			next := uint64(0)
			for _, e := range s.seen {
				if e.Seq < next {
					t.Fatalf("closed %v: got event %d after %d, want them in order", closed, e.Seq, next)
				}
				next = e.Seq + 1
				if due := start.Add(time.Duration(e.Seq/10) * tick).UnixNano(); e.Time != due {
					t.Fatalf("closed %v: got event %d of %d, want %d: when it was due", closed, e.Seq, e.Time, due)
				}
			}
		})
	}
	const last = 495 * time.Millisecond
	f(false, 1000, 0, last)
	// Of the tick at 100 ms all are offered, late; the ticks from 105 to 245 ms
	// are missed; the tick at 250 ms is not.
	f(true, 1000-29*10, 29*10, last)
}

func TestOfferCountsWhatIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got outcome
		if err := offer(t.Context(), &stuck{refuse: 4}, false, schedule{2000, 100}, time.Now(), &got); err != nil {
			t.Fatal(err)
		}
		if got.offered != 100 || got.accepted.Load() != 75 {
			t.Errorf("got %d offered, %d accepted, want 100 and 75", got.offered, got.accepted.Load())
		}
	})
}

func TestOfferEndsWithContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var got outcome
		err := offer(ctx, &stuck{}, false, schedule{2000, 1 << 20}, time.Now(), &got)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the deadline", err)
		}
	})
}

// TestDesigns checks that each accepted event arrives once, and that the share of copies is
// found where a design has one.
func TestDesigns(t *testing.T) {
	s := httptest.NewServer(newReceiver())
	defer s.Close()
	for _, d := range designs() {
		t.Run(d.name, func(t *testing.T) {
			d.closed = false // this machine may be busy
			o := options{url: s.URL, dir: t.TempDir(), interval: 10 * time.Millisecond, limit: 100}
			r, err := deliver(t.Context(), s.URL, &d, o, 2000, 250*time.Millisecond, time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			got := r.after
			if r.offered != 500 || r.accepted.Load() != 500 || got.Distinct != 500 || r.lost+got.Duplicates+got.Foreign+got.Malformed != 0 || got.AgeP99 > 60_000 || r.bytes == 0 {
				t.Errorf("got %d offered, %d accepted, %d lost, %+v, want 500, once, and their times", r.offered, r.accepted.Load(), r.lost, got)
			}
		})
	}
}

// TestCopyShare checks that copies are found in the designs that copy, and in no others.
func TestCopyShare(t *testing.T) {
	if invariant.Race {
		return // it makes functions of its own part of stacks
	}
	s := httptest.NewServer(newReceiver())
	defer s.Close()
	f := func(d design, least, most float64) {
		t.Helper()
		got, err := copyShare(t.Context(), s.URL, &d, protocol(s.URL, t.TempDir()))
		if err != nil || got < least || got > most {
			t.Errorf("%s: got a share of %v, %v, want %v to %v", d.name, got, err, least, most)
		}
	}
	all := designs()
	f(all[2], 0.05, 0.5)
	f(all[4], 0, 0)
}

// TestFailed checks that events of refused batches are counted.
func TestFailed(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	f := func(d design, events int, want int64) {
		t.Helper()
		subject, err := d.make(options{url: s.URL, interval: time.Millisecond, limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		saturate(subject, events)
		if lost, err := subject.Close(t.Context()); err != nil || lost != want {
			t.Errorf("%s: got %d lost, %v, want %d", d.name, lost, err, want)
		}
	}
	all := designs()
	f(all[0], 100, 100)
	f(all[7], 10, 10)
}

func TestAppendJSON(t *testing.T) {
	f := func(e event, size int) {
		t.Helper()
		got := appendJSON([]byte("x"), &e, size)[1:]
		if len(got) != size || !json.Valid(got) {
			t.Errorf("got %d bytes, %s, want %d of JSON", len(got), got, size)
		}
		seen := find(got)
		if len(seen) != 1 || seen[0] != (stamp{e.Seq, e.Time}) {
			t.Errorf("got %v of %s, want %d and %d", seen, got, e.Seq, e.Time)
		}
	}
	f(event{}, jsonSize)
	f(event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}, jsonSize)
	f(event{Seq: 1}, jsonSize)
}

func TestEncodingDoesNotAllocate(t *testing.T) {
	if invariant.Race {
		return // it allocates itself
	}
	e := event{Seq: 119_999, Time: time.Now().UnixNano(), User: 7, Value: 42}
	buf := make([]byte, 0, jsonSize)
	if n := testing.AllocsPerRun(100, func() { buf = appendFlat(appendJSON(buf[:0], &e, jsonSize), &e) }); n != 0 {
		t.Errorf("got %v allocations, want 0", n)
	}
}

func TestFind(t *testing.T) {
	f := func(body string, want ...stamp) {
		t.Helper()
		if got := find([]byte(body)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", body, got, want)
		}
	}
	f("")
	f("[]")
	f(`[{"seq":1,"time":10},{"seq":2,"time":20}]`, stamp{1, 10}, stamp{2, 20})
	f("{\"seq\":1,\"time\":10}\n{\"seq\":2,\"time\":20}\n", stamp{1, 10}, stamp{2, 20})
	f(`{"batch":[{"type":"capture","properties":{"payload":"x","seq":3,"time":30},"timestamp":"y"}]}`, stamp{3, 30})
	f(`[{"seq":1},{"seq":2,"time":20}]`, stamp{2, 20}) // the time does not come from the next
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
	f(0.99, 7, 7000)
	f(0.5, 1, 1000, 2000)
	f(0.51, 2, 1000, 2000)
	f(1, 3, 1000, 2000, 3000)
	f(0, 1, 1000, 2000, 3000)
}

// TestReceiver sends every kind of body, with two tasks.
func TestReceiver(t *testing.T) {
	s := httptest.NewServer(newReceiver())
	defer s.Close()
	now := time.Now().UnixNano()
	array := appendArray(nil, []event{{Seq: 0, Time: now}, {Seq: 1, Time: now}}, jsonSize)
	lines := append(appendJSON(nil, &event{Seq: 1, Time: now}, jsonSize), '\n')
	lines = append(appendJSON(lines, &event{Seq: 5, Time: now}, jsonSize), '\n')
	for _, tt := range []struct {
		task task
		want counts
	}{
		{task{Latency: time.Millisecond, Expect: 4}, counts{Requests: 3, Events: 4, Distinct: 2, Duplicates: 1, Foreign: 1, Malformed: 1}},
		{task{Discard: true}, counts{Requests: 3}},
	} {
		if err := begin(t.Context(), s.URL, tt.task); err != nil {
			t.Fatal(err)
		}
		for _, body := range [][]byte{array, lines, []byte("{")} {
			if _, err := call(t.Context(), http.MethodPost, s.URL+"/batch/", body); err != nil {
				t.Error(err)
			}
		}
		got, err := counted(t.Context(), s.URL)
		if err != nil || !tt.task.Discard && (got.AgeP50 < 1 || got.AgeP99 < got.AgeP50) {
			t.Errorf("got %+v, %v, want the latency in the ages", got, err)
		}
		if got.AgeP50, got.AgeP99 = 0, 0; got != tt.want {
			t.Errorf("got %+v, want %+v", got, tt.want)
		}
	}
}
