package trailtest

import (
	_ "embed"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/query"
)

//go:embed testdata/windowfunnel.txt
var windowFunnelCases string

// TestLevelIsThatOfClickHouse compares with levels that ClickHouse gave.
func TestLevelIsThatOfClickHouse(t *testing.T) {
	n := 0
	for line := range strings.Lines(windowFunnelCases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		s, want, events := parseWindowFunnel(t, line)
		if got, _ := s.level(entriesOf(events, s)); got != want {
			t.Errorf("got level %d, want %d of %s", got, want, line)
		}
	}
	if n < 3000 {
		t.Errorf("got %d cases, want at least 3000", n)
	}
}

// TestWinnerHasTheLevel checks on the same cases that there is a winning chain
// wherever there is a level, and that the order of arrival does not matter, except
// for the modes where ClickHouse goes by it.
func TestWinnerHasTheLevel(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for line := range strings.Lines(windowFunnelCases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		s, want, events := parseWindowFunnel(t, line)
		random.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		entries := entriesOf(events, s)
		got, seen := s.level(entries)
		if got != want && !(s.modes.StrictDeduplication && s.modes.StrictOnce) {
			t.Errorf("shuffled: got level %d, want %d of %s", got, want, line)
		}
		if times := s.winner(entries[:seen], max(got, 1)); (times != nil) != (got > 0) {
			t.Errorf("got a winning chain: %v, want %v of %s", times != nil, got > 0, line)
		}
	}
}

// TestLevelIsTheBestStart checks, without modes, that the level is the level of the best
// start if each takes the next step as early as it can, and that the first of the
// best starts wins.
func TestLevelIsTheBestStart(t *testing.T) {
	for line := range strings.Lines(windowFunnelCases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		s, _, events := parseWindowFunnel(t, line)
		s.modes = query.Modes{}
		entries := entriesOf(events, s)
		best, at := 0, int64(0)
		for i, first := range entries {
			if first.step != 1 {
				continue
			}
			level := 1
			for _, e := range entries[i:] {
				if e.step == level+1 && e.time <= first.time+s.window {
					level++
				}
			}
			if level > best {
				best, at = level, first.time
			}
		}
		level, seen := s.level(entries)
		if level != best {
			t.Errorf("got level %d, want %d of %s", level, best, line)
		}
		if level == 0 {
			continue
		}
		if got := s.winner(entries[:seen], level); len(got) != level || got[0] != at {
			t.Errorf("got the winner at %d, want %d of %s", got, at, line)
		}
	}
}

// TestWinnerIsTheFirstOfAllChains compares the winning chain with the first one of all
// chains that go through the entries, every one of which is tried; also with exclusions
// among them.
func TestWinnerIsTheFirstOfAllChains(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for line := range strings.Lines(windowFunnelCases) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		s, _, events := parseWindowFunnel(t, line)
		entries := entriesOf(events, s)
		for exclusions := range 3 {
			if exclusions > 0 && s.steps > 1 && len(events) > 0 {
				after := 1 + random.IntN(s.steps-1)
				entries = append(entries, entry{
					time: events[random.IntN(len(events))].time, step: exclusion, event: len(events) + exclusions,
					after: after, upto: after + 1 + random.IntN(s.steps-after),
				})
				sortEntries(entries)
			}
			level, seen := s.level(entries)
			if level == 0 {
				continue
			}
			want := firstChain(s, entries[:seen], level)
			if got := s.winner(entries[:seen], level); !slices.Equal(got, want) {
				t.Errorf("got the winner at %d, want %d of %+v and %s", got, want, entries, line)
			}
		}
	}
}

// firstChain returns the smallest of the times of all chains of so many steps.
func firstChain(s search, entries []entry, level int) (times []int64) {
	var try func(taken []entry, rest []entry)
	try = func(taken, rest []entry) {
		n := len(taken)
		if n == level {
			var of []int64
			for _, e := range taken {
				of = append(of, e.time)
			}
			if times == nil || slices.Compare(of, times) < 0 {
				times = of
			}
			return
		}
		for i, e := range rest {
			switch {
			case e.step == exclusion && e.after <= n && n < e.upto:
				return
			case e.step != n+1,
				n > 0 && e.time > taken[0].time+s.window,
				n > 0 && s.modes.StrictIncrease && e.time == taken[n-1].time,
				s.modes.StrictOnce && slices.ContainsFunc(taken, func(x entry) bool { return x.event == e.event }):
			default:
				try(append(taken, e), rest[i+1:])
			}
		}
	}
	try(nil, entries)
	return times
}

type masked struct {
	time int64
	mask uint64
}

func parseWindowFunnel(t *testing.T, line string) (s search, level int, events []masked) {
	t.Helper()
	fields := strings.Fields(line)
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		return n
	}
	level, s.steps, s.window = number(fields[0]), number(fields[1]), int64(number(fields[2]))
	for mode := range strings.SplitSeq(fields[3], ",") {
		switch mode {
		case "strict_deduplication":
			s.modes.StrictDeduplication = true
		case "strict_order":
			s.modes.StrictOrder = true
		case "strict_increase":
			s.modes.StrictIncrease = true
		case "strict_once":
			s.modes.StrictOnce = true
		case "allow_reentry":
			s.modes.AllowReentry = true
		case "-":
			s.modes = query.Modes{}
		default:
			t.Fatalf("unknown mode in %q", line)
		}
	}
	for _, f := range fields[4:] {
		time, mask, _ := strings.Cut(f, ":")
		events = append(events, masked{int64(number(time)), uint64(number(mask))})
	}
	return s, level, events
}

func entriesOf(events []masked, s search) []entry {
	var entries []entry
	for i, e := range events {
		for k := range s.steps {
			if e.mask>>k&1 == 1 {
				entries = append(entries, entry{time: e.time, step: k + 1, event: i})
			}
		}
		if e.mask == 0 && s.modes.StrictOrder {
			entries = append(entries, entry{time: e.time, step: other, event: i})
		}
	}
	sortEntries(entries)
	return entries
}
