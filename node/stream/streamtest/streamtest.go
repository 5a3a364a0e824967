// Package streamtest is the conformance kit of connectors: what every source and every
// sink has to fulfil, as rows of tests that run real workflows.
//
// A [Subject] is a connector under test, with the [System] that it talks to. [Run] runs
// its rows as subtests, each with a system of its own, through a proxy that breaks
// connections. A [Row] that cannot apply is declared in the Subject, with the reason.
//
// Without the environment variable STREAM_FAULTS=full the rows are short: all of a
// connector take at most 20 s.
//
// The package reference has an example of each sort of connector.
package streamtest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Subject is a connector under test: a source, a sink, or both.
type Subject struct {
	// Kinds are the kinds that the specs of System use.
	Kinds []*node.Def

	// System starts what the connector talks to, with nothing in it, and ends it with
	// t. It is called for each row.
	System func(t testing.TB) *System

	// Source and Sink say which rows there are.
	Source, Sink bool

	// Without are the rows that do not apply, with the reason, as a sentence for the
	// documentation.
	Without map[Row]string

	// Body returns the body that the kit has produced, of the payload of a message; by
	// default its field body.
	Body func(payload value.Value) value.Value

	// Key is the expression of the field key over a payload that returns the key of
	// what the kit has produced; self.body.key by default.
	Key string

	// Via is the kind and the fields of a node between the source and the work of the
	// row; nil links them directly. Its port out leads to the work unless it has ports,
	// which lead to the port in of the node work. Of windows, the work gets the items.
	Via map[string]any

	// Largest is the size of the largest body that the system takes, in bytes; 8 MiB by
	// default.
	Largest int
}

// A System is another system, for one row. Functions are nil for rows that do not
// apply.
type System struct {
	// Addr is the host and port that a proxy can be put in front of; empty if there is
	// none, as for files. It stays the same after a Restart.
	Addr string

	// Advertise makes a system that gives its own address to clients, as Kafka does,
	// give another one: the address of the proxy.
	Advertise func(addr string)

	// Restart ends the system as a crash does, and starts it with what it had kept.
	Restart func(t testing.TB)

	// Source returns the kind of the source and its fields, without the common ones
	// (checkpoint.file excepted), for a system at an address. The maps are the kit's.
	Source func(addr string) map[string]any

	// Produce gives messages to the system. Messages of one key keep their order.
	Produce func(t testing.TB, messages []Message)

	// Unsettled returns how many of the messages that were produced have not been
	// acknowledged, or are above the position that was committed. Nil if the system
	// cannot report it: then the rows see it by what comes again.
	Unsettled func(t testing.TB) int

	// Ahead returns how many messages the system has sent to the source that are not
	// settled. Nil if it cannot report it.
	Ahead func(t testing.TB) int

	// Sink returns the kind of the sink and its fields, likewise. It takes payloads
	// with body, key and id.
	Sink func(addr string) map[string]any

	// Consume returns the bodies that sinks have given to the system, in order, from
	// the beginning. Bodies of a Raw sink are encoded as JSON.
	Consume func(t testing.TB) [][]byte

	// Reject returns a payload that the system, or the sink, refuses, and that does not
	// hinder others.
	Reject func() value.Value

	// Refuse changes the fields of a spec to credentials that the system refuses. It
	// returns the field that the error has to name, and a secret that no output may
	// have.
	Refuse func(fields map[string]any) (field, secret string)
}

// A Message is what a system gives to a source.
type Message struct {
	Key  string
	Body []byte // JSON, except in the row of odd bodies
}

// A Row is a promise of the contract.
type Row string

// The rows.
const (
	Acknowledgement Row = "1_acknowledgement" // none before the answer, all after it
	Errors          Row = "2_errors"          // none is lost by errors, panics and timeouts; attempts are right
	Order           Row = "3_order"           // each key in order, with errors and reloads
	OrderOfBatches  Row = "3_order_batches"   // the same with batches, which are halved
	Backlog         Row = "4_backlog"         // in flight, bytes and memory stay within bounds
	Resets          Row = "5_resets"          // connections are reset at any byte
	BlackHole       Row = "5_black_hole"      // nothing passes for a while
	Slow            Row = "5_slow"            // 1 byte a second for a while
	Restarts        Row = "5_restarts"        // the system ends and comes back
	Late            Row = "5_late"            // the system is down at the start
	Outage          Row = "5_outage"          // the system is away for long: messages of a source are held
	Reloads         Row = "6_reloads"         // equal settings: once each, on the same connections
	Changes         Row = "6_changes"         // other settings: none is lost
	Drain           Row = "7_drain"           // a shutdown waits
	Grace           Row = "7_grace"           // when its grace is over, the rest is given back
	Kill            Row = "8_kill"            // kill -9 loses nothing
	Poison          Row = "9_poison"          // one bad message in a batch of 1,000
	Bodies          Row = "10_bodies"         // empty, large, deep, and not text
	Parts           Row = "11_parts"          // each record of a batch has its own answer
	Password        Row = "11_password"       // wrong credentials: an error with the place, and no secret
	Durable         Row = "12_durable"        // acknowledged when the start is committed, not before; after a crash between, it runs once
)

// A rowTest is how a row runs for a source and for a sink; nil where it has no meaning.
type rowTest struct {
	row          Row
	source, sink func(*rig)
	needs        func(*System) string // what a system lacks for it; nil needs nothing
}

