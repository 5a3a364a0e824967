module github.com/uniflow-labs/uniflow/trail

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/klauspost/compress v1.20.3
	github.com/parquet-go/parquet-go v0.32.0
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0
	github.com/uniflow-labs/uniflow/internal/records v0.0.0
	github.com/uniflow-labs/uniflow/internal/trailtest v0.0.0
	golang.org/x/sync v0.24.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/andybalholm/brotli v1.2.8 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/parquet-go/bitpack v1.0.0 // indirect
	github.com/parquet-go/jsonlite v1.0.0 // indirect
	github.com/pierrec/lz4/v4 v4.1.21 // indirect
	github.com/twpayne/go-geom v1.6.1 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	google.golang.org/protobuf v1.34.2 // indirect
)

replace (
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../internal/ground
	github.com/uniflow-labs/uniflow/internal/records v0.0.0 => ../internal/records
	github.com/uniflow-labs/uniflow/internal/trailtest v0.0.0 => ../internal/trailtest
)
