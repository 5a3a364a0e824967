module github.com/uniflow-labs/uniflow/lock

go 1.26.0

require (
	github.com/uniflow-labs/uniflow/internal/ground v0.0.0
	golang.org/x/sys v0.49.0
)

replace github.com/uniflow-labs/uniflow/internal/ground v0.0.0 => ../internal/ground
