package events_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow"
)

// TestTrailSink keeps the events of messages, each once, and refuses only those that
// cannot be taken.
func TestTrailSink(t *testing.T) {
	dir := t.TempDir()
	e := serve(t, `{kind: trail_sink, name: n, db: %s, batch: {linger: 1ms}}`, dir)
	f := func(in, want string) {
		t.Helper()
		if got := send(t, e, in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	f(`{"user":"ann","time":"2026-01-05T10:00:00Z","event":"view"}`, "none")
	// With an id, a message that comes twice is one event; it has the time of the message.
	message := `{"id":"a/1","time":"2026-01-06T10:00:00Z","body":{"user":"ann","event":"view"}}`
	f(message, "none")
	f(message, "none")
	f(`[{"id":"a/2","time":"2026-01-07T10:00:00Z","body":{"user":"ann","event":"view"}},{"user":"bob","time":"2026-01-07T10:00:00Z","event":"view","n":1}]`, "none")
	if got, want := count(t, dir, `{segment: {bucket: day, to: 2026-02-01}}`), "2026-01-05  1; 2026-01-06  1; 2026-01-07  2"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := send(t, e, `[{"user":"ann","time":"2026-01-08T10:00:00Z","event":"view"},{"event":"view"},{"user":"x","event":"view","n":"text"},7]`)
	for _, want := range []string{"message 1: user: is missing", "message 2: ", "message 3: must be a map, got integer", "[refused 422 "} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got, want := count(t, dir, `{segment: {event: view, bucket: day, from: 2026-01-08, to: 2026-01-09}}`), "2026-01-08  1"; got != want {
		t.Errorf("got %s of a list with messages that were refused, want %s", got, want)
	}
}

// TestTrailSinkRefused does not start on a store that cannot be opened.
func TestTrailSinkRefused(t *testing.T) {
	e := engine(t, t.Output())
	defer shutdown(t, e)
	err := apply(t, e, "- kind: trail_sink\n  name: n\n  db: /dev/null/store\n")
	if err == nil || !strings.Contains(err.Error(), "w.yaml:3:7: db: ") {
		t.Errorf("got %v", err)
	}
}

// TestTrailSinkShares has a sink, trail_append and trail_query on one folder, through
// reloads.
func TestTrailSinkShares(t *testing.T) {
	dir := t.TempDir()
	document := func(version int) string {
		return fmt.Sprintf("- {kind: trail_sink, name: n, db: %[1]s}\n- {kind: trail_append, name: m, db: %[1]s}\n"+
			"- {kind: trail_query, name: q, db: %[1]s, query: {segment: {event: view, measure: count}}}\n- {kind: nop, name: v%[2]d}\n", dir, version)
	}
	e := engine(t, t.Output())
	defer shutdown(t, e)
	if err := apply(t, e, "%s", document(0)); err != nil {
		t.Fatal(err)
	}
	const each = 50
	var senders sync.WaitGroup
	for s := range 4 {
		senders.Go(func() {
			for i := range each {
				node := []string{"n", "m"}[s%2]
				if _, _, err := e.Run(t.Context(), node, payload(t, fmt.Sprintf(`{"user":"u%d-%d","event":"view"}`, s, i))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for version := range 5 {
		if err := apply(t, e, "%s", document(version+1)); err != nil {
			t.Error(err)
		}
	}
	senders.Wait()
	expectCount(t, e, 4*each)
}

func expectCount(t *testing.T, e *uniflow.Engine, want int) {
	t.Helper()
	answer, _, err := e.Run(t.Context(), "q", payload(t, "{}"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(answer.String(), fmt.Sprintf(`"value":%d`, want)) {
		t.Errorf("got %s, want %d", answer, want)
	}
}
