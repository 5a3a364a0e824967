package exec_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// This file has three of the founding lessons, each with the naive way next to ours.
// bench/trail has the other two. All of them work
// with one worker, so that ways are compared rather than processors.

// answered runs a query in a benchmark and returns what the last run answered.
func answered(b *testing.B, in exec.Input, doc string) *query.Answer {
	b.Helper()
	q, err := query.Parse("lesson", []byte(doc))
	if err != nil {
		b.Fatal(err)
	}
	var a *query.Answer
	b.ReportAllocs()
	for b.Loop() {
		if a, err = exec.Run(b.Context(), in, q, exec.Options{Workers: 1}); err != nil {
			b.Fatal(err)
		}
	}
	return a
}

// perEvent reports the time by event, and what was read.
func perEvent(b *testing.B, in exec.Input, read int64) {
	var rows int64
	for _, s := range in.Sources {
		rows += int64(s.Segment.Rows())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/event")
	b.ReportMetric(float64(read), "Bread/op")
}

// prepared makes all rows of columns readable and returns how many bytes that are.
// Times are for timed.
func prepared(tb testing.TB, s *segment.Segment, columns ...*segment.Column) int64 {
	tb.Helper()
	var n int64
	for _, c := range columns {
		touched, err := c.Prepare(0, s.Rows())
		if err != nil {
			tb.Fatal(err)
		}
		n += touched + c.DictionaryBytes()
	}
	return n
}

// timed makes all times readable and returns how many bytes that are.
func timed(tb testing.TB, s *segment.Segment) int64 {
	tb.Helper()
	n, err := s.Times().Prepare(0, s.Rows())
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

// BenchmarkLessonExists counts the events that have a campaign.
func BenchmarkLessonExists(b *testing.B) {
	in := ecom(b)
	var want int64
	// The naive way has a string for each row and looks whether it is empty.
	b.Run("naive", func(b *testing.B) {
		var read int64
		codes := make([]uint32, block)
		for b.Loop() {
			want, read = 0, 0
			for _, s := range in.Sources {
				col := s.Segment.Column("campaign")
				read += prepared(b, s.Segment, col)
				for lo := 0; lo < s.Segment.Rows(); lo += block {
					for _, code := range col.Read32(codes, lo, min(lo+block, s.Segment.Rows())) {
						if campaign := col.Value(code).Text(); campaign != "" {
							want++
						}
					}
				}
			}
		}
		perEvent(b, in, read)
	})
	// Ours plans "not the missing code".
	b.Run("ours", func(b *testing.B) {
		a := answered(b, in, "segment: {where: {campaign: exists}}")
		if got := a.Segment.Rows[0].Value.Int; got != want && want > 0 {
			b.Fatalf("got %d, want %d", got, want)
		}
		perEvent(b, in, a.Stats.BytesRead)
	})
}

// block is how many rows cursors read at a time.
const block = 1024

// A row is what a cursor gives.
type row struct {
	user                            string
	time                            int64
	name, country, device, campaign string
}

// A cursor reads the rows of a segment. What next returns is valid until the next call,
// unless the cursor copies: then it belongs to the caller.
type cursor struct {
	copies bool
	seg    *segment.Segment
	cols   [4]*segment.Column
	codes  [4][]uint32 // of the batch; may be the map's
	times  []uint32
	buf    [5][]uint32 // what codes and times are read into
	at, lo int
	user   int
	id     string
	lent   row
}

func newCursor(tb testing.TB, s *segment.Segment, copies bool) *cursor {
	tb.Helper()
	c := &cursor{copies: copies, seg: s, lo: -block, user: -1}
	c.cols = [4]*segment.Column{s.Events(), s.Column("country"), s.Column("device"), s.Column("campaign")}
	if _, _, err := s.Range(0, math.MaxUint64); err != nil {
		tb.Fatal(err)
	}
	timed(tb, s)
	prepared(tb, s, c.cols[:]...)
	for i := range c.buf {
		c.buf[i] = make([]uint32, block)
	}
	return c
}

// next returns the next row, nil after the last.
func (c *cursor) next(tb testing.TB) *row {
	if c.at == c.seg.Rows() {
		return nil
	}
	if c.at >= c.lo+block {
		c.read()
	}
	for c.user < 0 || c.at >= c.seg.FirstRow(c.user+1) {
		c.user++
		var err error
		if c.id, err = c.seg.UserID(c.user); err != nil {
			tb.Fatal(err)
		}
	}
	i := c.at - c.lo
	c.at++
	text := func(k int) string { return c.cols[k].Value(c.codes[k][i]).Text() }
	at := c.seg.Times().Base() + c.seg.Times().Unit()*int64(c.times[i])
	if c.copies {
		return &row{strings.Clone(c.id), at, strings.Clone(text(0)), strings.Clone(text(1)), strings.Clone(text(2)), strings.Clone(text(3))}
	}
	c.lent = row{c.id, at, text(0), text(1), text(2), text(3)}
	return &c.lent
}

// read reads the next batch; the one that copies takes memory for each.
func (c *cursor) read() {
	c.lo = c.at
	hi := min(c.lo+block, c.seg.Rows())
	own := func(batch []uint32) []uint32 {
		if c.copies {
			return slices.Clone(batch)
		}
		return batch
	}
	for i, col := range c.cols {
		c.codes[i] = own(col.Read32(c.buf[i], c.lo, hi))
	}
	c.times = own(c.seg.Times().Read(c.buf[4], c.lo, hi))
}

// BenchmarkLessonCursor counts views and purchases by country and the time from the
// one to the other of a user, from rows; then the executor answers the funnel.
func BenchmarkLessonCursor(b *testing.B) {
	in := ecom(b)
	type found struct {
		views, purchases map[string]int
		wait             int64
	}
	walk := func(b *testing.B, copies bool) (got found) {
		b.ReportAllocs()
		for b.Loop() {
			got = found{views: map[string]int{}, purchases: map[string]int{}}
			for _, s := range in.Sources {
				c, user, seen := newCursor(b, s.Segment, copies), "", int64(0)
				for r := c.next(b); r != nil; r = c.next(b) {
					if r.user != user {
						user, seen = r.user, r.time
					}
					switch r.name {
					case "view":
						got.views[r.country]++
					case "purchase":
						got.purchases[r.country]++
						got.wait += r.time - seen
					}
				}
			}
		}
		perEvent(b, in, 0)
		return got
	}
	var naive, lent found
	b.Run("naive", func(b *testing.B) { naive = walk(b, true) })
	b.Run("lent", func(b *testing.B) { lent = walk(b, false) })
	if naive.wait != lent.wait && naive.wait > 0 && lent.wait > 0 {
		b.Fatalf("got %d, want %d", lent.wait, naive.wait)
	}
	b.Run("ours", func(b *testing.B) {
		a := answered(b, in, "segment: {event: [view, purchase], by: country}")
		var got, want int64
		for _, r := range a.Segment.Rows {
			got += r.Value.Int
		}
		for country := range lent.views {
			want += int64(lent.views[country] + lent.purchases[country])
		}
		if got != want && want > 0 {
			b.Fatalf("got %d, want %d", got, want)
		}
		perEvent(b, in, a.Stats.BytesRead)
	})
}

// BenchmarkLessonSample runs a funnel over a tenth of the users: over the users whose hash
// divides by ten, for which everything is read, and over the first tenth of each
// segment.
func BenchmarkLessonSample(b *testing.B) {
	in := ecom(b)
	const funnel = "funnel: {steps: [view, cart, purchase], within: 7d}"
	var want [3]int64
	b.Run("naive", func(b *testing.B) {
		f := newFiltered(b, in)
		var read int64
		for b.Loop() {
			want, read = f.funnel(b)
		}
		perEvent(b, in, read)
	})
	b.Run("all", func(b *testing.B) {
		a := answered(b, in, funnel)
		perEvent(b, in, a.Stats.BytesRead)
	})
	b.Run("ours", func(b *testing.B) {
		a := answered(b, in, "sample: 0.1\n"+funnel)
		perEvent(b, in, a.Stats.BytesRead)
		for i, step := range a.Funnel.Steps {
			// Other users are drawn: a tenth of all of them both, give or take 5 deviations.
			off := step.Users.N - 10*want[i]
			if within := 5 * 14 * math.Sqrt(float64(want[i])); want[0] > 0 && math.Abs(float64(off)) > within {
				b.Errorf("step %d: got %d, want %d within %.0f", i+1, step.Users.N, 10*want[i], within)
			}
		}
	})
}

// A filtered is a funnel over a tenth of the users, written by hand, with nothing
// between it and the columns.
type filtered struct {
	segments []*segment.Segment // by time
	times    [][]uint32         // by segment: of all rows
	names    [][]uint8
	steps    [][256]uint8 // by segment: of each code the step from 1, or 0
	users    []int        // by segment: the next one
}

func newFiltered(b *testing.B, in exec.Input) *filtered {
	f := &filtered{users: make([]int, len(in.Sources))}
	for _, s := range in.Sources {
		f.segments = append(f.segments, s.Segment)
	}
	slices.SortFunc(f.segments, func(x, y *segment.Segment) int { return cmp.Compare(x.MinTime(), y.MinTime()) })
	for _, s := range f.segments {
		if _, _, err := s.Range(0, math.MaxUint64); err != nil {
			b.Fatal(err)
		}
		var steps [256]uint8
		for i, name := range []string{"view", "cart", "purchase"} {
			if code, exact := s.Events().Search(event.StringOf(name)); exact {
				steps[code] = uint8(i + 1)
			}
		}
		f.steps = append(f.steps, steps)
		f.times, f.names = append(f.times, make([]uint32, s.Rows())), append(f.names, make([]uint8, s.Rows()))
	}
	return f
}

// funnel returns the users at each step, and the bytes that it read.
func (f *filtered) funnel(b *testing.B) (users [3]int64, read int64) {
	times, names := make([][]uint32, len(f.segments)), make([][]uint8, len(f.segments))
	for i, s := range f.segments {
		f.users[i] = 0
		read += timed(b, s) + prepared(b, s, s.Events())
		times[i] = s.Times().Read(f.times[i], 0, s.Rows())
		names[i] = s.Events().Read8(f.names[i], 0, s.Rows())
	}
	for {
		hash, left := uint64(math.MaxUint64), false
		for i, s := range f.segments {
			if f.users[i] < s.Users() {
				hash, left = min(hash, s.Hashes()[f.users[i]]), true
			}
		}
		if !left {
			return users, read
		}
		var first [4]int64 // by step: time of the first event of the latest chain that came there
		for i, s := range f.segments {
			for ; f.users[i] < s.Users() && s.Hashes()[f.users[i]] == hash; f.users[i]++ {
				if hash%10 != 0 {
					continue
				}
				for row := s.FirstRow(f.users[i]); row < s.FirstRow(f.users[i]+1); row++ {
					at := s.Times().Base() + s.Times().Unit()*int64(times[i][row])
					switch step := f.steps[i][names[i][row]]; {
					case step == 1:
						first[1] = at
					case step > 1 && first[step-1] > 0 && at-first[step-1] <= 7*24*time.Hour.Milliseconds():
						first[step] = first[step-1]
					}
				}
			}
		}
		for step := range users {
			if first[step+1] > 0 {
				users[step]++
			}
		}
	}
}

// TestLessonCursors compares rows that are lent with rows that are copied,
// and checks that the former allocate only the ids of users.
func TestLessonCursors(t *testing.T) {
	schema := event.Schema{{Name: "country", Type: event.String}, {Name: "device", Type: event.String}, {Name: "campaign", Type: event.String}}
	builder := segment.NewBuilder(schema)
	const users, rows = 7, 3000
	for i := range int64(rows) {
		values := []event.Value{{}, event.StringOf("mobile"), event.StringOf("spring")}
		if i%3 != 0 {
			values[0] = event.StringOf("KR")
		}
		builder.Add(fmt.Sprint("u", i%users), 1767571200000+i*1000, "view", 0, values)
	}
	image, err := builder.Image()
	if err != nil {
		t.Fatal(err)
	}
	seg, err := segment.FromBytes("run", image)
	if err != nil {
		t.Fatal(err)
	}
	all := func(copies bool) (got []row) {
		c := newCursor(t, seg, copies)
		for r := c.next(t); r != nil; r = c.next(t) {
			got = append(got, *r)
		}
		return got
	}
	lent, copied := all(false), all(true)
	if len(lent) != rows || !slices.Equal(lent, copied) {
		t.Errorf("got %d rows lent and %d copied, want %d equal ones", len(lent), len(copied), rows)
	}
	if invariant.Race {
		return
	}
	c := newCursor(t, seg, false)
	got := testing.AllocsPerRun(10, func() {
		c.at, c.lo, c.user = 0, -block, -1
		for r := c.next(t); r != nil; r = c.next(t) {
			_ = r.time
		}
	})
	if got > users {
		t.Errorf("got %v allocations of %d rows, want at most %d: ids", got, rows, users)
	}
}
