package prom_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/observe/prom"
)

func TestMain(m *testing.M) { leak.Main(m) }

func sample() observe.Metrics {
	m := observe.Metrics{Generation: 3, Draining: 1, Reloads: 2, Refused: 1, Started: 10, InFlight: 2, Pending: 5, PendingBytes: 640}
	m.Ended[observe.Answered], m.Ended[observe.Failed] = 7, 1
	hello := observe.NodeMetrics{Kind: "snippet", Namespace: "default", Name: `it said "hi"` + "\n", Packets: 9, Errors: 1, Busy: 3 * time.Millisecond}
	for _, d := range []time.Duration{500, time.Microsecond, 2 * time.Microsecond, 10 * time.Second, time.Minute} {
		hello.Latency.Counts[hello.Latency.Bucket(d)]++
		hello.Latency.Sum += d
	}
	m.Nodes = []observe.NodeMetrics{hello, {Kind: "router", Namespace: "default"}}
	m.LastReload, m.LastReloadOK = time.UnixMilli(1_500), true
	a, b := node.Ref{Kind: "test", Namespace: "default", Name: "a"}, node.Ref{Kind: "test", Namespace: "default", Name: "b"}
	answers := node.Metric{Name: "test_answers_total", Help: "Answers by status.", Type: node.MetricCounter}
	for _, status := range []string{"200", "404"} {
		answers.Labels, answers.Value = []node.Label{{Name: "status", Value: status}}, answers.Value+1
		m.Figures = append(m.Figures, observe.Figure{Node: a, Metric: answers})
	}
	m.Figures = append(m.Figures,
		observe.Figure{Node: a, Metric: node.Metric{Name: "test_queue_length", Help: "Length of the queue.", Value: 3}},
		observe.Figure{Node: b, Metric: node.Metric{Name: "test_queue_length", Help: "Length of the queue.", Value: 4}},
		observe.Figure{Node: b, Metric: node.Metric{
			Name: "test_wait_seconds", Help: "How long events wait.", Type: node.MetricHistogram,
			Bounds: []float64{0.1, 1}, Counts: []uint64{1, 2, 3}, Sum: 7.5,
		}})
	return m
}

func scrape(t *testing.T, m observe.Metrics) string {
	t.Helper()
	h, err := prom.Handler(prom.Options{Metrics: func() observe.Metrics { return m }, Version: "1.2.3"})
	if err != nil {
		t.Fatal(err)
	}
	return ask(t, h)
}

func ask(t *testing.T, h http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	body, err := io.ReadAll(w.Result().Body)
	if err != nil || w.Code != http.StatusOK {
		t.Fatalf("got status %d, %v", w.Code, err)
	}
	return string(body)
}

// TestSeries shows what is counted, escaped, and cumulated.
func TestSeries(t *testing.T) {
	text := scrape(t, sample())
	for _, want := range []string{
		"uniflow_generation 3\n",
		"uniflow_generations_draining 1\n",
		"uniflow_reloads_total 2\n",
		"uniflow_reload_failures_total 1\n",
		"uniflow_processes_started_total 10\n",
		"uniflow_processes_in_flight 2\n",
		`uniflow_processes_ended_total{outcome="answered"} 7` + "\n",
		`uniflow_processes_ended_total{outcome="failed"} 1` + "\n",
		`uniflow_processes_ended_total{outcome="cancelled"} 0` + "\n",
		"uniflow_pending_packets 5\n",
		"uniflow_pending_bytes 640\n",
		`uniflow_node_packets_total{kind="snippet",namespace="default",node="it said \"hi\"\n"} 9` + "\n",
		`uniflow_node_errors_total{kind="snippet",namespace="default",node="it said \"hi\"\n"} 1` + "\n",
		`uniflow_node_busy_seconds_total{kind="snippet",namespace="default",node="it said \"hi\"\n"} 0.003` + "\n",
		`uniflow_node_duration_seconds_bucket{kind="snippet",namespace="default",node="it said \"hi\"\n",le="1e-06"} 2` + "\n",
		`uniflow_node_duration_seconds_bucket{kind="snippet",namespace="default",node="it said \"hi\"\n",le="4e-06"} 3` + "\n",
		`uniflow_node_duration_seconds_bucket{kind="snippet",namespace="default",node="it said \"hi\"\n",le="+Inf"} 5` + "\n",
		`uniflow_node_duration_seconds_count{kind="snippet",namespace="default",node="it said \"hi\"\n"} 5` + "\n",
		`uniflow_node_packets_total{kind="router",namespace="default",node=""} 0` + "\n",
		"uniflow_last_reload_successful 1\n",
		"uniflow_last_reload_timestamp_seconds 1.5\n",
		`uniflow_test_answers_total{kind="test",namespace="default",node="a",status="404"} 2` + "\n",
		`uniflow_test_queue_length{kind="test",namespace="default",node="b"} 4` + "\n",
		`uniflow_test_wait_seconds_bucket{kind="test",namespace="default",node="b",le="1"} 3` + "\n",
		`uniflow_test_wait_seconds_count{kind="test",namespace="default",node="b"} 6` + "\n",
		`uniflow_build_info{goversion="go1.`,
		"go_goroutines ",
		"go_gc_heap_live_bytes ",
		"process_resident_memory_bytes ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q", want)
		}
	}
	if strings.Contains(text, `uniflow_node_duration_seconds_count{kind="router"`) {
		t.Error("got a histogram of a node that was never measured")
	}
}