func rows() []rowTest {
	return []rowTest{
		{Acknowledgement, sourceAcknowledges, sinkConfirms, nil},
		{Errors, sourceErrors, nil, nil},
		{Order, sourceOrder, nil, nil},
		{OrderOfBatches, sourceOrderOfBatches, nil, nil},
		{Backlog, sourceBacklog, nil, nil},
		{Resets, sourceResets, sinkResets, needsAddr},
		{BlackHole, sourceTrouble(hole), sinkTrouble(hole), needsAddr},
		{Slow, sourceTrouble(slow), sinkTrouble(slow), needsAddr},
		{Restarts, sourceRestarts, sinkRestarts, needsRestart},
		{Late, sourceLate, sinkLate, needsAddr},
		{Outage, nil, sinkOutage, needsAddr},
		{Reloads, sourceReloads, sinkReloads, nil},
		{Changes, sourceChanges, sinkChanges, nil},
		{Drain, sourceDrain, sinkDrain, nil},
		{Grace, sourceGrace, sinkGrace, nil},
		{Kill, sourceKill, sinkKill, nil},
		{Poison, sourcePoison, nil, nil},
		{Bodies, sourceBodies, sinkBodies, nil},
		{Parts, nil, sinkParts, needsReject},
		{Password, sourcePassword, sinkPassword, needsRefuse},
		{Durable, sourceDurable, nil, nil},
	}
}

func needsAddr(s *System) string    { return lacks(s.Addr == "", "Addr") }
func needsRestart(s *System) string { return lacks(s.Restart == nil, "Restart") }
func needsReject(s *System) string  { return lacks(s.Reject == nil, "Reject") }
func needsRefuse(s *System) string  { return lacks(s.Refuse == nil, "Refuse") }

func lacks(missing bool, what string) string {
	if missing {
		return what
	}
	return ""
}

// Run runs the rows of a subject, as subtests source/ROW and sink/ROW. t may be a subtest
// too; no other test may run at the same time. Most rows wait, and run in parallel, so
// systems must not share anything. Row 8 runs the test binary again, with
// this test alone.
func Run(t *testing.T, s Subject) {
	t.Helper()
	if os.Getenv(childOf) == t.Name() {
		os.Exit(s.child(t))
	}
	if problem := s.problem(); problem != "" {
		t.Fatal("streamtest: ", problem)
	}
	for _, side := range []struct {
		name string
		runs bool
		of   func(rowTest) func(*rig)
	}{
		{"source", s.Source, func(r rowTest) func(*rig) { return r.source }},
		{"sink", s.Sink, func(r rowTest) func(*rig) { return r.sink }},
	} {
		if !side.runs {
			continue
		}
		t.Run(side.name, func(t *testing.T) {
			for _, r := range rows() {
				run := side.of(r)
				if run == nil {
					continue
				}
				if why, declared := s.Without[r.row]; declared {
					t.Logf("%s does not apply: %s", r.row, why)
					continue
				}
				t.Run(string(r.row), func(t *testing.T) {
					if r.row != Backlog && r.row != Restarts { // memory is measured over the whole test; a port that is free for a moment may be taken
						t.Parallel()
					}
					rig := s.rig(t)
					if r.needs != nil {
						if what := r.needs(rig.system); what != "" {
							t.Fatalf("the row needs System.%s: set it, or say in Subject.Without why it cannot apply", what)
						}
					}
					run(rig)
				})
			}
		})
	}
}

func (s *Subject) problem() string {
	switch {
	case s.System == nil:
		return "a Subject needs a System"
	case !s.Source && !s.Sink:
		return "a Subject is a Source or a Sink"
	}
	all := rows()
	for row, why := range s.Without {
		if !slices.ContainsFunc(all, func(r rowTest) bool { return r.row == row }) {
			return fmt.Sprintf("Without has %q, which is not a row", row)
		}
		if strings.TrimSpace(why) == "" {
			return fmt.Sprintf("Without has %q without a reason", row)
		}
	}
	return ""
}

// Table returns which rows apply to connectors, by name, as a table in Markdown: each cell
// has yes, a number of a note, or nothing if the row has no meaning there. The notes
// follow the table.
func Table(names []string, subjects map[string]Subject) string {
	var b strings.Builder
	b.WriteString("| row | " + strings.Join(names, " | ") + " |\n|---" + strings.Repeat("|---", len(names)) + "|\n")
	var notes []string
	for _, r := range rows() {
		b.WriteString("| " + strings.ReplaceAll(string(r.row), "_", " "))
		for _, name := range names {
			s := subjects[name]
			cell := ""
			if s.Source && r.source != nil || s.Sink && r.sink != nil {
				cell = "yes"
			}
			if why, declared := s.Without[r.row]; declared && cell != "" {
				i := slices.Index(notes, why)
				if i < 0 {
					i, notes = len(notes), append(notes, why)
				}
				cell = fmt.Sprint(i + 1)
			}
			b.WriteString(" | " + cell)
		}
		b.WriteString(" |\n")
	}
	for i, why := range notes {
		fmt.Fprintf(&b, "\n%d. %s", i+1, why)
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func full() bool { return os.Getenv("STREAM_FAULTS") == "full" }

// scale returns the first number, or the second one at full length.
func scale(short, long int) int {
	if full() {
		return long
	}
	return short
}
