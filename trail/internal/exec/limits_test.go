package exec_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// image makes a segment image of rows of one property.
func image(t testing.TB, typ event.Type, rows int, row func(i int) (user string, at int64, v event.Value)) []byte {
	t.Helper()
	b := segment.NewBuilder(event.Schema{{Name: "v", Type: typ}})
	for i := range rows {
		user, at, v := row(i)
		b.Add(user, at, "view", 0, []event.Value{v})
	}
	data, err := b.Image()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// store returns an input of images.
func store(t testing.TB, typ event.Type, images ...[]byte) exec.Input {
	t.Helper()
	in := exec.Input{Schema: event.Schema{{Name: "v", Type: typ}}, Horizon: math.MinInt64}
	for i, data := range images {
		seg, err := segment.FromBytes(fmt.Sprint("segment ", i), data)
		if err != nil {
			t.Fatal(err)
		}
		in.Sources = append(in.Sources, exec.Source{Segment: seg})
	}
	return in
}

// TestCutFile has a file that was cut short while it was mapped end the queries
// that read it, and name itself.
func TestCutFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cut.seg")
	data := image(t, event.Int, 200_000, func(i int) (string, int64, event.Value) {
		return fmt.Sprint("u", i%5000), int64(i), event.IntOf(int64(i))
	})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	seg, err := segment.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := seg.Close(); err != nil {
			t.Error(err)
		}
	}()
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	in := exec.Input{Sources: []exec.Source{{Segment: seg}}, Schema: seg.Schema(), Horizon: math.MinInt64}
	_, err = exec.Run(t.Context(), in, parse(t, "segment: {measure: sum(v)}"), exec.Options{})
	if err == nil || !strings.Contains(err.Error(), "cut.seg") || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("got %v, want an error that names cut.seg", err)
	}
}

// TestPruning leaves out segments whose values cannot pass, and those after the
// last period of a retention.
func TestPruning(t *testing.T) {
	const day = 86400_000
	var images [][]byte
	for month := range 20 {
		images = append(images, image(t, event.String, 100, func(i int) (string, int64, event.Value) {
			return fmt.Sprint("u", i), int64(month)*28*day + int64(i), event.StringOf(fmt.Sprint("month ", month))
		}))
	}
	in := store(t, event.String, images...)
	for doc, want := range map[string]int{
		"segment: {where: {v: month 3}}":                                                   1,
		"segment: {where: {v: {in: [month 3, month 4]}}}":                                  2,
		"segment: {where: {v: {prefix: month 1}}}":                                         11,
		"segment: {where: {v: nothing}}":                                                   0,
		"segment: {where: {v: missing}}":                                                   0,
		"segment: {where: {v: exists}}":                                                    20,
		"retention: {start: view, return: view, every: 7d, periods: 4, to: 1970-01-05}":    2,
		"retention: {start: view, return: view, every: month, periods: 2, to: 1970-01-05}": 3,
	} {
		if got := ask(t, in, doc).Stats.Segments; got != want {
			t.Errorf("%s: read %d segments, want %d", doc, got, want)
		}
	}
}

// TestOrdinaryMemory has ordinary queries of many segments do with the default
// budget.
func TestOrdinaryMemory(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 9))
	var images [][]byte
	for range 60 {
		images = append(images, image(t, event.Int, 1000, func(i int) (string, int64, event.Value) {
			return fmt.Sprint("u", i), random.Int64N(1e9), event.IntOf(random.Int64N(200_000))
		}))
	}
	in := store(t, event.Int, images...)
	steps := strings.Repeat("{event: view, where: {v: {gt: 10}}}, ", 32)
	for _, doc := range []string{
		"segment: {measure: sum(v)}", "segment: {measure: max(v), bucket: minute}", "funnel: {steps: [" + steps + "], where: {v: {ne: 77}}}",
	} {
		if _, err := exec.Run(t.Context(), in, parse(t, doc), exec.Options{Workers: 8}); err != nil {
			t.Errorf("%.60s: %v", doc, err)
		}
	}
}

