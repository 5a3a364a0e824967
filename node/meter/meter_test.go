package meter_test

import (
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node/meter"
)

// TestSum adds two shards, with durations at the edges of the buckets.
func TestSum(t *testing.T) {
	var shards [2]meter.Exchanges
	for i, of := range []struct {
		status int
		took   time.Duration
	}{{200, 0}, {201, 5 * time.Millisecond}, {404, 5*time.Millisecond + 1}, {503, 10 * time.Second}, {0, time.Minute}, {999, time.Hour}} {
		shards[i%2].Add(of.status, of.took)
	}
	var sum meter.Sum
	for i := range shards {
		sum.Add(&shards[i])
	}
	if want := [6]uint64{1, 0, 2, 0, 1, 2}; sum.Classes != want {
		t.Errorf("got classes %v, want %v", sum.Classes, want)
	}
	m := sum.Durations("n", "Help.")
	last := len(m.Counts) - 1
	if len(m.Bounds) != last || m.Counts[0] != 2 || m.Counts[1] != 1 || m.Counts[last-1] != 1 || m.Counts[last] != 2 {
		t.Errorf("got counts %v for %v", m.Counts, m.Bounds)
	}
	if want := (time.Hour + time.Minute + 10*time.Second + 10*time.Millisecond + 1).Seconds(); m.Sum != want {
		t.Errorf("got a sum of %v, want %v", m.Sum, want)
	}
	if meter.Class(4) != "4xx" {
		t.Errorf("got %s", meter.Class(4))
	}
}
