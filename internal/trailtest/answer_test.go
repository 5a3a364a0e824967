package trailtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

func TestFunnelByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"in order", "u1 A@1 B@2 C@3\nu2 A@1 C@2 B@3\nu3 B@1 A@2", "funnel: {steps: [A, B, C]}", "3 2 1"},
		{"at the end of the window", "u1 A@0 B@10\nu2 A@0 B@10.001", "funnel: {steps: [A, B], within: 10s}", "2 1"},
		{"the window is from the first step", "u1 A@0 B@6 C@11", "funnel: {steps: [A, B, C], within: 10s}", "1 1 0"},
		{"a later start saves it", "u1 A@0 A@5 B@6 C@11", "funnel: {steps: [A, B, C], within: 10s}", "1 1 1"},
		{"ties go by step", "u1 B@1 A@1", "funnel: {steps: [A, B]}", "1 1"},
		{"one event can be two steps", "u1 A@1", "funnel: {steps: [A, A]}", "1 1"},
		{"strict_once: it cannot", "u1 A@1\nu2 A@1 A@1", "funnel: {steps: [A, A], mode: [strict_once]}", "2 1"},
		{"strict_increase: no ties", "u1 A@1 B@1\nu2 A@1 B@2", "funnel: {steps: [A, B], mode: [strict_increase]}", "2 1"},
		{"strict_increase: the last start counts", "u1 A@1 A@5 B@5", "funnel: {steps: [A, B], mode: [strict_increase]}", "1 0"},
		{"strict_increase and strict_once: any start counts", "u1 A@1 A@5 B@5", "funnel: {steps: [A, B], mode: [strict_increase, strict_once]}", "1 1"},
		{"strict_deduplication: a second B ends it", "u1 A@1 B@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_deduplication]}", "1 1 0"},
		{"strict_deduplication: a second A does not", "u1 A@1 A@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_deduplication]}", "1 1 1"},
		// AB is the first step and, as no chain has an event twice, not the second. ClickHouse
		// says 3 if AB comes before B, for then B is the first second step; else AB is a
		// second one, which ends it: 2. The one with the smaller mask, B, comes first here.
		{"strict_deduplication and strict_once", "u1 AB@1 B@1 C@2\nu2 B@1 AB@1 C@2", "funnel: {steps: [[A, AB], [B, AB], C], mode: [strict_deduplication, strict_once]}", "2 2 0"},
		{"strict_deduplication and strict_once: the order of arrival is of no account", "u1 BC@1 B@1 A@0 C@1\nu2 B@1 C@1 BC@1 A@0", "funnel: {steps: [A, [B, BC], [C, BC]], mode: [strict_deduplication, strict_once]}", "2 2 0"},
		{"strict_order: another event ends it", "u1 A@1 X@2 B@3\nu2 X@1 A@2 B@3", "funnel: {steps: [A, B], mode: [strict_order]}", "2 1"},
		{"strict_order: another event at the time of the start comes before", "u1 A@1 X@1 B@3", "funnel: {steps: [A, B], mode: [strict_order]}", "1 1"},
		{"strict_order: a step too early ends it", "u1 A@1 C@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_order]}", "1 0 0"},
		{"allow_reentry: it does not", "u1 A@1 C@2 B@3 C@4", "funnel: {steps: [A, B, C], mode: [strict_order, allow_reentry]}", "1 1 1"},
		{"bounds", "u1 A@1 B@2\nu2 A@0 B@2\nu3 A@1 B@3", "funnel: {steps: [A, B], from: 2026-01-05T00:00:01Z, to: 2026-01-05T00:00:03Z}", "2 1"},
		{"a step of two events", "u1 A@1 C@2\nu2 A@1 B@2", "funnel: {steps: [A, [B, C]]}", "2 2"},
		{"where of a step", "u1 A@1 B@2{c=x}\nu2 A@1 B@2{c=y}", "funnel: {steps: [A, {event: B, where: {c: x}}]}", "2 1"},
		{"where of all", "u1 A@1{c=x} B@2{c=x}\nu2 A@1 B@2{c=x}", "funnel: {steps: [A, B], where: {c: x}}", "1 1"},
		{"exclude ends a chain between", "u1 A@1 X@2 B@3\nu2 A@1 B@2 X@3 C@4", "funnel: {steps: [A, B, C], exclude: [{event: X, between: [1, 2]}]}", "2 1 1"},
		{"exclude: another start", "u1 A@1 X@2 A@3 B@4", "funnel: {steps: [A, B], exclude: [{event: X, between: [1, 2]}]}", "1 1"},
		{"exclude: the chain goes another way", "u1 A@1 B@2 X@3 B@4 C@5", "funnel: {steps: [A, B, C], exclude: [{event: X, between: [2, 3]}]}", "1 1 1"},
		{"exclude comes first at a time", "u1 A@1 B@2 X@2\nu2 A@1 X@1 B@2", "funnel: {steps: [A, B], exclude: [{event: X, between: [1, 2]}]}", "2 1"},
		{"same", "u1 A@1{i=1} B@2{i=2}\nu2 A@1{i=1} A@2{i=2} B@3{i=1}\nu3 A@1 B@2", "funnel: {steps: [A, B], same: i}", "2 1"},
		{"same: strict_order sees one value", "u1 A@1{i=1} X@2{i=2} B@3{i=1}\nu2 A@1{i=1} X@2{i=1} B@3{i=1}", "funnel: {steps: [A, B], same: i, mode: [strict_order]}", "2 1"},
		{"same: so does exclude", "u1 A@1{i=1} X@2{i=2} B@3{i=1}\nu2 A@1{i=1} X@2{i=1} B@3{i=1}", "funnel: {steps: [A, B], same: i, exclude: [{event: X, between: [1, 2]}]}", "2 1"},
		{"any order", "u1 C@1 B@2 A@3\nu2 B@1 X@2\nu3 A@1 C@20", "funnel: {steps: [A, B, C], order: any, within: 10s}", "3 1 1"},
		{"any order: at the end of the window", "u1 B@0 A@10\nu2 B@0 A@10.001", "funnel: {steps: [A, B], order: any, within: 10s}", "2 1"},
		{"by: the earliest of the longest", "u1 A@1{c=KR} A@2{c=FR} B@3", "funnel: {steps: [A, B], by: c}", `1 1; "KR" 1 1`},
		{"by: one that does not reach does not win", "u1 A@0{c=KR} A@5{c=FR} B@11", "funnel: {steps: [A, B], by: c, within: 10s}", `1 1; "FR" 1 1`},
		{"by: nor is one that was ended", "u1 A@1{c=KR} X@2 A@3{c=FR} B@4", "funnel: {steps: [A, B], by: c, exclude: [{event: X, between: [1, 2]}]}", `1 1; "FR" 1 1`},
		{"by: the smallest of a tie", "u1 A@1{c=KR} A@1{c=FR} B@3\nu2 A@1{c=KR} A@1 B@2", "funnel: {steps: [A, B], by: c}", `2 2; "" 1 1; "FR" 1 1`},
		{"by: order of groups, and limit", "u1 A@1{c=b}\nu2 A@1{c=b}\nu3 A@1{c=c}\nu4 A@1{c=a}", "funnel: {steps: [A], by: c, limit: 2}", `4; "b" 2; "a" 1`},
		{"by: with same, the best value", "u1 A@1{i=1,c=x} A@2{i=2,c=y} B@3{i=2}", "funnel: {steps: [A, B], same: i, by: c}", `1 1; "y" 1 1`},
		{"by: with order any, the earliest event", "u1 B@1{c=x} A@2{c=y}", "funnel: {steps: [A, B], order: any, by: c}", `1 1; "x" 1 1`},
		{"no user did it", "u1 A@1", "funnel: {steps: [Z, A]}", "0 0"},
		{"one id is one event", "u1 A@1#7 A@1#7\nu2 A@1#7 A@1#8", "funnel: {steps: [A, A], mode: [strict_once]}", "2 1"},
	})
}

func TestFunnelStepByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"by two: values of one event, the smallest from the left", "u1 A@1{c=KR,i=2} A@1{c=FR,i=9} A@1{c=FR,i=3} B@2", "funnel: {steps: [A, B], by: [c, i]}", `1 1; "FR" "3" 1 1`},
		{"by two, the other way round", "u1 A@1{c=KR,i=2} A@1{c=FR,i=3} B@2", "funnel: {steps: [A, B], by: [i, c]}", `1 1; "2" "KR" 1 1`},
		{"by two: a missing value is the smallest", "u1 A@1{c=FR,i=-1} A@1{c=FR}", "funnel: {steps: [A], by: [c, i]}", `1; "FR" "" 1`},
		{"by two: order of groups", "u1 A@1{c=b,i=1}\nu2 A@1{c=b}\nu3 A@1{c=a,i=2}\nu4 A@1{c=b,i=1}", "funnel: {steps: [A], by: [c, i]}", `4; "b" "1" 2; "a" "2" 1; "b" "" 1`},
		{"by two, in any order", "u1 B@1{c=x,i=1} A@2{c=y}", "funnel: {steps: [A, B], order: any, by: [c, i]}", `1 1; "x" "1" 1 1`},
		{"last", "u1 A@1{c=a} B@2{c=b}\nu2 A@1{c=a}", "funnel: {steps: [A, B], by: c, by_step: last}", `2 1; "a" 1 0; "b" 1 1`},
		{"the second: who does not reach it has a missing value", "u1 A@1{c=a} B@2{c=b}\nu2 A@1{c=a}", "funnel: {steps: [A, B], by: c, by_step: 2}", `2 1; "" 1 0; "b" 1 1`},
		{"the second: they are with those whose value is missing", "u1 A@1 B@2\nu2 A@1{c=a}", "funnel: {steps: [A, B], by: c, by_step: 2}", `2 1; "" 2 1`},
		{"the second is the first that can be", "u1 A@1 B@2{c=z} B@3{c=a} C@4", "funnel: {steps: [A, B, C], by: c, by_step: 2}", `1 1 1; "z" 1 1 1`},
		{"the smallest of a tie at the last step", "u1 A@1 B@2{c=KR} B@2{c=FR} B@3{c=DE}", "funnel: {steps: [A, B], by: c, by_step: last}", `1 1; "FR" 1 1`},
		{"the chain that wins goes on behind an exclusion", "u1 A@1 B@2{c=early} X@3 B@4{c=late} C@5", "funnel: {steps: [A, B, C], exclude: [{event: X, between: [2, 3]}], by: c, by_step: 2}", `1 1 1; "late" 1 1 1`},
		{"the chain that wins begins later", "u1 A@0 B@1{c=b} A@5 B@6{c=y} C@11", "funnel: {steps: [A, B, C], within: 10s, by: c, by_step: 2}", `1 1 1; "y" 1 1 1`},
		{"strict_increase: not at the time of the start", "u1 A@1 B@1{c=tie} B@2{c=later}", "funnel: {steps: [A, B], mode: [strict_increase], by: c, by_step: 2}", `1 1; "later" 1 1`},
		{"one event is two steps", "u1 A@1 A@2{c=x}", "funnel: {steps: [A, A], by: c, by_step: 2}", `1 1; "" 1 1`},
		{"strict_once: it is not", "u1 A@1 A@2{c=x}", "funnel: {steps: [A, A], mode: [strict_once], by: c, by_step: 2}", `1 1; "x" 1 1`},
		{"strict_once: of a tie all that match the step count", "u1 AB@1{c=a} A@1{c=z}", "funnel: {steps: [[A, AB], [B, AB]], mode: [strict_once], by: c}", `1 1; "a" 1 1`},
		// AB is step 1 and B at its time step 2: with AB as step 2 the chain would end.
		{"strict_once: the times are of a chain that goes on", "u1 AB@1 B@2{c=x} C@3", "funnel: {steps: [[A, AB], [B, AB], C], mode: [strict_once], by: c, by_step: 2}", `1 1 1; "x" 1 1 1`},
		{"strict_deduplication: of a tie all count, also the one that ends it", "u1 A@1 B@2{c=KR} B@2{c=FR} C@3", "funnel: {steps: [A, B, C], mode: [strict_deduplication], by: c, by_step: last}", `1 1 0; "FR" 1 1 0`},
		{"strict_order: nothing after the end", "u1 A@1 A@2 B@3{c=x} X@4 A@5 B@6{c=a} C@7", "funnel: {steps: [A, B, C], mode: [strict_order], by: c, by_step: last}", `1 1 0; "x" 1 1 0`},
		{"allow_reentry: what comes too early is no step", "u1 A@1 C@2{c=early} B@3 C@4{c=z}", "funnel: {steps: [A, B, C], mode: [strict_order, allow_reentry], by: c, by_step: last}", `1 1 1; "z" 1 1 1`},
		{"same: the earliest second step of a tie", "u1 A@1{i=1,c=y} A@1{i=2,c=x} B@2{i=1} B@3{i=2}", "funnel: {steps: [A, B], same: i, by: c}", `1 1; "y" 1 1`},
		{"same: then the smallest value", "u1 A@1{i=1,c=y} A@1{i=2,c=x} B@2{i=1} B@2{i=2}", "funnel: {steps: [A, B], same: i, by: c}", `1 1; "x" 1 1`},
		{"other", "u1 A@1{c=b}\nu2 A@1{c=b} B@2\nu3 A@1{c=c} B@2\nu4 A@1{c=a}\nu5 A@1{c=d}", "funnel: {steps: [A, B], by: c, limit: 2, other: true}", `5 2; "b" 2 1; "a" 1 0; other 2 1`},
		{"other: there is none", "u1 A@1{c=b}\nu2 A@1{c=a}", "funnel: {steps: [A], by: c, limit: 2, other: true}", `2; "a" 1; "b" 1`},
		{"other: no user", "u1 X@1{c=b}", "funnel: {steps: [A], by: c, other: true}", "0"},
	})
}