// TestLongSets has sets on columns without codes searched, not scanned.
func TestLongSets(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	in := store(t, event.Int, image(t, event.Int, 100_000, func(i int) (string, int64, event.Value) {
		return fmt.Sprint("u", i%1000), int64(i), event.IntOf(int64(random.Uint64() >> 1))
	}))
	fastest := func(literals int) time.Duration {
		var set []string
		for range literals {
			set = append(set, fmt.Sprint(random.Uint64()>>1))
		}
		q := parse(t, "segment: {where: {v: {in: ["+strings.Join(set, ", ")+"]}}}")
		best := time.Hour
		for range 5 {
			start := time.Now()
			if _, err := exec.Run(t.Context(), in, q, exec.Options{Workers: 1}); err != nil {
				t.Fatal(err)
			}
			best = min(best, time.Since(start))
		}
		return best
	}
	// Without an order it was a thousand times.
	if few, many := fastest(10), fastest(10_000); many > 60*few {
		t.Errorf("10 literals took %s, 10,000 took %s", few, many)
	}
}

// TestManyRuns checks that one large segment does not pay for many small runs.
func TestManyRuns(t *testing.T) {
	small := image(t, event.Int, 3, func(i int) (string, int64, event.Value) { return fmt.Sprint("x", i), 1, event.IntOf(1) })
	large := image(t, event.Int, 200_000, func(i int) (string, int64, event.Value) { return fmt.Sprint("u", i), 1, event.IntOf(1) })
	images := [][]byte{large}
	for range 300 {
		images = append(images, small)
	}
	in := store(t, event.Int, images...)
	a := ask(t, in, "cohort: {did: view}")
	if got := a.Cohort.Users.N; got != 200_003 {
		t.Errorf("got %d users, want 200,003", got)
	}
}

// TestSmallSample has the interval of few users, and of none, not be a point.
func TestSmallSample(t *testing.T) {
	const users, buyers, share = 1000, 10, 0.1
	held, draws := 0, 200
	for draw := range draws {
		in := store(t, event.Int, image(t, event.Int, users, func(i int) (string, int64, event.Value) {
			return fmt.Sprint(draw, "-", i), 1, event.IntOf(int64(i))
		}))
		n := ask(t, in, fmt.Sprintf("sample: %v\ncohort: {did: {event: view, where: {v: {lt: %d}}}}", share, buyers)).Cohort.Users
		if n.Low <= buyers && buyers <= n.High {
			held++
		}
	}
	if held < draws*90/100 {
		t.Errorf("the interval of 95 %% held the truth %d times of %d", held, draws)
	}
}

// TestWidened has an answer not depend on whether integers of a property that has
// become a number were rewritten.
func TestWidened(t *testing.T) {
	const odd = 1<<53 + 1
	old := image(t, event.Int, 1, func(int) (string, int64, event.Value) { return "u", 1, event.IntOf(odd) })
	rewritten := image(t, event.Float, 1, func(int) (string, int64, event.Value) { return "u", 1, event.FloatOf(odd) })
	for _, doc := range []string{fmt.Sprintf("segment: {where: {v: %d}}", odd), fmt.Sprintf("segment: {where: {v: {gt: %d}}}", odd-1)} {
		a, b := ask(t, store(t, event.Float, old), doc), ask(t, store(t, event.Float, rewritten), doc)
		if a.Segment.Rows[0].Value.Int != b.Segment.Rows[0].Value.Int {
			t.Errorf("%s: %d of integers, %d of numbers", doc, a.Segment.Rows[0].Value.Int, b.Segment.Rows[0].Value.Int)
		}
	}
}

// TestNoSources answers queries of nothing.
func TestNoSources(t *testing.T) {
	for _, doc := range []string{
		"funnel: {steps: [a, b], by: v}", "retention: {start: a, return: b, every: week, periods: 3}", "segment: {bucket: day, by: v, fill: true}",
		"cohort: {did: a}", "paths: {anchor: a}",
	} {
		if _, err := exec.Run(t.Context(), exec.Input{Horizon: math.MinInt64}, parse(t, doc), exec.Options{}); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
}
