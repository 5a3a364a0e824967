package events_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/uniflow-labs/uniflow/lang/builtin"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/node/stream/streamtest"
	"github.com/uniflow-labs/uniflow/nodes/events"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
	"github.com/uniflow-labs/uniflow/value"
)

// TestTrailSinkKit appends to a store in a folder, which the kit asks for the ids of events.
func TestTrailSinkKit(t *testing.T) {
	without := make(map[streamtest.Row]string)
	for _, row := range []streamtest.Row{streamtest.Resets, streamtest.BlackHole, streamtest.Slow, streamtest.Restarts, streamtest.Late, streamtest.Outage} {
		without[row] = "The store is a folder."
	}
	streamtest.Run(t, streamtest.Subject{
		Kinds: events.Defs(stream.Options{Languages: builtin.Languages(), Language: "cel"}), Sink: true, Without: without,
		System: func(t testing.TB) *streamtest.System {
			dir := filepath.Join(t.TempDir(), "store")
			return &streamtest.System{
				Sink: func(string) map[string]any {
					return map[string]any{"kind": "trail_sink", "db": dir, "user": "key", "event": "'made'"}
				},
				Consume: func(t testing.TB) [][]byte { return made(t, dir) },
				Reject: func() value.Value { // without a user
					return value.Map(value.Field{Name: "body", Value: value.Map(value.Field{Name: "pad", Value: value.String("x")})})
				},
				Refuse: func(fields map[string]any) (field, secret string) {
					fields["db"] = "/dev/null/store"
					return "db", "a wrong horse"
				},
			}
		},
	})
}

// made returns the ids of the events in a store, each as often as it is there.
func made(t testing.TB, dir string) (bodies [][]byte) {
	t.Helper()
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s, err := trail.Open(dir, trail.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	q, err := query.Parse("q", []byte(`{segment: {event: made, by: id, limit: 1000000, measure: count}}`))
	if err != nil {
		t.Fatal(err)
	}
	a, err := s.Query(t.Context(), q, trail.QueryOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range a.Segment.Rows {
		for range r.Value.Int {
			bodies = append(bodies, []byte(`{"id": `+r.Group[0].String()+`}`))
		}
	}
	return bodies
}