func TestFunnelTimesByHand(t *testing.T) {
	users := func(n int) string { // who take 1 to n seconds, the last first
		var lines strings.Builder
		for i := n; i > 0; i-- {
			fmt.Fprintf(&lines, "u%d A@0 B@%d\n", i, i)
		}
		return lines.String()
	}
	runPencils(t, []pencil{
		{"from the step before", "u1 A@0 B@10 C@70\nu2 A@0 B@30", "funnel: {steps: [A, B, C], times: previous}", "2 2~10000/30000[1m0s:2] 1~60000/60000[5m0s:1]"},
		{"from the first", "u1 A@0 B@10 C@70\nu2 A@0 B@30", "funnel: {steps: [A, B, C], times: first}", "2 2~10000/30000[1m0s:2] 1~70000/70000[5m0s:1]"},
		{"ranks of 10: the 5th and the 9th", users(10), "funnel: {steps: [A, B], times: first}", "10 10~5000/9000[1m0s:10]"},
		{"ranks of 11: the 6th and the 10th", users(11), "funnel: {steps: [A, B], times: first}", "11 11~6000/10000[1m0s:11]"},
		{"ranks of 1", users(1), "funnel: {steps: [A, B], times: first}", "1 1~1000/1000[1m0s:1]"},
		{"buckets between that nobody is in", "u1 A@0 B@0\nu2 A@0 B@2h", "funnel: {steps: [A, B], times: first}", "2 2~0/7200000[1m0s:1 5m0s:0 15m0s:0 30m0s:0 1h0m0s:0 3h0m0s:1]"},
		{"a bound is in the bucket after it", "u1 A@0 B@59.999\nu2 A@0 B@60\nu3 A@0 B@299.999\nu4 A@0 B@300", "funnel: {steps: [A, B], times: first}", "4 4~60000/300000[1m0s:1 5m0s:2 15m0s:1]"},
		{"the last bucket has no bound", "u1 A@0 B@90d\nu2 A@0 B@89.99d", "funnel: {steps: [A, B], times: first}", "2 2~7775136000/7776000000[2160h0m0s:1 0s:1]"},
		{"of the winning chain, not the shortest way", "u1 A@0 A@5 B@6 B@7", "funnel: {steps: [A, B], times: first}", "1 1~6000/6000[1m0s:1]"},
		{"of the chain that reaches the level", "u1 A@0 A@5 B@6 C@11", "funnel: {steps: [A, B, C], within: 10s, times: first}", "1 1~1000/1000[1m0s:1] 1~6000/6000[1m0s:1]"},
		// The last start counts, 3 before B, so that the level is found by 3, 8, 9. The first chain of it is another.
		{"strict_increase: the first chain that there is", "u1 A@0 A@2 A@3 B@8 A@9", "funnel: {steps: [A, [A, B], A], within: 6s, mode: [strict_increase], times: first}", "1 1~2000/2000[1m0s:1] 1~3000/3000[1m0s:1]"},
		{"nobody reached it", "u1 A@0", "funnel: {steps: [A, B], times: first}", "1 0"},
		{"of groups, and of other", "u1 A@0{c=a} B@1\nu2 A@0{c=b} B@2\nu3 A@0{c=c} B@4", "funnel: {steps: [A, B], times: first, by: c, limit: 1, other: true}", `3 3~2000/4000[1m0s:3]; "a" 1 1~1000/1000[1m0s:1]; other 2 2~2000/4000[1m0s:2]`},
		{"same: the quicker of two that begin together", "u1 A@0{i=1} A@0{i=2} B@9{i=1} B@5{i=2}", "funnel: {steps: [A, B], same: i, times: first}", "1 1~5000/5000[1m0s:1]"},
	})
}

func TestFunnelTrendByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"by day", "u1 A@1 B@2\nu2 A@1d B@1.1d\nu3 A@1d", "funnel: {steps: [A, B], bucket: day}", "3 2; 2026-01-05: 1 1; 2026-01-06: 2 1"},
		{"a user counts in several", "u1 A@1 A@2 A@3d B@4d", "funnel: {steps: [A, B], bucket: day}", "1 1; 2026-01-05: 1 1; 2026-01-08: 1 1"},
		{"but not in the window of both", "u1 A@1 A@3d B@3d", "funnel: {steps: [A, B], within: 1h, bucket: day}", "1 1; 2026-01-05: 1 0; 2026-01-08: 1 1"},
		{"what was before is of no account", "u1 B@1 A@1d", "funnel: {steps: [A, B], bucket: day}", "1 0; 2026-01-06: 1 0"},
		{"in bounds", "u1 A@1 A@1d A@2d", "funnel: {steps: [A], bucket: day, from: 2026-01-06, to: 2026-01-07}", "1; 2026-01-06: 1"},
		{"by hour in a zone", "u1 A@0 A@45m", "funnel: {steps: [A], bucket: hour, timezone: Asia/Kolkata}", "1; 2026-01-05T05:00:00+05:30: 1; 2026-01-05T06:00:00+05:30: 1"},
		{"by day in a zone", "u1 A@14h A@16h", "funnel: {steps: [A], bucket: day, timezone: Asia/Seoul}", "1; 2026-01-05: 1; 2026-01-06: 1"},
		{"by weeks from Sunday", "u1 A@5d A@6d", "funnel: {steps: [A], bucket: week_sunday}", "1; 2026-01-04: 1; 2026-01-11: 1"},
		{"strict_order: step 1 in a later bucket is another event", "u1 A@1 A@1d B@1.5d", "funnel: {steps: [A, B], mode: [strict_order], bucket: day}", "1 1; 2026-01-05: 1 0; 2026-01-06: 1 1"},
		{"strict_order: unless it is another step", "u1 A@1 A@1d B@1.5d", "funnel: {steps: [A, [A, B]], mode: [strict_order, strict_once], bucket: day}", "1 1; 2026-01-05: 1 1; 2026-01-06: 1 1"},
		{"strict_order: what is before the bucket ends nothing", "u1 A@1 X@2 A@1d B@1.5d", "funnel: {steps: [A, B], mode: [strict_order], bucket: day}", "1 0; 2026-01-05: 1 0; 2026-01-06: 1 1"},
		// Of all events the last start counts, which has no B after it.
		{"strict_increase: the last start of the bucket", "u1 A@1 A@1d B@1d", "funnel: {steps: [A, B], mode: [strict_increase], bucket: day}", "1 0; 2026-01-05: 1 1; 2026-01-06: 1 0"},
		{"strict_deduplication", "u1 A@1 B@2 B@1d A@1d B@1.5d C@1.6d", "funnel: {steps: [A, B, C], mode: [strict_deduplication], bucket: day}", "1 1 0; 2026-01-05: 1 1 0; 2026-01-06: 1 1 0"},
		{"strict_once", "u1 A@1 A@1d", "funnel: {steps: [A, A], mode: [strict_once], bucket: day}", "1 1; 2026-01-05: 1 1; 2026-01-06: 1 0"},
		{"exclude", "u1 A@1 X@2 A@1d B@1.5d", "funnel: {steps: [A, B], exclude: [{event: X}], bucket: day}", "1 1; 2026-01-05: 1 0; 2026-01-06: 1 1"},
		{"same: an event without the property takes no part", "u1 A@1 A@1d{i=1} B@2d{i=1}", "funnel: {steps: [A, B], same: i, bucket: day}", "1 1; 2026-01-06: 1 1"},
		{"times are of all", "u1 A@1 B@2", "funnel: {steps: [A, B], times: first, bucket: day}", "1 1~1000/1000[1m0s:1]; 2026-01-05: 1 1"},
		{"no user", "u1 X@1", "funnel: {steps: [A, B], bucket: day}", "0 0"},
	})
}

func TestRetentionByHand(t *testing.T) {
	runPencils(t, []pencil{
		{"elapsed weeks", "u1 S@1d O@1d O@7.9d O@8d\nu2 S@2d O@30d", "retention: {start: S, return: O, every: 168h, periods: 3}", "2026-01-05 2: 1 1 0"},
		{"calendar weeks", "u1 S@6d O@7d", "retention: {start: S, return: O, every: week, periods: 2}", "2026-01-05 1: 0 1"},
		{"unbounded", "u1 S@1d O@15d\nu2 S@1d O@8d\nu3 S@1d O@30d", "retention: {start: S, return: O, every: 168h, periods: 3, unbounded: true}", "2026-01-05 3: 2 2 1"},
		{"cohorts by day", "u1 S@1h\nu2 S@25h O@26h\nu3 S@26h", "retention: {start: S, return: O, every: 24h, periods: 2}", "2026-01-05 1: 0 0; 2026-01-06 2: 1 0"},
		{"cohorts by month, empty ones left out", "u1 S@1d\nu2 S@60d", "retention: {start: S, return: O, every: month, periods: 1}", "2026-01-01 1: 0; 2026-03-01 1: 0"},
		{"in a zone: Seoul is 9 hours ahead", "u1 S@14h O@16h", "retention: {start: S, return: O, every: day, periods: 2, timezone: Asia/Seoul}", "2026-01-05 1: 0 1"},
		{"in UTC that is one day", "u1 S@14h O@16h", "retention: {start: S, return: O, every: day, periods: 2}", "2026-01-05 1: 1 0"},
		// The clocks of Berlin go forward on Sunday 2026-03-29, day 83: that day has 23 hours, and begins at 23:00 UTC.
		{"a clock change", "u1 S@83d O@83.92d", "retention: {start: S, return: O, every: day, periods: 2, timezone: Europe/Berlin}", "2026-03-29 1: 0 1"},
		{"the first start in the bounds, returns after them", "u1 S@1d S@3d O@4d", "retention: {start: S, return: O, every: 24h, periods: 2, from: 2026-01-07, to: 2026-01-09}", "2026-01-08 1: 0 1"},
		{"the start is a return too", "u1 O@1", "retention: {start: O, return: O, every: 24h, periods: 1}", "2026-01-05 1: 1"},
		{"weeks from Sunday", "u1 S@5d O@6d", "retention: {start: S, return: O, every: week_sunday, periods: 2}", "2026-01-04 1: 0 1"},
		{"cohorts by weeks from Sunday", "u1 S@5d O@6d\nu2 S@6d", "retention: {start: S, return: O, every: 24h, periods: 2, cohort: week_sunday}", "2026-01-04 1: 0 1; 2026-01-11 1: 0 0"},
		{"a return before is none, one at the time is", "u1 O@1 S@2\nu2 O@2 S@2", "retention: {start: S, return: O, every: 24h, periods: 1}", "2026-01-05 2: 1"},
	})
}

