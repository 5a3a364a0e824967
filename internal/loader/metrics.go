package loader

import (
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many scrapes are answered concurrently. More get a 503.
const maxScrapes = 4

// metrics are what Prometheus reads. Counts are read from the loader at each
// scrape; only distributions are kept here.
type metrics struct {
	registry *prometheus.Registry
	fsync    prometheus.Histogram
	groups   prometheus.Histogram
	stored   prometheus.Histogram
	requests *prometheus.HistogramVec
}

// A figure is a metric that is read from a loader at each scrape.
type figure struct {
	kind       prometheus.ValueType
	name, help string
	value      func(*Loader) float64
}

// figures returns all figures, but not events_rejected_total, which has a label.
func figures() []figure {
	const counter, gauge = prometheus.CounterValue, prometheus.GaugeValue
	return []figure{
		{counter, "batches_total", "Batches that were taken.", func(l *Loader) float64 { return float64(l.counts.batches.Load()) }},
		{counter, "duplicates_total", "Batches that were answered again, because their key had come before.", func(l *Loader) float64 { return float64(l.counts.duplicates.Load()) }},
		{counter, "refused_total", "Batches that were not taken as a whole; uniflow_loader_request_seconds counts them by status.", func(l *Loader) float64 { return float64(l.counts.refused.Load()) }},
		{counter, "events_accepted_total", "Events that were written.", func(l *Loader) float64 { return float64(l.counts.accepted.Load()) }},
		{counter, "written_bytes_total", "The size of the events that were written.", func(l *Loader) float64 { return float64(l.counts.bytes.Load()) }},
		{counter, "received_bytes_total", "The size of the bodies that were read, as they were sent.", func(l *Loader) float64 { return float64(l.counts.received.Load()) }},
		{gauge, "in_flight_batches", "Batches that have arrived and are checked, wait or are written.", func(l *Loader) float64 { return float64(l.Stats().Inflight) }},
		{gauge, "in_flight_bytes", "Memory that batches in flight take.", func(l *Loader) float64 { return float64(l.Stats().InflightBytes) }},
		{gauge, "dedupe_keys", "Idempotency keys that are remembered.", func(l *Loader) float64 { return float64(l.window.len()) }},
		{gauge, "files", "Files of events in the folder.", func(l *Loader) float64 { return float64(l.counts.files.Load()) }},
		{gauge, "failing", "1 while events cannot be written.", func(l *Loader) float64 {
			if l.failing.Load() != nil {
				return 1
			}
			return 0
		}},
	}
}

const namespace = "uniflow_loader_"

func newMetrics(l *Loader) (*metrics, error) {
	histogram := func(name, help string, first float64, buckets int) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: namespace + name, Help: help, Buckets: prometheus.ExponentialBuckets(first, 2, buckets)}
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		fsync:    prometheus.NewHistogram(histogram("fsync_seconds", "Time that an fsync took, of events or of the journal.", 0.0001, 16)),
		groups:   prometheus.NewHistogram(histogram("group_batches", "Batches that were written together, with one fsync of events and one of the journal.", 1, 8)),
		stored:   prometheus.NewHistogram(histogram("store_seconds", "Time that the store took for batches that were written together.", 0.0001, 16)),
		requests: prometheus.NewHistogramVec(histogram("request_seconds", "Time that a batch took from its headers to its answer, by HTTP status.", 0.0005, 16), []string{"status"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "uniflow_build_info", Help: "The program that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": l.opts.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	all := []prometheus.Collector{
		m.fsync, m.groups, m.requests, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if l.opts.Store != nil {
		all = append(all, m.stored)
	}
	for _, f := range figures() {
		read := func() float64 { return f.value(l) }
		if f.kind == prometheus.CounterValue {
			all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: namespace + f.name, Help: f.help}, read))
		} else {
			all = append(all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: namespace + f.name, Help: f.help}, read))
		}
	}
	for r := range l.counts.rejected {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: namespace + "events_rejected_total", Help: "Events that were not taken, of batches that were, by reason.",
			ConstLabels: prometheus.Labels{"reason": reason(r).String()},
		}, func() float64 { return float64(l.counts.rejected[r].Load()) }))
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) synced(d time.Duration) { m.fsync.Observe(d.Seconds()) }

func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{log}, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
}

type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) { l.log.Error("metrics", "error", fmt.Sprint(v...)) }
