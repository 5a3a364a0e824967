package main

import (
	"fmt"
	"strings"

	"github.com/uniflow-labs/uniflow/bench/show"
)

// A target is what the measurement has to show, and whether it did.
type target struct {
	Name string `json:"name"`
	Want string `json:"want"`
	Got  string `json:"got"`
	Met  bool   `json:"met"`
}

func (t *target) verdict() string {
	if t.Met {
		return "ok"
	}
	return "MISSED"
}

// The targets. Times are of 20 M events on two processors, hot.
const (
	targetEvents    = 20_000_000
	targetShape     = "ecom"
	funnelLimit     = 60.0 // milliseconds
	retentionLimit  = 75.0
	segmentLimit    = 60.0
	sampleFaster    = 7.0 // times, than all
	bytesLimit      = 8.0 // an event, on disk
	memoryLimit     = 64 << 20
	importLimit     = 300_000.0 // events a second
	funnelFaster    = 10.0      // times, than DuckDB
	retentionFaster = 5.0
)

// targets judges what was measured; of another shape, importing and memory only.
func targets(f *figures) []target {
	var all []target
	add := func(met bool, name, want, got string) { all = append(all, target{name, want, got, met}) }
	ours := f.Shape == targetShape
	share := float64(f.Made.Parquet.Events) / targetEvents
	for _, t := range []struct {
		name  string
		limit float64
	}{{nameFunnel, funnelLimit}, {nameRetention, retentionLimit}, {nameSegment, segmentLimit}} {
		q := f.query(t.name)
		if !ours || q == nil {
			continue
		}
		got := q.arm(engineTrail, cores).Median
		want := fmt.Sprintf("≤ %.3g ms", t.limit*share)
		if share != 1 {
			want += fmt.Sprintf(" (%.0f for 20 M)", t.limit)
		}
		add(got <= t.limit*share, t.name, want, fmt.Sprintf("%.1f ms", got))
	}
	if full, sample := f.query(nameFunnel), f.query(nameSample); ours && full != nil && sample != nil {
		times := full.arm(engineTrail, cores).Median / sample.arm(engineTrail, cores).Median
		add(times >= sampleFaster, "10 % sample, faster than all", fmt.Sprintf("≥ %.0f x", sampleFaster), fmt.Sprintf("%.1f x", times))
	}
	if i := f.Made.Import; i != nil {
		if ours {
			add(i.PerEvent <= bytesLimit, "bytes an event on disk", fmt.Sprintf("≤ %.0f", bytesLimit), fmt.Sprintf("%.2f", i.PerEvent))
		}
		add(i.PerSecond >= importLimit, "import, events/s", "≥ "+show.Thousands(importLimit), show.Thousands(int64(i.PerSecond)))
	}
	var most int64
	var where []string
	for i := range f.Queries {
		q := &f.Queries[i]
		most = max(most, q.Memory)
		if q.Memory > memoryLimit {
			where = append(where, q.Name)
		}
	}
	if len(f.Queries) > 0 {
		got := mib(most)
		if len(where) > 0 {
			got += " (" + strings.Join(where, ", ") + ")"
		}
		add(most <= memoryLimit, "memory of a query beyond the mapped files", "≤ "+mib(memoryLimit), got)
	}
	for _, t := range []struct {
		name  string
		times float64
	}{{nameFunnel, funnelFaster}, {nameRetention, retentionFaster}} {
		q := f.query(t.name)
		if !ours || q == nil || q.arm(engineDuck, cores) == nil {
			continue
		}
		got := q.arm(engineDuck, cores).Median / q.arm(engineTrail, cores).Median
		add(got >= t.times, t.name+", faster than DuckDB", fmt.Sprintf("≥ %.0f x", t.times), fmt.Sprintf("%.1f x", got))
	}
	return all
}
