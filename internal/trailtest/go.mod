module github.com/uniflow-labs/uniflow/internal/trailtest

go 1.26.0

require (
	github.com/cespare/xxhash/v2 v2.3.0
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0
	github.com/uniflow-labs/uniflow/trail v0.0.0
)

require go.yaml.in/yaml/v4 v4.0.0 // indirect

replace (
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../ground
	github.com/uniflow-labs/uniflow/internal/records v0.0.0 => ../records
	github.com/uniflow-labs/uniflow/trail v0.0.0 => ../../trail
)
