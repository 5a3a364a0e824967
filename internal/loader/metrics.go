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

// maxScrapes is how many scrapes are answered at once; past it the answer is 503.
const maxScrapes = 4

// metrics are what is shown to Prometheus. Counts are read from the loader at each
// scrape; only what has a distribution is kept here.
type metrics struct {
	registry *prometheus.Registry
	fsync    prometheus.Histogram
	groups   prometheus.Histogram
	stored   prometheus.Histogram
	requests *prometheus.HistogramVec
}

func newMetrics(l *Loader) (*metrics, error) {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "uniflow_loader_fsync_seconds", Help: "Time that an fsync took, of events or of the journal.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		groups: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "uniflow_loader_group_batches", Help: "Batches that were written together, with one fsync of events and one of the journal.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 8),
		}),
		stored: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "uniflow_loader_store_seconds", Help: "Time that the store took for batches that were written together.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 16),
		}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "uniflow_loader_request_seconds", Help: "Time that a batch took from its headers to its answer, by HTTP status.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 16),
		}, []string{"status"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "uniflow_build_info", Help: "The program that runs; always 1.",
		ConstLabels: prometheus.Labels{"version": l.opts.Version, "goversion": runtime.Version()},
	})
	build.Set(1)
	all := []prometheus.Collector{
		m.fsync, m.groups, m.requests, build, newCollector(l),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
	if l.opts.Store != nil {
		all = append(all, m.stored)
	}
	for _, c := range all {
		if err := m.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// synced is told how long an fsync took.
func (m *metrics) synced(d time.Duration) { m.fsync.Observe(d.Seconds()) }

// handler serves the metrics.
func (m *metrics) handler(log *slog.Logger) http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: errorLog{log}, MaxRequestsInFlight: maxScrapes, EnableOpenMetrics: true,
	})
}

type errorLog struct{ log *slog.Logger }

func (l errorLog) Println(v ...any) { l.log.Error("metrics", "error", fmt.Sprint(v...)) }

// A collector makes series of a loader's counts.
type collector struct {
	loader *Loader

	batches, duplicates, refused, accepted, rejected, bytes, received *prometheus.Desc
	inflight, inflightBytes, keys, files, failing                     *prometheus.Desc
}

func newCollector(l *Loader) *collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("uniflow_loader_"+name, help, labels, nil)
	}
	return &collector{
		loader:        l,
		batches:       desc("batches_total", "Batches that were taken."),
		duplicates:    desc("duplicates_total", "Batches that were answered again, because their key had come before."),
		refused:       desc("refused_total", "Batches that were not taken as a whole; uniflow_loader_request_seconds tells them by status."),
		accepted:      desc("events_accepted_total", "Events that were written."),
		rejected:      desc("events_rejected_total", "Events that were not taken, of batches that were, by reason.", "reason"),
		bytes:         desc("written_bytes_total", "The size of the events that were written."),
		received:      desc("received_bytes_total", "The size of the bodies that were read, as they were sent."),
		inflight:      desc("in_flight_batches", "Batches that have come and are checked, wait or are written."),
		inflightBytes: desc("in_flight_bytes", "Memory that batches under way take."),
		keys:          desc("dedupe_keys", "Idempotency keys that are remembered."),
		files:         desc("files", "Files of events in the folder."),
		failing:       desc("failing", "1 while events cannot be written."),
	}
}

// Describe tells what there is.
func (c *collector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		c.batches, c.duplicates, c.refused, c.accepted, c.rejected, c.bytes, c.received,
		c.inflight, c.inflightBytes, c.keys, c.files, c.failing,
	} {
		descs <- d
	}
}

// Collect reads the counts.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, v uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v)
	}
	s := c.loader.Stats()
	count(c.batches, s.Batches)
	count(c.duplicates, s.Duplicates)
	count(c.refused, s.Refused)
	count(c.accepted, s.Accepted)
	for i := range c.loader.counts.rejected {
		count(c.rejected, c.loader.counts.rejected[i].Load(), reason(i).String())
	}
	count(c.bytes, s.Bytes)
	count(c.received, c.loader.counts.received.Load())
	gauge(c.inflight, float64(s.Inflight))
	gauge(c.inflightBytes, float64(s.InflightBytes))
	gauge(c.keys, float64(s.Keys))
	gauge(c.files, float64(s.Files))
	failing := 0.0
	if s.Failing != "" {
		failing = 1
	}
	gauge(c.failing, failing)
}