func TestSegmentByHand(t *testing.T) {
	const many = "u1 P@1{c=KR,i=1,f=0.5} P@2{c=KR,i=5}\nu2 P@1d{c=FR,i=3} Q@1d{i=100}\nu3 P@3d"
	runPencils(t, []pencil{
		{"count", many, "segment: {event: P}", "4"},
		{"of all events", many, "segment: {}", "5"},
		{"of two", many, "segment: {event: [P, Q]}", "5"},
		{"users", many, "segment: {event: P, measure: users}", "3"},
		{"by day", many, "segment: {event: P, bucket: day}", "2026-01-05 2; 2026-01-06 1; 2026-01-08 1"},
		{"filled", many, "segment: {event: P, bucket: day, fill: true}", "2026-01-05 2; 2026-01-06 1; 2026-01-07 0; 2026-01-08 1"},
		{"filled with null", many, "segment: {event: P, bucket: day, fill: true, measure: max(i)}", "2026-01-05 5; 2026-01-06 3; 2026-01-07 null; 2026-01-08 null"},
		{"by property: value descending, then group", many, "segment: {event: P, by: [c]}", `"KR" 2; "" 1; "FR" 1`},
		{"by hour in a zone", "u1 P@1h P@119m P@2h", "segment: {bucket: hour, timezone: Asia/Kolkata}", "2026-01-05T06:00:00+05:30 1; 2026-01-05T07:00:00+05:30 2"},
		{"sum", many, "segment: {event: P, measure: sum(i)}", "9"},
		{"sum of numbers", many, "segment: {event: P, measure: sum(f)}", "0.5"},
		{"avg", many, "segment: {event: P, measure: avg(i)}", "3"},
		{"min", many, "segment: {event: P, measure: min(i)}", "1"},
		{"null last", many, "segment: {event: P, measure: sum(i), by: c}", `"KR" 6; "FR" 3; "" null`},
		{"nothing", many, "segment: {event: Z}", "0"},
		{"nothing to measure", many, "segment: {event: Z, measure: sum(i)}", "null"},
		{"nothing by day", many, "segment: {event: Z, bucket: day}", ""},
		{"nearest rank: the 2nd of 4, the 4th of 4", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1} P@1", "segment: {measure: p50(i)}", "2"},
		{"nearest rank, above", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1}", "segment: {measure: p75(i)}", "3"},
		{"nearest rank, just above", "u1 P@1{i=4} P@1{i=2} P@1{i=3} P@1{i=1}", "segment: {measure: p76(i)}", "4"},
		{"a sum that fits no integer", "u1 P@1{i=9223372036854775807} P@1{i=1}", "segment: {measure: sum(i)}", "9.223e+18"},
		{"a sum that does in the end", "u1 P@1{i=9223372036854775807} P@1{i=1} P@1{i=-2}", "segment: {measure: sum(i)}", "9223372036854775806"},
		{"minutes", "u1 P@59.999 P@60", "segment: {bucket: minute}", "2026-01-05T00:00:00Z 1; 2026-01-05T00:01:00Z 1"},
		{"weeks and months", "u1 P@6.9d P@7d", "segment: {bucket: week}", "2026-01-05 1; 2026-01-12 1"},
		{"months", "u1 P@26d P@27d", "segment: {bucket: month}", "2026-01-01 1; 2026-02-01 1"},
		{"weeks from Sunday", "u1 P@5.9d P@6d", "segment: {bucket: week_sunday}", "2026-01-04 1; 2026-01-11 1"},
		// The clocks of Berlin go forward on Sunday 2026-03-29, day 83. That Sunday begins at 23:00 UTC, the next one at 22:00.
		{"weeks from Sunday, across a clock change", "u1 P@82.95d P@82.96d P@89.91d P@89.92d", "segment: {bucket: week_sunday, timezone: Europe/Berlin}", "2026-03-22 1; 2026-03-29 2; 2026-04-05 1"},
		{"weeks from Sunday, filled", "u1 P@0 P@14d", "segment: {bucket: week_sunday, fill: true}", "2026-01-04 1; 2026-01-11 0; 2026-01-18 1"},
	})
}

