// Package prom serves an engine's metrics to Prometheus.
//
// [Handler] reads [observe.Metrics] at each scrape; it counts nothing itself. The
// package must not know how processes are run.
package prom

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
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

// Options are what to serve. Metrics is required.
type Options struct {
	Metrics func() observe.Metrics // called for each scrape, from any goroutine
	Version string                 // of the program
	Log     *slog.Logger           // gets the errors of scrapes; nil discards
}

// maxScrapes is the number of concurrent scrapes; any more are answered with 503.
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
		// A figure that its kind describes badly is left out, and only that one.
		ErrorHandling: promhttp.ContinueOnError,
	}), nil
}

// An errorLog logs errors of scrapes when they change, not at each scrape.
type errorLog struct {
	log  *slog.Logger
	last atomic.Pointer[string]
}

// maxErrors is the number of bytes of the errors of a scrape that are logged.
const maxErrors = 2000

// Println logs an error of a scrape.
func (l *errorLog) Println(v ...any) {
	text := fmt.Sprint(v...)
	text = strings.ToValidUTF8(text[:min(len(text), maxErrors)], "")
	if last := l.last.Swap(&text); last == nil || *last != text {
		l.log.Error("metrics", "error", text)
	}
}

// A metric is a series of the engine (T is [observe.Metrics]) or of each node.
type metric[T any] struct {
	name, help string
	typ        prometheus.ValueType
	value      func(*T) float64 // NaN if there is no value yet
}

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// engineMetrics and nodeMetrics are all series but the outcomes and the latencies.
var engineMetrics = []metric[observe.Metrics]{
	{"generation", "The number of the generation that serves, from 1.", gauge, func(m *observe.Metrics) float64 { return float64(m.Generation) }},
	{"generations_draining", "Generations that were replaced and have processes in progress.", gauge, func(m *observe.Metrics) float64 { return float64(m.Draining) }},
	{"reloads_total", "Generations that have replaced another.", counter, func(m *observe.Metrics) float64 { return float64(m.Reloads) }},
	{"reload_failures_total", "Workflows that were not served, because of errors in them or because they did not start.", counter, func(m *observe.Metrics) float64 { return float64(m.Refused) }},
	{"last_reload_successful", "Whether the last workflow that was read is served: 1 or 0.", gauge,
		func(m *observe.Metrics) float64 {
			switch {
			case m.LastReload.IsZero():
				return math.NaN()
			case m.LastReloadOK:
				return 1
			}
			return 0
		}},
	{"last_reload_timestamp_seconds", "When the last workflow was served or refused.", gauge,
		func(m *observe.Metrics) float64 {
			if m.LastReload.IsZero() {
				return math.NaN()
			}
			return float64(m.LastReload.UnixMilli()) / 1000
		}},
	{"processes_started_total", "Processes that have started.", counter, func(m *observe.Metrics) float64 { return float64(m.Started) }},
	{"processes_in_flight", "Processes in progress.", gauge, func(m *observe.Metrics) float64 { return float64(m.InFlight) }},
	{"pending_packets", "Packets that wait in processes that wait too or run for long.", gauge, func(m *observe.Metrics) float64 { return float64(m.Pending) }},
	{"pending_bytes", "The size of the packets that wait.", gauge, func(m *observe.Metrics) float64 { return float64(m.PendingBytes) }},
}

var nodeMetrics = []metric[observe.NodeMetrics]{
	{"node_packets_total", "Packets that a node has received; for a trigger, processes that it has started. Nodes without a name are summed up by kind.", counter, func(n *observe.NodeMetrics) float64 { return float64(n.Packets) }},
	{"node_errors_total", "Failures of the node itself.", counter, func(n *observe.NodeMetrics) float64 { return float64(n.Errors) }},
	{"node_busy_seconds_total", "Time that a node's code ran, without blocking work; estimated from a sample under load.", counter, func(n *observe.NodeMetrics) float64 { return n.Busy.Seconds() }},
}

var nodeLabels = []string{"namespace", "kind", "node"}

type collector struct {
	metrics        func() observe.Metrics
	engine, node   []*prometheus.Desc // of engineMetrics and nodeMetrics
	ended, latency *prometheus.Desc
}

func newCollector(metrics func() observe.Metrics) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("uniflow_"+name, help, labels, nil)
	}
	c := &collector{
		metrics: metrics,
		ended:   desc("processes_ended_total", "Processes that have ended, by outcome.", "outcome"),
		latency: desc("node_duration_seconds", "Time that a packet spent at a node, including waiting and blocking work; for a trigger, time that a process took. Estimated from a sample under load.", nodeLabels...),
	}
	for _, m := range engineMetrics {
		c.engine = append(c.engine, desc(m.name, m.help))
	}
	for _, m := range nodeMetrics {
		c.node = append(c.node, desc(m.name, m.help, nodeLabels...))
	}
	return c
}

// Describe describes nothing: the figures of the nodes' own are known when they are
// collected, and checked then.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	m := c.metrics()
	for i, row := range engineMetrics {
		if v := row.value(&m); !math.IsNaN(v) {
			out <- prometheus.MustNewConstMetric(c.engine[i], row.typ, v)
		}
	}
	for outcome, n := range m.Ended {
		out <- prometheus.MustNewConstMetric(c.ended, counter, float64(n), observe.Outcome(outcome).String())
	}
	for i := range m.Nodes {
		n := &m.Nodes[i]
		labels := []string{n.Namespace, n.Kind, n.Name}
		for i, row := range nodeMetrics {
			out <- prometheus.MustNewConstMetric(c.node[i], row.typ, row.value(n), labels...)
		}
		total, buckets := cumulate(&n.Latency)
		if total > 0 { // a node that was never measured has no series of its own
			out <- prometheus.MustNewConstHistogram(c.latency, total, n.Latency.Sum.Seconds(), buckets, labels...)
		}
	}
	for i := range m.Figures {
		out <- figure(&m.Figures[i])
	}
}

// figure makes a series of a figure of a node's own. If the figure is not valid, only
// this series fails.
func figure(f *observe.Figure) prometheus.Metric {
	m := &f.Metric
	names, values := slices.Clone(nodeLabels), []string{f.Node.Namespace, f.Node.Kind, f.Node.Name}
	for _, l := range m.Labels {
		names, values = append(names, l.Name), append(values, l.Value)
	}
	desc := prometheus.NewDesc("uniflow_"+m.Name, m.Help, names, nil)
	var made prometheus.Metric
	var err error
	switch m.Type {
	case node.MetricGauge:
		made, err = prometheus.NewConstMetric(desc, gauge, m.Value, values...)
	case node.MetricCounter:
		made, err = prometheus.NewConstMetric(desc, counter, m.Value, values...)
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

// cumulate returns the counts of a histogram in the form of Prometheus.
func cumulate(h *observe.Histogram) (total uint64, buckets map[float64]uint64) {
	buckets = make(map[float64]uint64, len(h.Counts))
	for i, n := range h.Counts {
		total += n
		if bound := h.Bound(i); bound > 0 {
			buckets[bound.Seconds()] = total
		}
	}
	return total, buckets
}
