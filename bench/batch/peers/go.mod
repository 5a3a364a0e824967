module github.com/uniflow-labs/uniflow/bench/batch/peers

go 1.26.0

require (
	github.com/posthog/posthog-go v1.5.2
	go.opentelemetry.io/otel v1.47.0
	go.opentelemetry.io/otel/sdk v1.47.0
	go.opentelemetry.io/otel/trace v1.47.0
)

require (
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/go-logr/logr v1.4.4 // indirect
	github.com/go-logr/stdr v1.2.2 // indirect
	github.com/google/pprof v0.0.0-20261016150608-1facf8f91b50 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/uniflow-labs/uniflow/bench v0.0.0
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0 // indirect
	go.opentelemetry.io/auto/sdk v1.2.1 // indirect
	go.opentelemetry.io/otel/log v1.47.0 // indirect
	go.opentelemetry.io/otel/metric v1.47.0 // indirect
	golang.org/x/perf v0.0.0-20260908200009-22c9c6c9d4da // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/uniflow-labs/uniflow => ../../..

replace github.com/uniflow-labs/uniflow/batch => ../../../batch

replace github.com/uniflow-labs/uniflow/internal/ground => ../../../internal/ground

replace github.com/uniflow-labs/uniflow/internal/trailtest => ../../../internal/trailtest

replace github.com/uniflow-labs/uniflow/lock => ../../../lock

replace github.com/uniflow-labs/uniflow/trail => ../../../trail

replace github.com/uniflow-labs/uniflow/bench => ../..