func TestSegmentLimitByHand(t *testing.T) {
	// Two events of a, two of b, one of c, one of d.
	const events = "u1 P@1{c=a,i=1} P@2{c=a,i=2} P@1d{c=b,i=7}\nu2 P@1{c=b,i=9} P@1d{c=c,i=8} P@1d{c=d}"
	runPencils(t, []pencil{
		{"the smaller value of a tie", events, "segment: {by: c, limit: 1}", `"a" 2`},
		{"other comes last", events, "segment: {by: c, limit: 1, other: true}", `"a" 2; other 4`},
		{"as many as there are", events, "segment: {by: c, limit: 4, other: true}", `"a" 2; "b" 2; "c" 1; "d" 1`},
		{"one too many", events, "segment: {by: c, limit: 3, other: true}", `"a" 2; "b" 2; "c" 1; other 1`},
		{"all buckets together", events, "segment: {by: c, bucket: day, limit: 1, other: true}", `2026-01-05 "a" 2; 2026-01-05 other 1; 2026-01-06 other 3`},
		{"other in no bucket of its own", "u1 P@1{c=a} P@1d{c=a} P@1d{c=b}", "segment: {by: c, bucket: day, limit: 1, other: true}", `2026-01-05 "a" 1; 2026-01-06 "a" 1; 2026-01-06 other 1`},
		{"users count once", events, "segment: {by: c, measure: users, limit: 1, other: true}", `"a" 1; other 2`},
		{"the limit counts events, not the measure", events, "segment: {by: c, measure: max(i), limit: 1}", `"a" 2`},
		{"percentiles over the events of other", events, "segment: {by: c, measure: p50(i), limit: 1, other: true}", `"a" 1; other 8`},
		{"null of other", events, "segment: {by: c, measure: max(i), limit: 3, other: true}", `"b" 9; "c" 8; "a" 2; other null`},
		{"by two", "u1 P@1{c=a,i=1} P@2{c=a,i=2} P@3{c=a,i=2} P@4{c=b}", "segment: {by: [c, i], limit: 1, other: true}", `"a" "2" 2; other 2`},
		{"missing is the smallest", "u1 P@1{c=a} P@2", "segment: {by: c, limit: 1, other: true}", `"" 1; other 1`},
		{"filled up to buckets of groups that are left out", events, "segment: {by: c, bucket: day, limit: 1, fill: true}", `2026-01-05 "a" 2; 2026-01-06 "a" 0`},
		{"other is filled too", "u1 P@1{c=a} P@1{c=b} P@2d{c=a}", "segment: {by: c, bucket: day, limit: 1, other: true, fill: true}", `2026-01-05 "a" 1; 2026-01-05 other 1; 2026-01-06 "a" 0; 2026-01-06 other 0; 2026-01-07 "a" 1; 2026-01-07 other 0`},
		{"nothing", events, "segment: {event: Z, by: c, limit: 1, other: true}", ""},
	})
}

func TestFilterByHand(t *testing.T) {
	const events = "u1 P@1{c=KR,i=2,f=2.5,b=true} P@2{c=2,i=0,f=0,b=false} P@3{c=FR,i=-7} P@4"
	f := func(where, want string) {
		t.Helper()
		runPencils(t, []pencil{{where, events, "segment: {where: {" + where + "}}", want}})
	}
	f("c: exists", "3")
	f("c: missing", "1")
	f("b: exists", "2")
	f("c: KR", "1")
	f("c: {ne: KR}", "3")
	f("c: {in: [KR, FR]}", "2")
	f("c: {not_in: [KR, FR]}", "2")
	f(`c: ""`, "1")
	f(`c: {ne: ""}`, "3")
	f(`c: {in: ["", KR]}`, "2")
	f(`c: {not_in: ["", KR]}`, "2")
	f("c: {eq: exists}", "0")
	f("c: 2", "1")
	f("c: {contains: R}", "2")
	f("c: {prefix: K}", "1")
	f("c: {suffix: R}", "2")
	f("c: {contains: r}", "0")
	f("c: {matches: '^[KF]R$'}", "2")
	f("c: {gt: FR}", "1")
	f("c: {gte: FR}", "2")
	f("c: {between: [2, FR]}", "2")
	f("i: 2", "1")
	f(`i: "2"`, "1")
	f("i: 0", "1")
	f("i: {ne: 0}", "3")
	f("i: 2.5", "0")
	f("i: 2.0", "1")
	f("i: {lt: 2.5}", "3")
	f("i: {gt: 1.5}", "1")
	f("i: {gte: 0}", "2")
	f("i: {between: [-7, 0]}", "2")
	f("f: {lte: 2.5}", "2")
	f("f: {gt: 0}", "1")
	f("b: true", "1")
	f("b: {ne: true}", "3")
	f("c: {not_contains: R}", "2") // 2, and the missing one
	f("c: {not_contains: r}", "4")
	f("c: {not_matches: '^[KF]R$'}", "2")
	f("c: {not_matches: '.'}", "1")
	f("c: {not_contains: R}, i: exists", "1")
	f("nowhere: {not_contains: x}", "4")
	f("nowhere: missing", "4")
	f("nowhere: {gt: 1}", "0")
	f("c: KR, i: 0", "0")
	f("any: [{c: KR}, {i: 0}]", "2")
	f("all: [{c: KR}, {i: 2}]", "1")
	f("any: [{c: KR, i: 0}, {f: missing}]", "2")
	f("cohort: first", "4")
}

func TestCohortByHand(t *testing.T) {
	const events = "u1 P@1 P@2 P@3\nu2 P@1 P@2 Q@3\nu3 Q@1\nu4 P@1"
	runPencils(t, []pencil{
		{"did", events, "cohort: {did: P}", "u1; u2; u4"},
		{"at least", events, "cohort: {did: {event: P, times: {at_least: 2}}}", "u1; u2"},
		{"at most", events, "cohort: {did: {event: P, times: {at_most: 2}}}", "u2; u4"},
		{"both", events, "cohort: {did: [P, Q]}", "u2"},
		{"did not", events, "cohort: {did: P, did_not: Q}", "u1; u4"},
		{"did not so often", events, "cohort: {did: P, did_not: {event: P, times: {at_least: 3}}}", "u2; u4"},
		{"in bounds", events, "cohort: {did: P, from: 2026-01-05T00:00:03Z}", "u1"},
		{"no user", events, "cohort: {did: Z}", ""},
	})
}

