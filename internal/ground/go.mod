module github.com/uniflow-labs/uniflow/internal/ground

go 1.26.0

require (
	go.yaml.in/yaml/v4 v4.0.0
	golang.org/x/sys v0.49.0
)
