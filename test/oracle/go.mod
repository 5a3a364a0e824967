module github.com/uniflow-labs/uniflow/test/oracle

go 1.26.0

require (
	github.com/duckdb/duckdb-go/v2 v2.10505.0
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0
	github.com/uniflow-labs/uniflow/internal/trailtest v0.0.0
	github.com/uniflow-labs/uniflow/trail v0.0.0
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/apache/arrow-go/v18 v18.5.1 // indirect
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/duckdb/duckdb-go-bindings v0.10505.0 // indirect
	github.com/duckdb/duckdb-go-bindings/lib/darwin-amd64 v0.10505.0 // indirect
	github.com/duckdb/duckdb-go-bindings/lib/darwin-arm64 v0.10505.0 // indirect
	github.com/duckdb/duckdb-go-bindings/lib/linux-amd64 v0.10505.0 // indirect
	github.com/duckdb/duckdb-go-bindings/lib/linux-arm64 v0.10505.0 // indirect
	github.com/duckdb/duckdb-go-bindings/lib/windows-amd64 v0.10505.0 // indirect
	github.com/go-viper/mapstructure/v2 v2.5.0 // indirect
	github.com/goccy/go-json v0.10.5 // indirect
	github.com/google/flatbuffers v25.12.19+incompatible // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/klauspost/compress v1.20.3 // indirect
	github.com/klauspost/cpuid/v2 v2.3.0 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/parquet-go/parquet-go v0.32.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.33 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	github.com/uniflow-labs/uniflow/internal/records v0.0.0 // indirect
	github.com/zeebo/xxh3 v1.1.0 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/exp v0.0.0-20260908205506-85c1c2202aba // indirect
	golang.org/x/mod v0.41.0 // indirect
	golang.org/x/sync v0.24.0 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/telemetry v0.0.0-20260924152758-ed294f943157 // indirect
	golang.org/x/tools v0.51.0 // indirect
	golang.org/x/xerrors v0.0.0-20240903120638-7835f813f4da // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/uniflow-labs/uniflow => ../..

replace github.com/uniflow-labs/uniflow/batch => ../../batch

replace github.com/uniflow-labs/uniflow/internal/ground => ../../internal/ground

replace github.com/uniflow-labs/uniflow/internal/records => ../../internal/records

replace github.com/uniflow-labs/uniflow/lock => ../../lock

replace github.com/uniflow-labs/uniflow/trail => ../../trail

replace github.com/uniflow-labs/uniflow/internal/trailtest => ../../internal/trailtest
