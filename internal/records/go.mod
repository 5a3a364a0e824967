module github.com/uniflow-labs/uniflow/internal/records

go 1.26.0

require github.com/uniflow-labs/uniflow/internal/ground v0.0.0

replace github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../ground
