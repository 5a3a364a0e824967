package segment

import (
	"bytes"
	"fmt"
	"math"
	"runtime"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// TestMergeOfFewRowsIsSmall has a budget for what a store merges after every few
// appends: buffers for large segments made up nine tenths of an append.
func TestMergeOfFewRowsIsSmall(t *testing.T) {
	schema := event.Schema{{Name: "country", Type: event.String}, {Name: "price", Type: event.Int}, {Name: "share", Type: event.Float}}
	var inputs []Input
	for i := range 4 {
		b := NewBuilder(schema)
		b.Add(fmt.Sprint("u", i), int64(i)*1000, "view", uint64(i), []event.Value{event.StringOf("KR"), event.IntOf(int64(i)), event.FloatOf(0.5)})
		image, err := b.Image()
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, Input{Segment: open(t, image), From: math.MinInt64})
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	const runs = 20
	for range runs {
		var out bytes.Buffer
		if sum, err := Merge(&out, inputs); err != nil || sum.Rows != 4 {
			t.Fatal(sum, err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := (after.TotalAlloc - before.TotalAlloc) / runs; got > 40<<10 {
		t.Errorf("got %d bytes for a merge of four rows, want at most 40 KiB", got)
	} else {
		t.Logf("%d bytes", got)
	}
}
