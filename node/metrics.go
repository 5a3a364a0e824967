package node

// A Measured node has metrics of its own, such as the length of a queue or answers
// by status, in addition to those that the engine has for every node.
type Measured interface {
	// Measure reports the current values. Any goroutine may call it while the node
	// is open; it is called for each scrape, and must not block.
	Measure(report func(Metric))
}

// A MetricType says how to read the values of a metric.
type MetricType int

// The types of metrics.
const (
	MetricGauge     MetricType = iota // goes up and down
	MetricCounter                     // only grows, until the program ends
	MetricHistogram                   // counts observations by size
)

// A Metric is one series of a node. The engine adds the node's namespace, kind and
// name to the labels. All metrics of one name have the same type, help and label
// names.
type Metric struct {
	Name   string // snake case, with its unit, without "uniflow_": "batch_oldest_age_seconds"; a counter ends in "_total"
	Help   string // one sentence
	Type   MetricType
	Labels []Label

	Value float64 // of a gauge or a counter

	// For a histogram. Counts are not cumulative; the one more than there are
	// Bounds is for observations above the last bound.
	Bounds []float64
	Counts []uint64
	Sum    float64
}

// A Label distinguishes metrics of one name. It has few different values: never a
// path, an id or anything else that a client chooses.
type Label struct{ Name, Value string }
