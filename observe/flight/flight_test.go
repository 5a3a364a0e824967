package flight_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime/trace"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/flight"
)

func TestMain(m *testing.M) { leak.Main(m) }

func slow(d time.Duration) *observe.Timeline {
	ref := node.Ref{Kind: "listener", Namespace: "default", Name: "web"}
	return &observe.Timeline{
		Process: "0199-" + d.String(), Trigger: ref, Start: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(d), Duration: d,
		Spans: []observe.Span{
			{Node: node.Ref{Kind: "snippet", Name: "quick"}, Run: time.Millisecond},
			{Node: node.Ref{Kind: "snippet", Name: "culprit"}, Start: time.Millisecond, Queue: 2 * time.Millisecond, Wait: d, Error: "<late>"},
		},
	}
}

// start records into a folder, and hands over what was logged when it is closed.
func start(t *testing.T, opts flight.Options) (*flight.Recorder, func() string) {
	t.Helper()
	var log bytes.Buffer
	opts.Slow = 100 * time.Millisecond
	opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	r, err := flight.Start(opts)
	if err != nil {
		t.Fatal(err)
	}
	return r, func() string {
		r.Close()
		return log.String()
	}
}

func names(t *testing.T, dir, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestKeep keeps processes that were slow, with a trace that they share, and
// logs where.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	r, closed := start(t, flight.Options{Dir: dir, Link: func() string { return "http://127.0.0.1:9000/slow/" }})
	watch := r.Watch()
	trace.Log(context.Background(), "mark", "what happened before it was slow")
	watch.Ended(slow(99 * time.Millisecond))
	watch.Ended(slow(100 * time.Millisecond))
	watch.Ended(slow(2 * time.Second))
	log := closed()

	timelines, traces := names(t, dir, "*.timeline.json"), names(t, dir, "*.trace")
	if len(timelines) != 2 || len(traces) != 1 && len(traces) != 2 {
		t.Fatalf("got %v and %v, want two timelines and a trace", timelines, traces)
	}
	data, err := os.ReadFile(timelines[1])
	if err != nil {
		t.Fatal(err)
	}
	var body struct {
		Process  string
		Duration float64 `json:"duration_ms"`
		Trace    string
		Spans    []struct {
			Node  string
			Wait  float64 `json:"wait_ms"`
			Queue float64 `json:"queue_ms"`
			Error string
		}
	}
	if err := json.Unmarshal(data, &body); err != nil {
		t.Fatal(err)
	}
	if body.Process != "0199-2s" || body.Duration != 2000 || len(body.Spans) != 2 || body.Spans[1].Wait != 2000 || body.Spans[1].Queue != 2 || body.Spans[1].Error != "<late>" {
		t.Errorf("got %s", data)
	}
	recorded, err := os.ReadFile(filepath.Join(dir, body.Trace))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(recorded, []byte("go 1.")) || !bytes.Contains(recorded, []byte("what happened before it was slow")) {
		t.Errorf("got a trace of %d bytes that is none, or does not reach back", len(recorded))
	}
	for _, want := range []string{
		"process=0199-2s", "slowest=culprit", "took=2.002s",
		"timeline=http://127.0.0.1:9000/slow/" + filepath.Base(timelines[1]), "trace=http://127.0.0.1:9000/slow/" + body.Trace,
	} {
		if !strings.Contains(log, want) {
			t.Errorf("got no %q in the log:\n%s", want, log)
		}
	}
}

// TestBound keeps the latest within the bound, and leaves other files alone.
func TestBound(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"README", "20200101T000000.000000-old.timeline.json", "20200101T000000.000000.trace"} {
		if err := os.WriteFile(filepath.Join(dir, name), make([]byte, 60_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, age := range map[string]time.Duration{".part-old": 2 * time.Hour, ".part-new": 0} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	r, closed := start(t, flight.Options{Dir: dir, Bytes: 100_000})
	r.Watch().Ended(slow(time.Second))
	closed()
	if left := names(t, dir, "2020*"); len(left) == 2 {
		t.Errorf("got %v, want the oldest gone", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "README")); err != nil {
		t.Error(err)
	}
	if parts := names(t, dir, ".part*"); len(parts) != 1 || filepath.Base(parts[0]) != ".part-new" {
		t.Errorf("got %v left, want only what another program may be writing", parts)
	}
}

// TestBadFolder says so at the start, and later in the log while all else goes on.
func TestBadFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := flight.Start(flight.Options{Slow: time.Second, Dir: filepath.Join(file, "sub")}); err == nil {
		t.Error("got no error for a folder that cannot be")
	}
	if _, err := flight.Start(flight.Options{Dir: t.TempDir()}); err == nil {
		t.Error("got no error without a duration")
	}
	dir := filepath.Join(t.TempDir(), "gone")
	r, closed := start(t, flight.Options{Dir: dir})
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	r.Watch().Ended(slow(time.Second))
	if log := closed(); !strings.Contains(log, "not kept") || !strings.Contains(log, "slow process") {
		t.Errorf("got log %s, want it to say what was not kept, and the slow process", log)
	}
}

// TestTooMany drops what cannot be written in time, and says how many.
func TestTooMany(t *testing.T) {
	r, closed := start(t, flight.Options{Dir: t.TempDir()})
	watch := r.Watch()
	const n = 100_000
	for range n {
		watch.Ended(slow(time.Second))
	}
	if log := closed(); !strings.Contains(log, "there were too many") {
		t.Error("got no word of those that were not kept")
	}
}

// TestHandler lists and serves what is kept, and nothing else.
func TestHandler(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "slow")
	if err := os.WriteFile(filepath.Join(parent, "20200101T000000.000000.trace"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, closed := start(t, flight.Options{Dir: dir})
	if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	r.Watch().Ended(slow(time.Second))
	closed()
	server := httptest.NewServer(http.StripPrefix("/slow/", r.Handler()))
	defer server.Close()
	fetch := func(path string) (int, string) {
		t.Helper()
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it was only read
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, b.String()
	}
	code, body := fetch("/slow/")
	var files []struct {
		Name  string
		Bytes int
	}
	if err := json.Unmarshal([]byte(body), &files); err != nil || code != http.StatusOK || len(files) != 2 || !strings.HasSuffix(files[0].Name, ".trace") {
		t.Fatalf("got %d %s, %v, want the trace and the timeline, the latest first", code, body, err)
	}
	for _, f := range files {
		if code, body := fetch("/slow/" + f.Name); code != http.StatusOK || len(body) != f.Bytes {
			t.Errorf("%s: got %d, %d bytes, want %d", f.Name, code, len(body), f.Bytes)
		}
	}
	for _, path := range []string{"other.json", "..%2f20200101T000000.000000.trace", "20200101T000000.000000%2f..%2fother.trace", "nope"} {
		if code, body := fetch("/slow/" + path); code != http.StatusNotFound || strings.Contains(body, "secret") {
			t.Errorf("%s: got %d %s, want 404", path, code, body)
		}
	}
}
