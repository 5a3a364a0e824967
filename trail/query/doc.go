// Package query has the queries of a store of events and their answers. Both are plain
// data. You read a query from a YAML or JSON document, or build it in Go.
//
// Read [Query], then [Funnel], [Retention], [Segment], [Cohort] and [Paths], then
// [Filter]. [Parse] reads documents, and [Query.Check] checks a query that you built.
// [Answer] is what comes back.
//
// The package knows no store and evaluates nothing. Three programs do, and must agree:
// trail, a reference in its tests, and SQL made by dialect. After Parse or Check, the
// defaults of a query are filled in, its filters are simple (no list of one, no list of
// all in a list of all), and it may be shared.
//
// # Documents
//
// A document is one map in YAML or JSON: one of the keys funnel, retention,
// segment, cohort and paths, and next to it
//
//	name: buyers     # the name under which users are kept; otherwise for people
//	sample: 0.1      # share of users to read, above 0 up to 1; default 1
//	users: {step: 2} # asks for the users behind one number of the answer; see below
//
// Unknown keys, duplicate keys and values out of bounds are refused. All problems are
// reported together, as Errors: the text of each has its line and column, and Error.Hint
// says what to write instead where the text does not.
//
// Events are given as a name (view), a list of names ([view, look]: one of them), or a
// map {event: view, where: {…}}. Both keys may be left out of the map; without event,
// any event counts. Steps of a funnel must name an event.
//
// All kinds take
//
//	from: 2026-01-01               # time of the first events that count; default none
//	to: 2026-02-01T00:00:00+09:00  # time before which they must be; default none
//	where: {country: KR}           # what all events of the query must pass
//
// A time is RFC 3339, or a date, which is midnight UTC, and is floored to
// milliseconds. A duration is one or more numbers with the units ms, s, m, h, d (24
// hours) and w (7 days): 30m, 1h30m, 168h, 7d; up to a hundred years. Units of the
// calendar are minute, hour, day, week (from Monday), week_sunday (from Sunday) and
// month.
//
// # Funnels
//
//	funnel:
//	  steps: [view, {event: cart, where: {price: {gt: 9}}}, purchase]  # 1 to 32
//	  within: 7d                   # from the first step; none, the default, has no bound
//	  mode: strict_order           # or a list: strict_deduplication, strict_order,
//	                               # strict_increase, strict_once, allow_reentry (with
//	                               # strict_order)
//	  order: any                   # steps count in any order; neither mode, exclude, by_step,
//	                               # times nor bucket then
//	  exclude:                     # ends chains that have it between two steps
//	    - {event: refund, between: [1, 2]}   # default the first and the last step
//	  same: item                   # steps must be equal in it
//	  by: [country, device]        # a property or up to 3: groups by their values
//	  by_step: last                # at the last step that was reached; or first, the default,
//	                               # or the number of a step
//	  limit: 1000                  # groups that are answered; the default
//	  other: true                  # the rest of them as one group; default false
//	  times: previous              # how long each step took since the one before; or first,
//	                               # since step 1; default not answered
//	  bucket: week                 # a trend by when step 1 was, by minute, hour, day, week,
//	                               # week_sunday or month; without by; default none
//	  timezone: Asia/Seoul         # of buckets; default UTC
//
// # Retention
//
//	retention:
//	  start: signup                # required, as are return, every and periods
//	  return: {}                   # here any event
//	  every: 168h                  # a duration of elapsed time, or a unit of the calendar
//	  periods: 8                   # 1 to 366
//	  cohort: week                 # or day, week_sunday, month; default the unit of every,
//	                               # else week for whole weeks, else day
//	  unbounded: true              # who is back later counts before, too; default false
//	  timezone: Asia/Seoul         # of calendar units; default UTC
//
// # Segments
//
//	segment:
//	  event: purchase              # default any
//	  bucket: day                  # or another unit of the calendar, or none, the default
//	  by: [country, device]        # a property or up to 3; default none
//	  limit: 10                    # groups that are answered, those with the most events in
//	                               # all buckets together; default all
//	  other: true                  # the rest of them as one group; default false
//	  measure: p95(price)          # or count, users, sum(p), avg(p), min(p), max(p), p1(p) to
//	                               # p99(p); default count
//	  fill: true                   # answers empty buckets between others; default false
//	  timezone: Asia/Seoul         # of buckets; default UTC
//
// Since answers have keys of their own, by cannot be bucket, value or ci, and in a
// funnel not steps. Next to other: true it cannot be other.
//
// # Cohorts
//
//	cohort:
//	  did: {event: purchase, times: {at_least: 3}}   # or a list: all of them
//	  did_not: refund                                # or a list: none of them
//
// times is a number, which is exactly that often, or a map of at_least, at_most and
// exactly; without it once is enough. did is required.
//
// # Paths
//
//	paths:
//	  anchor: signup               # required
//	  direction: previous          # or next, the default
//	  steps: 4                     # events in addition to the anchor, 1 to 7; the default
//	  gap: 30m                     # a longer pause ends a path; none is the default
//	  top: 20                      # paths that are answered, up to 10000; the default
//
// # Users
//
// Next to a question that is not a cohort, users selects one number of its answer. What
// is answered then is a cohort, the users whom the number counts:
//
//	users: {step: 3}                           # of a funnel: who reached step 3
//	users: {step: 2, dropped: true}            # and no step after it
//	users: {step: 2, group: [KR, mobile]}      # of a group, a value for each by
//	users: {step: 2, other: true}              # of the groups beyond limit
//	users: {step: 2, bucket: 2026-01-05}       # of a bucket of the trend
//	users: {cohort: 2026-01-05, period: 3}     # of a retention; without period all of the cohort
//	users: {bucket: 2026-01-05, group: KR}     # of a segment: who has an event in the row; or
//	                                           # other: true; {} for any event that matches
//	users: {path: [signup, view]}              # of paths
//
// Labels are written as in the answer. One that the answer does not have gives no users, and
// a warning.
//
// # Where
//
// A where maps properties to what they must be; all entries must pass. What stands
// behind a property is
//
//	country: KR                    # equal to it; "" is the missing value
//	country: exists                # not missing
//	country: missing
//	price: {gte: 9, lt: 20}        # operators, which all must pass
//
// Operators are eq, ne, in, not_in (lists), contains, prefix, suffix, matches (an
// RE2 expression found anywhere), not_contains, not_matches, gt, gte, lt, lte, between
// ([low, high], both included), and exists and missing (true or false). The text exists
// is {eq: exists}. Strings compare by bytes and mind case. A missing value passes
// missing, ne, not_in, not_contains, not_matches, and eq and in of ""; nothing else.
//
// Three keys are not names of properties:
//
//	all: [{country: KR}, {price: 1}]   # maps that all must pass
//	any: [{country: KR}, {price: 1}]   # one of the maps must
//	cohort: buyers                     # users of a cohort that is kept; or {ne: buyers},
//	                                   # {in: [a, b]}, {not_in: [a, b]}
//
// Instead of any map there can be a list of maps that all must pass, and in a list a
// map can name its property, which is how to ask for one that is called all, any,
// cohort or property: [{property: all, eq: 1}].
//
// # Bounds
//
// A document has up to 2 MiB, 250,000 values and 100 levels; its filters up to
// 10,000 tests, 32 levels, and 20,000 bytes of expressions of up to 1,000.
package query
