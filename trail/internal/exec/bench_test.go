package exec_test

import (
	"bytes"
	"flag"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/trailtest"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/exec"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

var events = flag.Int("events", 200_000, "events of the benchmarks; the published figures come from bench/trail")

// ecom returns segments of the ecom shape.
func ecom(b *testing.B) exec.Input {
	b.Helper()
	return sealed(b, trailtest.Ecom{Seed: 1, Events: *events})
}

// sealed returns segments of generated events, one a bucket.
func sealed(b *testing.B, g trailtest.Generator) exec.Input {
	b.Helper()
	schema := g.Schema()
	builders := make(map[int64]*segment.Builder)
	parts := make(map[int64][]*segment.Segment)
	dir := b.TempDir()
	seal := func(at int64) {
		image, err := builders[at].Image()
		if err != nil {
			b.Fatal(err)
		}
		seg, err := segment.FromBytes("run", image)
		if err != nil {
			b.Fatal(err)
		}
		parts[at] = append(parts[at], seg)
	}
	for row := range g.Rows() {
		at := row.Time / bucket
		if builders[at] == nil {
			builders[at] = segment.NewBuilder(schema)
		}
		builders[at].Add(row.User, row.Time, row.Name, 0, row.Values)
		if builders[at].Rows() == 1<<20 {
			seal(at)
		}
	}
	in := exec.Input{Schema: schema, Horizon: math.MinInt64}
	for at := range builders {
		seal(at)
		var inputs []segment.Input
		for _, seg := range parts[at] {
			inputs = append(inputs, segment.Input{Segment: seg, From: math.MinInt64})
		}
		var out bytes.Buffer
		if _, err := segment.Merge(&out, inputs); err != nil {
			b.Fatal(err)
		}
		path := filepath.Join(dir, event.Time(at*bucket).Format("2006-01-02"))
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
		seg, err := segment.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := seg.Close(); err != nil {
				b.Error(err)
			}
		})
		in.Sources = append(in.Sources, exec.Source{Segment: seg})
	}
	return in
}

// BenchmarkRun runs the queries of bench/trail over fewer events.
func BenchmarkRun(b *testing.B) {
	run(b, ecom(b), []named{
		{"funnel", "funnel: {steps: [view, cart, purchase], within: 7d}"},
		{"funnel-same", "funnel: {steps: [view, cart, purchase], within: 7d, same: item}"},
		{"funnel-signup", "funnel: {steps: [signup, purchase], within: 7d}"},
		{"funnel-cart", "funnel: {steps: [cart, purchase], within: 7d}"},
		{"funnel-any", "funnel: {steps: [cart, purchase], within: 7d, order: any}"},
		{"retention-signup", "retention: {start: signup, return: [view, purchase], every: 7d, periods: 8}"},
		{"funnel-by", "funnel: {steps: [view, cart, purchase], within: 7d, by: country}"},
		{"funnel-strict", "funnel: {steps: [view, cart, purchase], within: 7d, mode: strict_increase}"},
		{"funnel-where", "funnel: {steps: [view, {event: cart, where: {country: {not_in: [FR]}}}, {event: purchase, where: {price: {gt: 1000}}}], within: 7d}"},
		{"retention", "retention: {start: view, return: [view, purchase], every: 7d, periods: 8}"},
		{"segment", "segment: {where: {campaign: exists}, bucket: day, by: country}"},
		{"users", "segment: {where: {campaign: exists}, bucket: day, by: country, measure: users}"},
		{"by-item", "segment: {event: purchase, by: item, measure: sum(price)}"},
		{"exists", "segment: {where: {campaign: exists}}"},
		{"cohort", "cohort: {did: {event: cart, times: {at_least: 3}}}"},
		{"paths", "paths: {anchor: cart, steps: 4, gap: 30m}"},
		{"sample", "sample: 0.1\nfunnel: {steps: [view, cart, purchase], within: 7d}"},
	})
}

// BenchmarkRunShort runs the queries of bench/trail over events without sessions: kernels that
// are fast where steps are rare or values repeat can be slow here.
func BenchmarkRunShort(b *testing.B) {
	run(b, sealed(b, trailtest.Short{Seed: 1, Events: *events}), []named{
		{"funnel", "funnel: {steps: [view, cart, purchase], within: 7d}"},
		{"funnel-same", "funnel: {steps: [view, cart, purchase], within: 7d, same: item}"},
		{"retention", "retention: {start: signup, return: open, every: 7d, periods: 8}"},
		{"retention-any", "retention: {start: signup, return: {}, every: 7d, periods: 8}"},
		{"segment", "segment: {where: {item: exists}, bucket: day, by: country}"},
		{"by-item", "segment: {by: item}"},
		{"paths", "paths: {anchor: cart, steps: 4, gap: 30m}"},
	})
}

// BenchmarkRunVisits runs the queries of bench/trail over times in milliseconds with gaps of days.
func BenchmarkRunVisits(b *testing.B) {
	run(b, sealed(b, trailtest.Visits{Seed: 1, Events: *events}), []named{
		{"funnel", "funnel: {steps: [open, cart, purchase], within: 7d}"},
		{"retention", "retention: {start: open, return: view, every: 7d, periods: 8}"},
		{"retention-any", "retention: {start: open, return: {}, every: 7d, periods: 8}"},
		{"segment", "segment: {where: {campaign: exists}, bucket: day, by: country}"},
		{"users", "segment: {where: {campaign: exists}, measure: users}"},
		{"by-item", "segment: {by: item}"},
		{"paths", "paths: {anchor: cart, steps: 4, gap: 30m}"},
	})
}

// A named is a query with a name for the benchmark.
type named struct{ name, doc string }

func run(b *testing.B, in exec.Input, queries []named) {
	var rows, size int64
	for _, s := range in.Sources {
		rows += int64(s.Segment.Rows())
		size += s.Segment.Size()
		if testing.Verbose() {
			b.Log(s.Segment.Name(), s.Segment.Rows(), s.Segment.Users(), s.Segment.Size())
			for _, f := range in.Schema {
				if c := s.Segment.Column(f.Name); c != nil {
					b.Log(f.Name, c.Codes(), c.Encoding())
				}
			}
			b.Log(s.Segment.Events().Encoding(), s.Segment.Times().Unit())
		}
	}
	for _, c := range queries {
		b.Run(c.name, func(b *testing.B) {
			q, err := query.Parse("bench", []byte(c.doc))
			if err != nil {
				b.Fatal(err)
			}
			var read int64
			scratch := &exec.Scratch{}
			began := busy(b)
			for b.Loop() {
				a, err := exec.Run(b.Context(), in, q, exec.Options{Scratch: scratch})
				if err != nil {
					b.Fatal(err)
				}
				read = a.Stats.BytesRead
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(rows), "ns/event")
			b.ReportMetric(float64(busy(b)-began)/float64(b.N)/float64(rows), "cpu-ns/event")
			b.ReportMetric(float64(size)/float64(rows), "B/event")
			b.ReportMetric(float64(read)/float64(rows), "Bread/event")
		})
	}
}
