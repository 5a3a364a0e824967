package query

import "github.com/uniflow-labs/uniflow/trail/event"

// An Answer is what a query found; the pointer of the query's kind is set.
type Answer struct {
	Funnel    *FunnelAnswer
	Retention *RetentionAnswer
	Segment   *SegmentAnswer
	Cohort    *CohortAnswer
	Paths     *PathsAnswer
	Stats     Stats
}

// Stats tell what an answer cost, and what to mind when reading it.
type Stats struct {
	EventsRead int64    // rows of which any column was evaluated
	BytesRead  int64    // of the columns, dictionaries and runs that were touched
	Segments   int      // segments and runs that were looked into
	Sample     float64  // the share of users that was really read; 1 for all
	ElapsedUS  int64    // microseconds from the parsed document to the answer
	Through    int64    // time of the last event in the store, of retention
	HasThrough bool     // Through is set
	Warnings   []string // such as events that nobody has ever done
}

// A Number counts users or events. Of a sample it is scaled to the whole and
// rounded, and Low and High bound it with a confidence of 95 %.
type Number struct {
	N         int64
	Low, High int64
	Sampled   bool // Low and High are set
}

// A FunnelAnswer has the users who came as far as each step, of all and by group.
type FunnelAnswer struct {
	Steps  []FunnelStep
	By     string // the property of Groups; "" for none
	Groups []FunnelGroup
}

// A FunnelStep is a step and the users who reached it.
type FunnelStep struct {
	Event string // names of the step's events, joined with "|"
	Users Number
}

// A FunnelGroup has the users whose winning chain began with a value. Groups come
// by users of step 1 descending, then value.
type FunnelGroup struct {
	Value event.Value // the missing one is shown as ""
	Steps []FunnelStep
}

// A RetentionAnswer has the cohorts in order of their start, without empty ones.
type RetentionAnswer struct {
	Cohorts []RetentionCohort
}

// A RetentionCohort has the users whose first start event is in one period.
type RetentionCohort struct {
	Start   string // 2026-01-05
	Size    Number
	Periods []Number
}

// A SegmentAnswer has one row for each group: by bucket, then value descending
// (null last), then group.
type SegmentAnswer struct {
	Bucketed bool // rows have a bucket
	By       []string
	Rows     []SegmentRow
}

// A SegmentRow is the measure of one group.
type SegmentRow struct {
	Bucket string        // 2026-01-05, or RFC 3339 for hours and minutes; "" unless Bucketed
	Group  []event.Value // one for each By
	Value  Measured
}

// Measured is what a measure gave: an integer (counts, and sums, minima, maxima
// and percentiles of integers), a number, or null (Type is Unknown).
type Measured struct {
	Type      event.Type // Unknown, Int or Float
	Int       int64
	Float     float64
	Low, High float64 // as for Number
	Sampled   bool    // Low and High are set: counts, users and sums of a sample
}

// A CohortAnswer counts the users of a cohort.
type CohortAnswer struct {
	Name  string // "" if the query has none
	Users Number
	Found []User // if they were asked for, in order of their hashes
}

// A User is one that a cohort found.
type User struct {
	Hash uint64
	ID   string // "" unless ids were asked for
}

// A PathsAnswer has the paths by users descending, then by path.
type PathsAnswer struct {
	Paths []Path
}

// A Path is a sequence of events in order of time, without repeats, and the
// users who went it.
type Path struct {
	Path  []string
	Users Number
}
