// Package prom shows an engine's metrics to Prometheus.
//
// [Handler] reads what [observe.Metrics] says at each scrape; nothing is counted
// here. The package must not know how processes are run.
package prom

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
)

// Options are what to show. Metrics is required.
type Options struct {
	Metrics func() observe.Metrics // called for each scrape, from any goroutine
	Version string                 // of the program
	Log     *slog.Logger           // of scrapes that fail; nil discards
}

// maxScrapes is how many scrapes are answered at once; past it the answer is 503.
const maxScrapes = 4

// Handler serves the metrics of an engine, of the Go runtime and of the process
// in the formats that Prometheus reads.
func Handler(opts Options) (http.Handler, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	registry := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "uniflow_build_info", Help: "The program that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": opts.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	err := errors.Join(
		registry.Register(newCollector(opts.Metrics)),
		registry.Register(build),
		registry.Register(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
			collectors.MetricsGC, collectors.MetricsMemory, collectors.MetricsScheduler))),
		registry.Register(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})),
	)
	if err != nil {
		return nil, err
	}
	return promhttp.HandlerFor(registry, promhttp.HandlerOpts{
		ErrorLog: &errorLog{log: opts.Log}, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
		// A figure that its kind describes badly is left out; all others are shown.
		ErrorHandling: promhttp.ContinueOnError,
	}), nil
}

// An errorLog logs what is wrong with the metrics when that has changed, not at
// each scrape.
type errorLog struct {
	log  *slog.Logger
	last atomic.Pointer[string]
}

// maxErrors is how much is logged of what is wrong with the metrics, in bytes.
const maxErrors = 2000

// Println logs an error of a scrape.
func (l *errorLog) Println(v ...any) {
	text := fmt.Sprint(v...)
	text = strings.ToValidUTF8(text[:min(len(text), maxErrors)], "")
	if last := l.last.Swap(&text); last == nil || *last != text {
		l.log.Error("metrics", "error", text)
	}
}

// A collector makes series of metrics.
type collector struct {
	metrics func() observe.Metrics

	generation, reloads, refused     *prometheus.Desc
	reloadOK, reloadTime, draining   *prometheus.Desc
	started, ended, inFlight         *prometheus.Desc
	pending, pendingBytes            *prometheus.Desc
	packets, failures, busy, latency *prometheus.Desc
}

func newCollector(metrics func() observe.Metrics) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("uniflow_"+name, help, labels, nil)
	}
	node := []string{"namespace", "kind", "node"}
	return &collector{
		metrics:      metrics,
		generation:   desc("generation", "The number of the generation that serves, from 1."),
		draining:     desc("generations_draining", "Generations that were replaced and have processes under way."),
		reloads:      desc("reloads_total", "Generations that have replaced another."),
		refused:      desc("reload_failures_total", "Workflows that were not served, for errors in them or because they did not start."),
		reloadOK:     desc("last_reload_successful", "Whether the last workflow that was to be served is served: 1 or 0."),
		reloadTime:   desc("last_reload_timestamp_seconds", "When that was decided."),
		started:      desc("processes_started_total", "Processes that have started."),
		ended:        desc("processes_ended_total", "Processes that have ended, by how.", "outcome"),
		inFlight:     desc("processes_in_flight", "Processes under way."),
		pending:      desc("pending_packets", "Packets that wait in processes that wait themselves or have run for long."),
		pendingBytes: desc("pending_bytes", "The size of the packets that wait."),
		packets:      desc("node_packets_total", "Packets that a node has taken; of a trigger, processes that it has started. Nodes without a name are summed up by kind.", node...),
		failures:     desc("node_errors_total", "Failures of a node's own.", node...),
		busy:         desc("node_busy_seconds_total", "Time that a node's code ran, blocking work left out; estimated from a sample under load.", node...),
		latency:      desc("node_duration_seconds", "Time that a packet spent at a node: waiting, being handled, in blocking work; of a trigger, time that a process took. Estimated from a sample under load.", node...),
	}
}

// Describe describes nothing: what nodes have of their own is known when it is
// collected, and checked then.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

func (c *collector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	m := c.metrics()
	gauge(c.generation, float64(m.Generation))
	gauge(c.draining, float64(m.Draining))
	count(c.reloads, float64(m.Reloads))
	count(c.refused, float64(m.Refused))
	if !m.LastReload.IsZero() {
		ok := 0.0
		if m.LastReloadOK {
			ok = 1
		}
		gauge(c.reloadOK, ok)
		gauge(c.reloadTime, float64(m.LastReload.UnixMilli())/1000)
	}
	count(c.started, float64(m.Started))
	for outcome, n := range m.Ended {
		count(c.ended, float64(n), observe.Outcome(outcome).String())
	}
	gauge(c.inFlight, float64(m.InFlight))
	gauge(c.pending, float64(m.Pending))
	gauge(c.pendingBytes, float64(m.PendingBytes))
	for i := range m.Nodes {
		n := &m.Nodes[i]
		labels := []string{n.Namespace, n.Kind, n.Name}
		count(c.packets, float64(n.Packets), labels...)
		count(c.failures, float64(n.Errors), labels...)
		count(c.busy, n.Busy.Seconds(), labels...)
		total, buckets := cumulate(&n.Latency)
		if total > 0 { // a node that was never measured has no series of its own
			out <- prometheus.MustNewConstHistogram(c.latency, total, n.Latency.Sum.Seconds(), buckets, labels...)
		}
	}
	for i := range m.Figures {
		out <- figure(&m.Figures[i])
	}
}

// figure makes a series of what a node has reported. If that is not sound, it makes
// one that fails alone.
func figure(f *observe.Figure) prometheus.Metric {
	m := &f.Metric
	names, values := []string{"namespace", "kind", "node"}, []string{f.Node.Namespace, f.Node.Kind, f.Node.Name}
	for _, l := range m.Labels {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	desc := prometheus.NewDesc("uniflow_"+m.Name, m.Help, names, nil)
	var made prometheus.Metric
	var err error
	switch m.Type {
	case node.MetricGauge:
		made, err = prometheus.NewConstMetric(desc, prometheus.GaugeValue, m.Value, values...)
	case node.MetricCounter:
		made, err = prometheus.NewConstMetric(desc, prometheus.CounterValue, m.Value, values...)
	case node.MetricHistogram:
		var total uint64
		buckets := make(map[float64]uint64, len(m.Bounds))
		for i, n := range m.Counts {
			total += n
			if i < len(m.Bounds) {
				buckets[m.Bounds[i]] = total
			}
		}
		if len(m.Counts) != len(m.Bounds)+1 || !slices.IsSorted(m.Bounds) {
			err = fmt.Errorf("histogram %s: %d counts of %d bounds, in ascending order", m.Name, len(m.Counts), len(m.Bounds))
			break
		}
		made, err = prometheus.NewConstHistogram(desc, total, m.Sum, buckets, values...)
	default:
		err = fmt.Errorf("metric %s: unknown type %d", m.Name, m.Type)
	}
	if err != nil {
		return prometheus.NewInvalidMetric(desc, fmt.Errorf("node %q of kind %s: %w", f.Node, f.Node.Kind, err))
	}
	return made
}

// cumulate returns the counts of a histogram as Prometheus has them.
func cumulate(h *observe.Histogram) (total uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.Counts))
	for i, n := range h.Counts {
		total += n
		if bound := observe.Bound(i); bound > 0 {
			buckets[bound.Seconds()] = total
		}
	}
	return total, buckets
}
