package query

import (
	"time"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Query is one question; exactly one of the pointers is set.
type Query struct {
	Name      string // of a cohort that is kept, up to 200 bytes; else for people
	Funnel    *Funnel
	Retention *Retention
	Segment   *Segment
	Cohort    *Cohort
	Paths     *Paths

	Sample float64 // share of users to look at, above 0 up to 1; 0 is 1, which Check makes it
}

// A Pos is a place in the document that a query was read from, counted from 1;
// the zero Pos is none.
type Pos struct{ Line, Column int }

// Bounds are the times of the events that a query looks at, in milliseconds since
// 1970 UTC. The zero Bounds are no bounds, since HasFrom and HasTo are false.
type Bounds struct {
	From, To       int64 // To is exclusive
	HasFrom, HasTo bool
}

// A Match says which events are meant: one of Events by name, or any if there is
// none, that passes Where.
type Match struct {
	Events []string
	Where  *Filter // nil passes all
	Pos    Pos
}

// A Funnel counts the users who went through the steps in order.
type Funnel struct {
	Steps    []Match       // 1 to 32; each has at least one event name
	Within   time.Duration // from the first step, whole milliseconds; 0 with NoLimit
	NoLimit  bool          // there is no window; Check sets it if Within is 0
	Modes    Modes
	AnyOrder bool // steps count in any order, within the window of each other
	Exclude  []Exclude
	Same     string // property whose value must be equal in all steps; "" for none
	By       string // property to break down by, at the first event of the winning chain; "" for none
	Limit    int    // groups that are answered, up to a million; default 1000
	Bounds
}

// Modes are the modes of a funnel, with the meaning they have for windowFunnel of
// ClickHouse 26.9.
type Modes struct {
	StrictDeduplication bool // strict_deduplication
	StrictOrder         bool // strict_order
	StrictIncrease      bool // strict_increase
	StrictOnce          bool // strict_once
	AllowReentry        bool // allow_reentry; beside StrictOrder only
}

// An Exclude ends a chain that has an event of Match between two of its steps.
type Exclude struct {
	Match
	After, Before int // steps from 1, After less than Before; default the first and the last step
}

// A Retention counts the users of a cohort that come back, by period.
type Retention struct {
	Start, Return Match
	Every         Every
	Periods       int            // 1 to 366
	Cohort        Unit           // Day, Week or Month; default that of Every, else Week if Every is whole weeks, else Day
	Unbounded     bool           // a user counts in period k who comes back in k or later
	Zone          *time.Location // of calendar periods and cohorts; never nil after Parse or Check
	Bounds                       // of the start event
}

// Every is the length of a period: elapsed time, or a calendar unit.
type Every struct {
	Elapsed time.Duration // whole milliseconds; 0 if Unit is set
	Unit    Unit
}

// A Unit is a unit of the calendar; weeks begin on Monday.
type Unit uint8

// The units. NoUnit is the zero value.
const (
	NoUnit Unit = iota
	Minute
	Hour
	Day
	Week
	Month
)

// A Segment is a measure of events by time and by properties.
type Segment struct {
	Match
	Bucket  Unit     // NoUnit puts all in one
	By      []string // up to 3 properties
	Measure Measure
	Fill    bool // buckets without events are answered too, between the first and the last
	Zone    *time.Location
	Bounds
}

// A Measure is what a segment answers for a group.
type Measure struct {
	Kind       MeasureKind
	Property   string // of all but Count and Users
	Percentile int    // 1 to 99, of Percentile
}

// A MeasureKind is a way to measure a group of events.
type MeasureKind uint8

// The measures.
const (
	Count MeasureKind = iota // events
	Users                    // distinct users
	Sum
	Avg
	Min
	Max
	Percentile
)

// A Cohort is the set of users who did all of Did and none of DidNot, of which
// there are up to 64.
type Cohort struct {
	Did    []Did // at least one
	DidNot []Did
	Bounds
}

// Did says that a user did something a number of times.
type Did struct {
	Match
	AtLeast int // default 1
	AtMost  int // 0 for no limit
}

// Paths counts what users did after or before an anchor.
type Paths struct {
	Anchor   Match
	Previous bool          // paths lead to the anchor; else from it
	Steps    int           // events beside the anchor, 1 to 7; default 4
	Gap      time.Duration // a longer pause ends the path; 0 for none
	Top      int           // paths that are answered, up to 10,000; default 20
	Where    *Filter       // of all events that are looked at, anchors too
	Bounds
}

// A Filter is a tree of tests. Exactly one of All, Any and Test is set.
type Filter struct {
	All  []Filter // every one passes; an empty list, not nil, passes all
	Any  []Filter // one passes; an empty list, not nil, passes none
	Test *Test
}

// A Test looks at one property, or at the user (InCohort and NotInCohort).
type Test struct {
	Property string // or the name of a kept cohort
	Op       Op
	Literals []Literal // as many as Op wants: none, one, two (Between) or any number (In, NotIn)
	Pos      Pos
}

// An Op is what a test does.
type Op uint8

// The operators. A missing value passes Missing, Ne, NotIn, and Eq and In of the
// empty literal, which is the missing value; Ne and NotIn of the empty literal it
// does not pass. It passes nothing else.
const (
	Exists Op = iota
	Missing
	Eq
	Ne
	In
	NotIn
	Contains // of strings, minding case, as all below
	Prefix
	Suffix
	Matches // an RE2 expression that is found anywhere in the string
	Gt      // of strings by bytes, of numbers by value
	Gte
	Lt
	Lte
	Between // both ends included
	InCohort
	NotInCohort
)

// A Literal is a value as a document has it. It is compared in the type of the
// property: 2 is the text "2" for a string, "2" is the number for an integer.
type Literal struct {
	Value event.Value // as it was written; a number that is not an integer is a Float
	Text  string      // exactly as it was written, without quotes
	Pos   Pos
}
