module github.com/uniflow-labs/uniflow/kinds/markdown

go 1.26.0

require (
	github.com/uniflow-labs/uniflow v0.0.0
	github.com/yuin/goldmark v1.8.7
)
