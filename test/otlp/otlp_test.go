// Package otlp sends traces of an engine to the receiver of the OpenTelemetry
// Collector. It is a module of its own, so that ours has no collector in it.
package otlp

import (
	"context"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer/consumertest"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"

	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// collect starts the collector's receiver. It returns its URL and a sink of what it
// receives.
func collect(t *testing.T) (string, *consumertest.TracesSink) {
	t.Helper()
	address := freeport.Addr(t)
	factory := otlpreceiver.NewFactory()
	cfg := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	cfg.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	http := *cfg.Protocols.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint = address
	cfg.Protocols.HTTP = configoptional.Some(http)
	sink := new(consumertest.TracesSink)
	receiver, err := factory.CreateTraces(t.Context(), receivertest.NewNopSettings(factory.Type()), cfg, sink)
	if err != nil {
		t.Fatal(err)
	}
	if err := receiver.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := receiver.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return "http://" + address, sink
}

// spans returns the spans of the sink by the name of their node, or by their own name
// if there is none.
func spans(t *testing.T, sink *consumertest.TracesSink) map[string]ptrace.Span {
	t.Helper()
	all := make(map[string]ptrace.Span)
	for _, traces := range sink.AllTraces() {
		for _, rs := range traces.ResourceSpans().All() {
			if service, ok := rs.Resource().Attributes().Get("service.name"); !ok || service.Str() != "uniflow" {
				t.Errorf("got resource %v", rs.Resource().Attributes().AsRaw())
			}
			for _, ss := range rs.ScopeSpans().All() {
				for _, s := range ss.Spans().All() {
					name := s.Name()
					if node, ok := s.Attributes().Get("uniflow.node"); ok && node.Str() != "" {
						name = node.Str()
					}
					if _, twice := all[name]; twice {
						t.Errorf("got span %s twice", name)
					}
					all[name] = s
				}
			}
		}
	}
	return all
}
