package query

import (
	"github.com/uniflow-labs/uniflow/internal/ground/doctree"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Query is one query; exactly one of the pointers is set.
type Query struct {
	Name      string // the name under which a cohort is kept, up to 200 bytes; otherwise for people
	Funnel    *Funnel
	Retention *Retention
	Segment   *Segment
	Cohort    *Cohort
	Paths     *Paths

	Sample float64 // share of users to read, above 0 up to 1; Check makes 0 to 1

	// Users asks for the users behind one number of the answer; nil for the answer
	// itself. The answer is a CohortAnswer then, and can be kept as one.
	Users *Selection
}

// A kind is a kind of query. Each has a file that holds all about it.
type kind interface {
	name() string         // its key in a document
	of(q *Query) bool     // q is of the kind
	answers(*Answer) bool // it is an answer to the kind

	// read reads the map behind the key into q; check checks what was read, and fills
	// in defaults.
	read(p *parser, n *doctree.Node, q *Query)
	check(c *checker, q *Query)
	reach(q *Query) Bounds

	// selects returns the keys of a selection of users, nil if there is nothing to select,
	// and an example for messages; selected checks one that has no other keys.
	selects() (keys []string, example string)
	selected(c *checker, q *Query)

	// write writes the keys of an answer; unmarshal reads them, if they are there.
	write(w answerWriter, a *Answer)
	unmarshal(in *answerJSON, a *Answer) error
}

// kinds are all of them. A new one has a pointer in [Query] and in [Answer], too.
func kinds() []kind {
	return []kind{funnelKind{}, retentionKind{}, segmentKind{}, cohortKind{}, pathsKind{}}
}

func kindNames() []string {
	var names []string
	for _, k := range kinds() {
		names = append(names, k.name())
	}
	return names
}

// kind returns the kind of the query, nil if it has none.
func (q *Query) kind() kind {
	for _, k := range kinds() {
		if k.of(q) {
			return k
		}
	}
	return nil
}

// Reach returns the bounds of the events that the query reads. It must have a kind.
func (q *Query) Reach() Bounds { return q.kind().reach(q) }

// A Pos is a place in the document that a query was read from, counted from 1;
// the zero Pos is none.
type Pos struct{ Line, Column int }

// Bounds are the times of the events that a query reads, in milliseconds since
// 1970 UTC. The zero Bounds do not bound, since HasFrom and HasTo are false.
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

// A Unit is a unit of the calendar. Weeks begin on Monday, with WeekSunday on Sunday.
type Unit uint8

// The units. NoUnit is the zero value.
const (
	NoUnit Unit = iota
	Minute
	Hour
	Day
	Week
	WeekSunday
	Month
)

// A Filter is a tree of tests. Exactly one of All, Any and Test is set.
type Filter struct {
	All  []Filter // every one passes; an empty list, not nil, passes all
	Any  []Filter // one passes; an empty list, not nil, passes none
	Test *Test
}

// A Test compares one property, or the user (InCohort and NotInCohort).
type Test struct {
	Property string // or the name of a kept cohort
	Op       Op
	Literals []Literal // as many as Op takes: none, one, two (Between) or any number (In, NotIn)
	Pos      Pos
}

// An Op is what a test does.
type Op uint8

// The operators. The empty literal stands for the missing value. A missing value passes
// Missing, Eq and In of the empty literal, Ne and NotIn of other literals, NotContains
// and NotMatches. It passes nothing else.
const (
	Exists Op = iota
	Missing
	Eq
	Ne
	In
	NotIn
	Contains // of strings, case-sensitive, as all below
	Prefix
	Suffix
	Matches // an RE2 expression that is found anywhere in the string
	NotContains
	NotMatches
	Gt // of strings by bytes, of numbers by value
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
