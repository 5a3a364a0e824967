package query

// An Answer is what a query found; the pointer of the query's kind is set.
type Answer struct {
	Funnel    *FunnelAnswer
	Retention *RetentionAnswer
	Segment   *SegmentAnswer
	Cohort    *CohortAnswer
	Paths     *PathsAnswer
	Stats     Stats
}

// Stats are the cost of an answer, and warnings about it.
type Stats struct {
	EventsRead int64    // rows with a column that was evaluated
	BytesRead  int64    // of the columns, dictionaries and runs that were touched
	Segments   int      // segments and runs that were read
	Sample     float64  // the share of users that was really read; 1 for all
	ElapsedUS  int64    // microseconds from the parsed document to the answer
	Through    int64    // time of the last event in the store, of retention
	HasThrough bool     // Through is set
	Warnings   []string // such as events that no user has ever done
}

// A Number counts users or events. In an answer of a sample, it is scaled to the whole
// and rounded, and Low and High are its confidence interval of 95 %.
type Number struct {
	N         int64
	Low, High int64
	Sampled   bool // Low and High are set
}
