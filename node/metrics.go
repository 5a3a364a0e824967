package node

// A Measured node has figures of its own for whoever watches the engine, in
// addition to those that the engine keeps for every node: the length of a queue,
// the answers by status.
type Measured interface {
	// Measure reports the figures as they are now. It is called for each scrape,
	// from any goroutine, while the node is open, and must not block.
	Measure(report func(Metric))
}

// A MetricType says how the values of a metric are read.
type MetricType int

// The types of metrics.
const (
	MetricGauge     MetricType = iota // goes up and down
	MetricCounter                     // only grows, until the program ends
	MetricHistogram                   // counts observations by their size
)

// A Metric is one figure of a node. The engine adds the node's namespace, kind
// and name to the labels. All metrics of one name have the same type, help and
// label names.
type Metric struct {
	Name   string // snake case, with its unit, without "uniflow_": "batch_oldest_age_seconds"; a counter ends in "_total"
	Help   string // one sentence
	Type   MetricType
	Labels []Label

	Value float64 // of a gauge or a counter

	// Of a histogram. Counts are not cumulative, and have one element more than
	// Bounds, for observations above the last bound.
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// A Label tells metrics of one name apart. Its values are few: never a path, an
// id or anything else that a client chooses.
type Label struct{ Name, Value string }
