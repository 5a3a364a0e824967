package trail

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// storm runs 64 queries at a time while a store is appended to, flushed and
// compacted without a pause, and users are deleted.
func storm(t testing.TB, s *Store, lasting time.Duration, queries int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lasting)
	defer cancel()
	_ = ctx.Done() // it is made under a lock when it is first asked for, by all goroutines
	ended := func(err error) bool {
		if err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		return err != nil
	}
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			lot := rand.New(rand.NewPCG(uint64(w), 1))
			for i := 0; ctx.Err() == nil; i++ {
				if ended(s.Append(ctx, draw(lot, 30, fmt.Sprint(w, "-", i)))) {
					return
				}
			}
		})
	}
	wg.Go(func() {
		for i := 0; !ended(s.Flush(ctx)); i++ {
			if i%2 == 0 && ended(s.Compact(ctx, nil)) {
				return
			}
			if _, err := s.DeleteUser(ctx, fmt.Sprint("u", i%50)); ended(err) {
				return
			}
		}
	})
	for i := range queries {
		wg.Go(func() {
			q := smallQuery(i)
			for ctx.Err() == nil {
				if _, err := s.Query(ctx, q, QueryOptions{}); ended(err) {
					return
				}
			}
		})
	}
	wg.Wait()
}

// smallQuery returns a query that reads few events.
func smallQuery(i int) *query.Query {
	bounds := query.Bounds{From: day(int64(i)), To: day(int64(i + 3)), HasFrom: true, HasTo: true}
	switch i % 3 {
	case 0:
		return &query.Query{Funnel: &query.Funnel{Steps: []query.Match{{Events: []string{"view"}}, {Events: []string{"cart"}}}, NoLimit: true, Bounds: bounds}}
	case 1:
		return &query.Query{Segment: &query.Segment{Match: query.Match{Events: []string{"view"}}, By: []string{"country"}, Bounds: bounds}}
	}
	return &query.Query{Cohort: &query.Cohort{Did: []query.Did{{Match: query.Match{Events: []string{"signup"}}, AtLeast: 2}}, Bounds: bounds}}
}

func TestHammer(t *testing.T) {
	opt := quiet()
	opt.FlushRows = 500
	dir := t.TempDir()
	s := open(t, dir, opt)
	storm(t, s, time.Second, 16)
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := s.Info().Rows, count(t, s); got != want {
		t.Errorf("got %d rows, and a query counts %d", got, want)
	}
	wantSound(t, dir)
}

// TestQueriesTakeNoLock is the founding article's story: with many small queries
// during constant flushing, a lock of the metadata decided how fast they were. The
// mutex profile must not have a query in it.
func TestQueriesTakeNoLock(t *testing.T) {
	opt := quiet()
	opt.FlushRows = 500
	s := open(t, t.TempDir(), opt)
	storm(t, s, 200*time.Millisecond, 4) // something to ask about
	before := runtime.SetMutexProfileFraction(1)
	storm(t, s, time.Second, 64)
	runtime.SetMutexProfileFraction(before)
	locks := regexp.MustCompile(`sync\.\(\*(Mutex|RWMutex|Once|Pool|Cond|Map)\)`)
	var b bytes.Buffer
	if err := pprof.Lookup("mutex").WriteTo(&b, 1); err != nil {
		t.Fatal(err)
	}
	for _, sample := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(sample, "trail.(*Store).Query") && locks.MatchString(sample) {
			t.Errorf("a query has waited for a lock, or had others wait:\n%s", sample)
		}
	}
}

func TestPinAllocatesNothing(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	got := testing.AllocsPerRun(100, func() {
		sn, err := s.state.view()
		if err != nil {
			t.Fatal(err)
		}
		sn.unpin()
		n, err := s.acquireWorkers(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		s.releaseWorkers(n)
	})
	if got != 0 {
		t.Errorf("got %v allocations, want 0", got)
	}
}

// TestSnapshotsAreFreed looks that files go when the last query that reads them
// ends, and not before.
func TestSnapshotsAreFreed(t *testing.T) {
	s := open(t, t.TempDir(), quiet())
	lot := rand.New(rand.NewPCG(1, 2))
	for i := range 3 {
		add(t, s, draw(lot, 100, fmt.Sprint(i))...)
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sn, err := s.state.view()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Compact(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	files := func() int {
		names, err := s.files.fs.ReadDir(s.files.segmentPath(""))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	want := make(map[string]bool) // the compactor may have merged before the query, so that both have a file
	for _, seg := range s.Info().Segments {
		want[seg.File] = true
	}
	for _, src := range sn.sources {
		want[src.File] = true
	}
	if held := files(); held != len(want) {
		t.Errorf("got %d files while a query reads, want %d: the present ones, and the older ones that the query reads", held, len(want))
	}
	sn.unpin()
	if left, kept := files(), len(s.Info().Segments); left != kept {
		t.Errorf("got %d files after it, want %d", left, kept)
	}
}