// TestLint has Prometheus' own linter judge names, units and help.
func TestLint(t *testing.T) {
	var ours strings.Builder // the runtime's names are its own
	for line := range strings.Lines(scrape(t, sample())) {
		if strings.HasPrefix(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), "uniflow_") {
			ours.WriteString(line)
		}
	}
	problems, err := promlint.New(strings.NewReader(ours.String())).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestBadFigures leaves out what a kind describes badly, shows all else, and logs it
// once.
func TestBadFigures(t *testing.T) {
	ref := node.Ref{Kind: "test", Namespace: "default", Name: "bad"}
	bad := []node.Metric{
		{Name: "test_queue_length", Help: "Another help.", Value: 66},
		{Name: "test_queue_length", Help: "Length of the queue.", Type: node.MetricCounter, Value: 66},
		{Name: "generation", Help: "Ours.", Value: 66},
		{Name: "bad_label", Help: "x", Labels: []node.Label{{Name: "kind", Value: "x"}}, Value: 66},
		{Name: "bad_value", Help: "x", Labels: []node.Label{{Name: "x", Value: "\xff"}}, Value: 66},
		{Name: "bad_type", Help: "x", Type: 9, Value: 66},
		{Name: "bad_counts", Help: "x", Type: node.MetricHistogram, Bounds: []float64{1}, Counts: []uint64{66}},
		{Name: "bad_bounds", Help: "x", Type: node.MetricHistogram, Bounds: []float64{2, 1}, Counts: []uint64{66, 66, 66}},
		{Name: "test_wait_seconds_count", Help: "Collides with the histogram.", Value: 66},
	}
	m := sample()
	for _, metric := range append(bad, bad...) { // twice: series that are there already
		m.Figures = append(m.Figures, observe.Figure{Node: ref, Metric: metric})
	}
	m.Figures = append(m.Figures, observe.Figure{Node: ref, Metric: node.Metric{Name: "test_good", Help: "x", Value: 1}})
	var log bytes.Buffer
	h, err := prom.Handler(prom.Options{Metrics: func() observe.Metrics { return m }, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		text := ask(t, h)
		for _, want := range []string{`uniflow_test_good{kind="test",namespace="default",node="bad"} 1`, "uniflow_generation 3\n", "uniflow_processes_started_total 10\n", "go_goroutines "} {
			if !strings.Contains(text, want) {
				t.Errorf("got no %q", want)
			}
		}
		if regexp.MustCompile(`(?m)^uniflow_.* 66$`).MatchString(text) {
			t.Errorf("got a bad figure in %s", text)
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || log.Len() > 4000 {
		t.Errorf("got %d lines, %d bytes in the log:\n%s", lines, log.Len(), &log)
	}
}

// TestBuckets puts each duration into the bucket with the least bound that is
// not below it.
func TestBuckets(t *testing.T) {
	var h observe.Histogram
	for d := time.Duration(0); d < 20*time.Second; d += d/7 + 1 {
		got := h.Bucket(d)
		if bound := h.Bound(got); bound != 0 && d > bound {
			t.Fatalf("%v: got bucket up to %v", d, bound)
		}
		if got > 0 && d <= h.Bound(got-1) {
			t.Fatalf("%v: got bucket %d, want one below", d, got)
		}
	}
}