func TestPathsByHand(t *testing.T) {
	const events = "u1 A@1 B@2 B@3 C@4\nu2 X@1 A@2 B@3 C@100\nu3 A@1\nu4 B@1"
	runPencils(t, []pencil{
		{"next", events, "paths: {anchor: A, steps: 2}", "A>B>C 2; A 1"},
		{"steps", events, "paths: {anchor: A, steps: 1}", "A>B 2; A 1"},
		{"gap", events, "paths: {anchor: A, gap: 10s}", "A 1; A>B 1; A>B>C 1"},
		{"a pause of the gap is none", "u1 A@1 B@11", "paths: {anchor: A, gap: 10s}", "A>B 1"},
		{"previous", events, "paths: {anchor: C, direction: previous}", "A>B>C 1; X>A>B>C 1"},
		{"previous, from the last", "u1 A@1 C@2 B@3 C@4", "paths: {anchor: C, direction: previous, steps: 1}", "B>C 1"},
		{"next, from the first", "u1 A@1 B@2 A@3 C@4", "paths: {anchor: A, steps: 1}", "A>B 1"},
		{"ties go by name", "u1 C@2 A@1 B@2", "paths: {anchor: A}", "A>B>C 1"},
		{"top", events, "paths: {anchor: A, steps: 2, top: 1}", "A>B>C 2"},
		{"where", events, "paths: {anchor: A, steps: 2, where: {c: exists}}", ""},
		{"the anchor repeats", "u1 A@1 A@2 B@3", "paths: {anchor: A, steps: 1}", "A>B 1"},
	})
}

func TestUsersByHand(t *testing.T) {
	const funnel = "u1 A@1{c=a} B@2 C@3\nu2 A@1{c=b} B@2\nu3 A@1d{c=c}\nu4 A@1{i=7} A@1d\nu5 X@1"
	const steps = "funnel: {steps: [A, B, C]}\nusers: "
	const groups = "funnel: {steps: [A, B, C], by: [c, i], limit: 2, other: true}\nusers: "
	const trend = "funnel: {steps: [A, B, C], bucket: day}\nusers: "
	const retention = "u1 S@0 O@1h O@2d\nu2 S@0 O@1d\nu3 S@1d O@3d"
	const days = "retention: {start: S, return: O, every: day, periods: 3}\nusers: "
	const unbounded = "retention: {start: S, return: O, every: day, periods: 3, unbounded: true}\nusers: "
	const segment = "u1 P@1{c=a,i=1} P@2{c=a} P@1d{c=b}\nu2 P@1{c=b} P@1d{c=c}\nu3 P@1d\nu4 Q@1{c=a}"
	const rows = "segment: {event: P, by: c, bucket: day, limit: 2, other: true}\nusers: "
	const paths = "u1 A@1 B@2\nu2 A@1 B@2 B@3\nu3 A@1 C@2\nu4 B@1"
	const walks = "paths: {anchor: A, top: 1}\nusers: "
	runPencils(t, []pencil{
		{"a step", funnel, steps + "{step: 1}", "u1; u2; u3; u4"},
		{"a later step", funnel, steps + "{step: 2}", "u1; u2"},
		{"dropped", funnel, steps + "{step: 1, dropped: true}", "u3; u4"},
		{"dropped later", funnel, steps + "{step: 2, dropped: true}", "u2"},
		{"dropped after the last: all of it", funnel, steps + "{step: 3, dropped: true}", "u1"},
		{"any order: so many steps", funnel, "funnel: {steps: [A, B, X], order: any}\nusers: {step: 1, dropped: true}", "u3; u4; u5"},
		// The groups are ("", "7"), ("a", ""), then ("b", "") and ("c", ""), which are beyond the limit.
		{"a group", funnel, groups + `{step: 1, group: [a, ""]}`, "u1"},
		{"a group with a missing value", funnel, groups + `{step: 1, group: ["", 7]}`, "u4"},
		{"values in the type of the property", funnel, groups + `{step: 1, group: ["", "7"]}`, "u4"},
		{"a group beyond the limit", funnel, groups + `{step: 1, group: [b, ""]}`, ""},
		{"no such group", funnel, groups + `{step: 1, group: [a, 7]}`, ""},
		{"other", funnel, groups + "{step: 1, other: true}", "u2; u3"},
		{"a step of other", funnel, groups + "{step: 2, other: true}", "u2"},
		{"all groups", funnel, groups + "{step: 2}", "u1; u2"},
		{"other: there is none", funnel, "funnel: {steps: [A], by: c, other: true}\nusers: {step: 1, other: true}", ""},
		{"a bucket", funnel, trend + "{step: 1, bucket: 2026-01-06}", "u3; u4"},
		{"all buckets", funnel, trend + "{step: 2}", "u1; u2"},
		{"no such bucket", funnel, trend + "{step: 1, bucket: 2026-01-07}", ""},
		{"a bucket: the chains of it", "u1 A@1 A@1d B@1d", "funnel: {steps: [A, B], within: 1h, bucket: day}\nusers: {step: 1, dropped: true, bucket: 2026-01-05}", "u1"},
		{"a cohort", retention, days + "{cohort: 2026-01-05}", "u1; u2"},
		{"a period", retention, days + "{cohort: 2026-01-05, period: 1}", "u2"},
		{"the first period", retention, days + "{cohort: 2026-01-05, period: 0}", "u1"},
		{"unbounded", retention, unbounded + "{cohort: 2026-01-05, period: 1}", "u1; u2"},
		{"another cohort", retention, days + "{cohort: 2026-01-06, period: 2}", "u3"},
		{"no such cohort", retention, days + "{cohort: 2026-01-07}", ""},
		// The groups are a and b, with two events each; of the rest are c and the missing one.
		{"any matching event", segment, rows + "{}", "u1; u2; u3"},
		{"without by", segment, "segment: {event: Q}\nusers: {}", "u4"},
		{"of a bucket", segment, rows + "{bucket: 2026-01-05}", "u1; u2"},
		{"of a group", segment, rows + "{group: a}", "u1"},
		{"of a row", segment, rows + "{bucket: 2026-01-06, group: b}", "u1"},
		{"of a group beyond the limit", segment, rows + "{group: c}", ""},
		{"of other", segment, rows + "{other: true}", "u2; u3"},
		{"of a row that is not there", segment, rows + "{bucket: 2026-01-05, other: true}", ""},
		{"of a missing value", segment, `segment: {event: P, by: c}` + "\n" + `users: {group: ""}`, "u3"},
		{"all groups, with a limit", segment, "segment: {event: P, by: c, limit: 1}\nusers: {}", "u1; u2; u3"},
		{"without a value to measure", segment, "segment: {event: P, by: c, measure: sum(i)}\nusers: {group: b}", "u1; u2"},
		{"a path", paths, walks + "{path: [A, B]}", "u1; u2"},
		{"a path beyond the top", paths, walks + "{path: [A, C]}", ""},
		{"a part of a path", paths, walks + "{path: [A]}", ""},
	})
}

