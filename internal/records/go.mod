module github.com/uniflow-labs/uniflow/internal/records

go 1.26.0

require (
	github.com/andybalholm/brotli v1.2.8
	github.com/klauspost/compress v1.20.3
	github.com/parquet-go/parquet-go v0.32.0
	github.com/pierrec/lz4/v4 v4.1.21
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0
)

require github.com/parquet-go/bitpack v1.0.0 // indirect

replace github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../ground
