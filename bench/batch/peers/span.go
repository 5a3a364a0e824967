package main

import (
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/trace"
	api "go.opentelemetry.io/otel/trace"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

// spanProcessor is OpenTelemetry's BatchSpanProcessor with its default queue of
// 2,048 spans. An event is a span which begins and ends immediately and has the
// event's fields as attributes; the exporter posts the benchmark's JSON of them.
// It does not report what it drops.
func spanProcessor() arm.Design {
	return arm.Design{Name: "otel batch span processor", Load: arm.Open, Make: func(o arm.Options) (arm.Subject, error) {
		e := &exporter{o: o, client: &http.Client{Transport: transport(), Timeout: timeout}}
		p := trace.NewTracerProvider(
			trace.WithSampler(trace.AlwaysSample()),
			trace.WithBatcher(e, trace.WithBatchTimeout(o.Interval), trace.WithMaxExportBatchSize(o.Limit)),
		)
		return &spans{p, p.Tracer("bench")}, nil
	}}
}

type spans struct {
	provider *trace.TracerProvider
	tracer   api.Tracer
}

func (s *spans) Offer(e *arm.Event) (reason string) {
	at := api.WithTimestamp(time.Unix(0, e.Time))
	_, span := s.tracer.Start(context.Background(), "event", at, api.WithAttributes(
		attribute.Int64("seq", int64(e.Seq)), attribute.Int64("time", e.Time),
		attribute.Int64("user", int64(e.User)), attribute.Int64("value", int64(e.Value)),
	))
	span.End()
	return ""
}

func (s *spans) Close(ctx context.Context) error { return s.provider.Shutdown(ctx) }

// An exporter posts spans as events.
type exporter struct {
	o      arm.Options
	client *http.Client
}

// ExportSpans posts a batch. The processor does not call it again before it has
// returned.
func (x *exporter) ExportSpans(ctx context.Context, all []trace.ReadOnlySpan) error {
	events := make([]arm.Event, len(all))
	for i, span := range all {
		for _, a := range span.Attributes() {
			switch n := a.Value.AsInt64(); a.Key {
			case "seq":
				events[i].Seq = uint64(n)
			case "time":
				events[i].Time = n
			case "user":
				events[i].User = uint64(n)
			case "value":
				events[i].Value = uint64(n)
			}
		}
	}
	return x.o.Post(ctx, x.client, events)
}

func (x *exporter) Shutdown(context.Context) error {
	x.client.CloseIdleConnections()
	return nil
}
