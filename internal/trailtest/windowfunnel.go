package trailtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// What an entry of a chain search is, besides a step from 1.
const (
	exclusion = -1 // ends chains between two of its steps
	other     = 0  // an event that matches no step; only with strict_order
)

// An entry says that an event matches a step. An event that matches several steps
// has one entry for each.
type entry struct {
	time  int64
	step  int // 1 to the number of steps, exclusion or other
	event int // the number of the event
	after int // of an exclusion: the levels that it ends, after to before-1
	upto  int
}

// sortEntries puts entries in the order in which chains see them: by time; at one
// time exclusions, then events that match nothing, then steps ascending.
func sortEntries(entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.step, b.step), cmp.Compare(a.event, b.event))
	})
}

// A search looks for chains among sorted entries.
type search struct {
	steps   int
	window  int64 // milliseconds from the first step, inclusive
	noLimit bool
	modes   query.Modes
}

// A state is the state of the chains that have come to a level.
type state struct {
	reached bool // some chain has come here; it stays so
	alive   bool // the chain below can go on
	first   int64
	last    int64
}

// level returns how many steps the best chain has, as windowFunnel of ClickHouse
// 26.9 counts them, and how many of the entries it has read until it was sure.
func (s search) level(entries []entry) (level, seen int) {
	if s.modes.StrictOnce {
		return s.levelOnce(entries)
	}
	at := make([]state, s.steps+1) // by level; 0 is not used
	for i, e := range entries {
		switch {
		case e.step == exclusion:
			for k := e.after; k < e.upto; k++ {
				at[k].alive = false
			}
		case e.step == other:
			if at[1].reached {
				return count(at), i
			}
		case e.step == 1:
			at[1] = state{true, true, e.time, e.time}
		case s.modes.StrictDeduplication && at[e.step].reached:
			return count(at), i
		case s.modes.StrictOrder && at[1].reached && !at[e.step-1].reached:
			if !s.modes.AllowReentry {
				return count(at), i
			}
		case at[e.step-1].alive:
			below := at[e.step-1]
			if s.inWindow(below.first, e.time) && (!s.modes.StrictIncrease || below.last < e.time) {
				at[e.step] = state{true, true, below.first, e.time}
			}
		}
		if at[s.steps].reached {
			return s.steps, i + 1
		}
	}
	return count(at), len(entries)
}

func (s search) inWindow(first, time int64) bool { return s.noLimit || time <= first+s.window }

// count returns the highest level that was reached.
func count(at []state) int {
	for k := len(at) - 1; k > 0; k-- {
		if at[k].reached {
			return k
		}
	}
	return 0
}

// A chain is one way through the first steps. Chains that go on alike are equal.
type chain struct {
	first  int64
	last   int64  // time of the last step; 0 where modes do not ask for it
	events string // with strict_once: the events at that time, as ",3,17,"; earlier ones cannot come again
}

// extend returns the chain with one more event. It returns false if the event is outside
// of the window, or if strict_increase or strict_once forbids it.
func (s search) extend(c chain, e entry) (chain, bool) {
	switch {
	case !s.inWindow(c.first, e.time),
		s.modes.StrictIncrease && c.last >= e.time,
		s.modes.StrictOnce && c.last == e.time && strings.Contains(c.events, mark(e)):
		return chain{}, false
	}
	longer := s.begin(e)
	longer.first = c.first
	if s.modes.StrictOnce && c.last == e.time {
		longer.events = c.events + longer.events
	}
	return longer, true
}

// begin returns the chain that consists of one entry.
func (s search) begin(e entry) chain {
	c := chain{first: e.time}
	if s.modes.StrictIncrease || s.modes.StrictOnce {
		c.last = e.time
	}
	if s.modes.StrictOnce {
		c.events = mark(e)
	}
	return c
}

func mark(e entry) string { return fmt.Sprintf(",%d,", e.event) }

// grow adds the chains that an entry makes to the chains of each level. Levels are counted
// from 1.
func (s search) grow(chains []map[chain]bool, e entry) {
	switch {
	case e.step == exclusion:
		for k := e.after; k < e.upto; k++ {
			clear(chains[k])
		}
	case e.step == 1:
		chains[1][s.begin(e)] = true
	case e.step > 1:
		for c := range chains[e.step-1] {
			if longer, ok := s.extend(c, e); ok {
				chains[e.step][longer] = true
			}
		}
	}
}

func (s search) noChains() []map[chain]bool {
	chains := make([]map[chain]bool, s.steps+1)
	for k := range chains {
		chains[k] = map[chain]bool{}
	}
	return chains
}

// levelOnce is level with strict_once: all chains are kept, and none has an event
// twice.
func (s search) levelOnce(entries []entry) (level, seen int) {
	chains := s.noChains()
	at := make([]state, s.steps+1)
	for i, e := range entries {
		switch {
		case e.step == other && at[1].reached,
			e.step > 1 && s.modes.StrictDeduplication && at[e.step].reached:
			return count(at), i
		case e.step > 1 && s.modes.StrictOrder && at[1].reached && !at[e.step-1].reached:
			if !s.modes.AllowReentry {
				return count(at), i
			}
		default:
			s.grow(chains, e)
		}
		if e.step > 0 && len(chains[e.step]) > 0 {
			at[e.step].reached = true
		}
		if at[s.steps].reached {
			return s.steps, i + 1
		}
	}
	return count(at), len(entries)
}

// winner returns the times of the steps of the winning chain. Of the chains of so many
// steps that go through the entries it is the one whose step 1 comes first, of those the
// one whose step 2 comes first, and so on. It returns nil if there is none.
//
// The time of a step is found by trying: it is the earliest one with which a chain still
// reaches the level, given the times of the steps before.
func (s search) winner(entries []entry, level int) []int64 {
	var times []int64
	for len(times) < level {
		next := slices.IndexFunc(entries, func(e entry) bool {
			return e.step == len(times)+1 && s.passes(entries, level, append(times, e.time))
		})
		if next < 0 {
			return nil
		}
		times = append(times, entries[next].time)
	}
	return times
}

// passes reports whether a chain of so many steps goes through the entries, the first
// of which are at the given times.
func (s search) passes(entries []entry, level int, times []int64) bool {
	chains := s.noChains()
	for _, e := range entries {
		if e.step >= 1 && e.step <= len(times) && e.time != times[e.step-1] {
			continue
		}
		if s.grow(chains, e); len(chains[level]) > 0 {
			return true
		}
	}
	return false
}