// TestRefused checks what the reference does not answer.
func TestRefused(t *testing.T) {
	events := []event.Event{{User: "u", Time: 1, Name: "A", Properties: []event.Property{{Name: "c", Value: event.StringOf("x")}}}}
	test := func(property string, op query.Op, text string) *query.Query {
		return &query.Query{Segment: &query.Segment{Match: query.Match{Where: &query.Filter{Test: &query.Test{Property: property, Op: op, Literals: []query.Literal{{Value: event.StringOf(text), Text: text}}}}}}}
	}
	f := func(schema event.Schema, q *query.Query, want string) {
		t.Helper()
		if _, err := Answer(events, schema, q, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	f(pencilSchema(), &query.Query{}, "asks nothing")
	f(pencilSchema(), &query.Query{Sample: 0.5, Segment: &query.Segment{}}, "no samples")
	f(nil, &query.Query{Segment: &query.Segment{}}, `property "c"`)
	f(pencilSchema(), test("i", query.Eq, "x"), "not a number")
	f(pencilSchema(), test("b", query.Eq, "yes"), "not a boolean")
	f(pencilSchema(), test("b", query.Gt, "true"), "not for booleans")
	f(pencilSchema(), test("i", query.Contains, "1"), "for strings")
	f(pencilSchema(), test("c", query.Matches, "("), "missing closing")
	f(pencilSchema(), test("c", query.Between, "1"), "2 literals")
	f(pencilSchema(), test("unknown", query.InCohort, ""), "no cohort")
	f(pencilSchema(), &query.Query{Segment: &query.Segment{Measure: query.Measure{Kind: query.Sum, Property: "c"}}}, "cannot be measured")
	f(pencilSchema(), &query.Query{Funnel: &query.Funnel{Steps: []query.Match{{}}, Modes: query.Modes{AllowReentry: true}}}, "strict_order")
	f(pencilSchema(), &query.Query{Funnel: &query.Funnel{Steps: []query.Match{{}}, AnyOrder: true, Modes: query.Modes{StrictOnce: true}}}, "without modes")
	funnel := func(f query.Funnel) *query.Query {
		f.Steps = []query.Match{{}, {}}
		return &query.Query{Funnel: &f}
	}
	f(pencilSchema(), funnel(query.Funnel{By: []string{"c"}, ByStep: 3}), "no step 3")
	f(pencilSchema(), funnel(query.Funnel{By: []string{"c"}, Bucket: query.Day}), "without groups")
	f(pencilSchema(), funnel(query.Funnel{AnyOrder: true, By: []string{"c"}, ByStep: query.LastStep}), "without a chosen step")
	f(pencilSchema(), funnel(query.Funnel{AnyOrder: true, Times: query.FromFirst}), "without times")
	f(pencilSchema(), &query.Query{Segment: &query.Segment{Limit: 1}}, "go with by")

	users := func(q *query.Query, s query.Selection) *query.Query {
		q.Users = &s
		return q
	}
	value := func(text string) []query.Literal { return []query.Literal{{Value: event.StringOf(text), Text: text}} }
	plain := funnel(query.Funnel{})
	f(pencilSchema(), users(plain, query.Selection{}), "no step 0")
	f(pencilSchema(), users(plain, query.Selection{Step: 3}), "no step 3")
	f(pencilSchema(), users(plain, query.Selection{Step: 1, Cohort: "2026-01-05"}), "users of a funnel have no cohort")
	f(pencilSchema(), users(plain, query.Selection{Step: 1, Bucket: "2026-01-05"}), "no trend")
	f(pencilSchema(), users(plain, query.Selection{Step: 1, Group: value("x")}), "0 values, got 1")
	f(pencilSchema(), users(funnel(query.Funnel{By: []string{"c"}}), query.Selection{Step: 1, Other: true}), "other groups")
	f(pencilSchema(), users(funnel(query.Funnel{By: []string{"c"}, Other: true}), query.Selection{Step: 1, Group: value("x"), Other: true}), "not one of the others")
	f(pencilSchema(), users(funnel(query.Funnel{By: []string{"i"}}), query.Selection{Step: 1, Group: value("x")}), "not a number")
	f(pencilSchema(), users(&query.Query{Segment: &query.Segment{}}, query.Selection{Bucket: "2026-01-05"}), "no buckets")
	f(pencilSchema(), users(&query.Query{Segment: &query.Segment{}}, query.Selection{Step: 1}), "no step")
	every := query.Every{Unit: query.Day}
	f(pencilSchema(), users(&query.Query{Retention: &query.Retention{Every: every, Periods: 2}}, query.Selection{}), "need a cohort")
	f(pencilSchema(), users(&query.Query{Retention: &query.Retention{Every: every, Periods: 2}}, query.Selection{Cohort: "2026-01-05", Period: 2, HasPeriod: true}), "no period 2")
	f(pencilSchema(), users(&query.Query{Paths: &query.Paths{}}, query.Selection{}), "need a path")
	f(pencilSchema(), users(&query.Query{Cohort: &query.Cohort{}}, query.Selection{}), "a list of users")
}
