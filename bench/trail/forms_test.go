package trail_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/dialect"
)

// A form is one way to put a question in SQL. All forms of a question answer the same
// rows, the same that the Statement of trail/dialect reads.
type form struct {
	name string
	sql  string
}

// forms returns the ways to ask a question: what trail/dialect makes of it, of both
// tables, then the forms of this file, of both tables.
func (s *shape) forms(q *question, statement *dialect.Statement) []form {
	all := []form{
		{"dialect, users as text", statement.SQL},
		{"dialect, users as integers", tableName.ReplaceAllString(statement.SQL, tableNumbered)},
	}
	name := q.name
	if strings.HasPrefix(name, nameBy) {
		name = nameBy
	}
	for _, t := range formsOf[statement.Dialect][name] {
		all = append(all,
			form{t.name + ", users as text", s.fill(t.sql, statement.Dialect, false)},
			form{t.name + ", users as integers", s.fill(t.sql, statement.Dialect, true)})
	}
	return all
}

var tableName = regexp.MustCompile(`\b` + tableEvents + `\b`)

// fill puts the names of a shape into the text of a form:
//
//	«table», «ms»              the table, and its time in milliseconds
//	«step 1» …                 the name of a step of the funnel, quoted
//	«steps», «start», «return» conditions: the event is a step, begins, or comes back
//	«group», «there»           a property; the condition that the optional one is there
//	«window», «span», «day»    seven days, eight weeks and a day in milliseconds
func (s *shape) fill(sql string, d dialect.Dialect, numbered bool) string {
	table, ms := tableEvents, "epoch_ms(time)"
	if d == dialect.ClickHouse {
		ms = "toUnixTimestamp64Milli(time)"
	}
	if numbered {
		table, ms = tableNumbered, "ms"
	}
	oneOf := func(names []string) string {
		list := make([]string, len(names))
		for i, n := range names {
			list[i] = quoted(n)
		}
		return "event IN (" + strings.Join(list, ", ") + ")"
	}
	back := "true"
	if len(s.back) > 0 {
		back = oneOf(s.back)
	}
	const week = 7 * 86_400_000
	there := s.optional + " IS NOT NULL"
	if d == dialect.ClickHouse && !numbered {
		there = s.optional + " != ''"
	}
	with := []string{
		"«table»", table, "«ms»", ms, "«steps»", oneOf(s.steps), "«start»", oneOf(s.start), "«return»", back, "«any»", "true",
		"«group»", s.group, "«there»", there, "«window»", strconv.Itoa(week), "«span»", strconv.Itoa(8 * week), "«day»", "86400000",
	}
	for i, step := range s.steps {
		with = append(with, fmt.Sprintf("«step %d»", i+1), quoted(step))
	}
	return strings.NewReplacer(with...).Replace(sql)
}

var formsOf = map[dialect.Dialect]map[string][]form{
	dialect.DuckDB: {
		nameFunnel:       duckFunnels,
		nameRetention:    duckRetentions,
		nameRetentionAny: anyReturn(duckRetentions),
		nameBy:           duckGroups,
		nameSegment:      duckSegments,
		nameExists:       {{"not null", "SELECT count(*) FROM «table» WHERE «there»"}},
		nameExistsUsers:  {{"distinct, then count", "SELECT count(*) FROM (SELECT DISTINCT user FROM «table» WHERE «there»)"}},
	},
	dialect.ClickHouse: {
		nameFunnel:       houseFunnels,
		nameRetention:    houseRetentions,
		nameRetentionAny: anyReturn(houseRetentions),
		nameBy:           houseGroups,
		nameSegment:      houseSegments,
		nameExists:       {{"not null", "SELECT count() FROM «table» WHERE «there»"}},
		nameExistsUsers:  {{"in order of users", "SELECT count() FROM (SELECT user FROM «table» WHERE «there» GROUP BY user) SETTINGS optimize_aggregation_in_order = 1"}},
	},
}

// anyReturn makes forms in which any event is a return.
func anyReturn(forms []form) []form {
	var all []form
	for _, f := range forms {
		all = append(all, form{f.name, strings.ReplaceAll(f.sql, "«return»", "«any»")})
	}
	return all
}

// duckFunnels are funnels in SQL of DuckDB. The winning start of a chain is the latest that
// is early enough, so a cumulative maximum of starts is enough, and ASOF joins find it too.
var duckFunnels = []form{
	{"ASOF joins of integers", `
WITH seen AS (SELECT count(DISTINCT user) AS n FROM «table» WHERE event = «step 1»),
reached_1 AS (SELECT user, «ms» AS t FROM «table» WHERE event = «step 1»),
reached_2 AS (
    SELECT e.user, e.t, s.t AS began
    FROM (SELECT user, «ms» AS t FROM «table» WHERE event = «step 2») AS e ASOF JOIN reached_1 AS s ON e.user = s.user AND e.t >= s.t
    WHERE e.t - s.t <= «window»),
reached_3 AS (
    SELECT e.user
    FROM (SELECT user, «ms» AS t FROM «table» WHERE event = «step 3») AS e ASOF JOIN reached_2 AS s ON e.user = s.user AND e.t >= s.t
    WHERE e.t - s.began <= «window»)
SELECT (SELECT n FROM seen), (SELECT count(DISTINCT user) FROM reached_2), (SELECT count(DISTINCT user) FROM reached_3)`},
	{"ASOF joins of users of the second step", `
WITH seen AS (SELECT count(DISTINCT user) AS n FROM «table» WHERE event = «step 1»),
reached_1 AS (SELECT user, «ms» AS t FROM «table» WHERE event = «step 1» AND user IN (SELECT user FROM «table» WHERE event = «step 2»)),
reached_2 AS (
    SELECT e.user, e.t, s.t AS began
    FROM (SELECT user, «ms» AS t FROM «table» WHERE event = «step 2») AS e ASOF JOIN reached_1 AS s ON e.user = s.user AND e.t >= s.t
    WHERE e.t - s.t <= «window»),
reached_3 AS (
    SELECT e.user
    FROM (SELECT user, «ms» AS t FROM «table» WHERE event = «step 3») AS e ASOF JOIN reached_2 AS s ON e.user = s.user AND e.t >= s.t
    WHERE e.t - s.began <= «window»)
SELECT (SELECT n FROM seen), (SELECT count(DISTINCT user) FROM reached_2), (SELECT count(DISTINCT user) FROM reached_3)`},
	{"cumulative maxima", `
WITH first AS (
    SELECT user, event, «ms» AS t, max(CASE WHEN event = «step 1» THEN «ms» END) OVER (PARTITION BY user ORDER BY «ms») AS began
    FROM «table» WHERE «steps»),
second AS (
    SELECT *, max(CASE WHEN event = «step 2» AND t - began <= «window» THEN began END) OVER (PARTITION BY user ORDER BY t) AS began_2
    FROM first)
SELECT count(DISTINCT user) FILTER (event = «step 1»),
    count(DISTINCT user) FILTER (event = «step 2» AND t - began <= «window»),
    count(DISTINCT user) FILTER (event = «step 3» AND t - began_2 <= «window»)
FROM second`},
	{"cumulative maxima of users of the second step", `
WITH candidates AS (SELECT DISTINCT user FROM «table» WHERE event = «step 2»),
first AS (
    SELECT user, event, «ms» AS t, max(CASE WHEN event = «step 1» THEN «ms» END) OVER (PARTITION BY user ORDER BY «ms») AS began
    FROM «table» SEMI JOIN candidates USING (user) WHERE «steps»),
second AS (
    SELECT *, max(CASE WHEN event = «step 2» AND t - began <= «window» THEN began END) OVER (PARTITION BY user ORDER BY t) AS began_2
    FROM first WHERE event <> «step 1»)
SELECT (SELECT count(DISTINCT user) FROM «table» WHERE event = «step 1»),
    count(DISTINCT user) FILTER (event = «step 2» AND t - began <= «window»),
    count(DISTINCT user) FILTER (event = «step 3» AND t - began_2 <= «window»)
FROM second`},
	{"lists", `
WITH lists AS (
    SELECT user, list(«ms») FILTER (event = «step 1») AS a, list(«ms») FILTER (event = «step 2») AS b, list(«ms») FILTER (event = «step 3») AS c
    FROM «table» WHERE «steps» GROUP BY user),
pairs AS (
    SELECT c, list_filter(list_transform(b, lambda x: [list_max(list_filter(a, lambda y: y <= x)), x]), lambda z: z[2] - z[1] <= «window») AS ab
    FROM lists WHERE a IS NOT NULL AND b IS NOT NULL)
SELECT (SELECT count(*) FROM lists WHERE a IS NOT NULL),
    count(*) FILTER (len(ab) > 0),
    count(*) FILTER (len(list_filter(c, lambda x: x - list_max(list_transform(list_filter(ab, lambda z: z[2] <= x), lambda z: z[1])) <= «window»)) > 0)
FROM pairs`},
}

// duckGroup is a funnel by group. From each start the earliest second step, and the earliest
// third step after one, are enough; times that begin with the missing steps put the winning
// chain first.
const duckGroup = `
SELECT grouping(code) AS total, any_value(enum_range(NULL::values_of_«group»)[code]), sum(a)::BIGINT, sum(b)::BIGINT, sum(c)::BIGINT
FROM (
    SELECT best % 65536 AS code, count(*) AS a, count(*) FILTER (best >> 58 <= 1) AS b, count(*) FILTER (best >> 58 = 0) AS c
    FROM winners GROUP BY code)
GROUP BY GROUPING SETS ((), (code)) ORDER BY 1 DESC, 3 DESC, 2 NULLS FIRST LIMIT 1001`

const duckLater = `
timed AS (
    SELECT user, event, «group» AS value, «ms» AS t, min(CASE WHEN event = «step 3» THEN «ms» END) OVER (PARTITION BY user ORDER BY «ms» DESC) AS third
    FROM «candidates» WHERE «steps»),
next AS (
    SELECT *, min(CASE WHEN event = «step 2» THEN t END) OVER later AS b, min(CASE WHEN event = «step 2» THEN third END) OVER later AS c
    FROM timed WINDOW later AS (PARTITION BY user ORDER BY t DESC)),
winners AS (
    SELECT min((CASE WHEN c - t <= «window» THEN 0 WHEN b - t <= «window» THEN 1 ELSE 2 END * (1::BIGINT << 42) + t) * 65536 + coalesce(enum_code(value) + 1, 0)) AS best
    FROM next WHERE event = «step 1» GROUP BY user`

var duckGroups = []form{
	{"cumulative minima", "WITH" + strings.Replace(duckLater, "«candidates»", "«table»", 1) + ")" + duckGroup},
	{"cumulative minima of users of the second step", `
WITH candidates AS (SELECT DISTINCT user FROM «table» WHERE event = «step 2»),` + strings.Replace(duckLater, "«candidates»", "«table» SEMI JOIN candidates USING (user)", 1) + `
    UNION ALL
    SELECT min(((2::BIGINT << 42) + «ms») * 65536 + coalesce(enum_code(«group») + 1, 0)) FROM «table» ANTI JOIN candidates USING (user) WHERE event = «step 1» GROUP BY user)` + duckGroup},
}

const duckStarts = `
WITH starts AS (SELECT user, min(«ms») AS began FROM «table» WHERE «start» GROUP BY user),
sizes AS (SELECT (began // «day» + 3) // 7 AS number, count(*) AS size FROM starts GROUP BY number),`

const duckPeriods = `
SELECT make_date((number * 7 - 3)::INTEGER), size, k, coalesce(returned, 0)
FROM sizes CROSS JOIN (SELECT range AS k FROM range(8)) LEFT JOIN back USING (number, k) ORDER BY 1, 3`

const duckBits = `
back AS (SELECT (began // «day» + 3) // 7 AS number, k, count(*) AS returned FROM came, range(8) AS t(k) WHERE (bits >> k::INTEGER) & 1 = 1 GROUP BY number, k)`

var duckRetentions = []form{
	{"join, a bit for each period", duckStarts + `
came AS (
    SELECT user, any_value(began) AS began, bit_or(1::BIGINT << ((«ms» - began) // «window»)::INTEGER) AS bits
    FROM «table» JOIN starts USING (user)
    WHERE «return» AND «ms» >= began AND «ms» - began < «span» GROUP BY user),` + duckBits + duckPeriods},
	{"join, distinct periods", duckStarts + `
came AS (
    SELECT DISTINCT user, (began // «day» + 3) // 7 AS number, («ms» - began) // «window» AS k
    FROM «table» JOIN starts USING (user)
    WHERE «return» AND «ms» >= began AND «ms» - began < «span»),
back AS (SELECT number, k, count(*) AS returned FROM came GROUP BY number, k)` + duckPeriods},
	{"join, distinct users", duckStarts + `
back AS (
    SELECT (began // «day» + 3) // 7 AS number, («ms» - began) // «window» AS k, count(DISTINCT user) AS returned
    FROM «table» JOIN starts USING (user)
    WHERE «return» AND «ms» >= began AND «ms» - began < «span» GROUP BY number, k)` + duckPeriods},
	{"one pass by a window", `
WITH seen AS (
    SELECT user, event, «ms» AS t, min(CASE WHEN «start» THEN «ms» END) OVER (PARTITION BY user) AS began
    FROM «table» WHERE («start») OR («return»)),
came AS (
    SELECT user, any_value(began) AS began, bit_or(CASE WHEN «return» AND t >= began AND t - began < «span» THEN 1::BIGINT << ((t - began) // «window»)::INTEGER ELSE 0 END) AS bits
    FROM seen WHERE began IS NOT NULL GROUP BY user),
sizes AS (SELECT (began // «day» + 3) // 7 AS number, count(*) AS size FROM came GROUP BY number),` + duckBits + duckPeriods},
	{"lists", `
WITH lists AS (
    SELECT user, min(«ms») FILTER («start») AS began, list(«ms») FILTER («return») AS times
    FROM «table» WHERE («start») OR («return») GROUP BY user),
came AS (
    SELECT began, unnest(list_distinct(list_transform(list_filter(times, lambda x: x >= began AND x - began < «span»), lambda x: (x - began) // «window»))) AS k
    FROM lists WHERE began IS NOT NULL),
sizes AS (SELECT (began // «day» + 3) // 7 AS number, count(*) AS size FROM lists WHERE began IS NOT NULL GROUP BY number),
back AS (SELECT (began // «day» + 3) // 7 AS number, k, count(*) AS returned FROM came GROUP BY number, k)` + duckPeriods},
}

var duckSegments = []form{
	{"time as a date", "SELECT time::DATE, «group», count(*) FROM «table» WHERE «there» GROUP BY time::DATE, «group» ORDER BY 1, 3 DESC, 2 NULLS FIRST"},
	{"day by integer division", "SELECT make_date(day::INTEGER), «group», n FROM (SELECT «ms» // «day» AS day, «group», count(*) AS n FROM «table» WHERE «there» GROUP BY day, «group») ORDER BY 1, 3 DESC, 2 NULLS FIRST"},
}

// inOrder lets ClickHouse aggregate users one by one, since the table is sorted by user.
const inOrder = " SETTINGS optimize_aggregation_in_order = 1"

const houseFunnel = `
SELECT countIf(level >= 1), countIf(level >= 2), countIf(level >= 3)
FROM (SELECT user, windowFunnel(«window»)(toUInt64(«ms»), event = «step 1», event = «step 2», event = «step 3») AS level FROM «table» WHERE «steps» GROUP BY user)`

var houseFunnels = []form{
	{"windowFunnel", houseFunnel},
	{"windowFunnel in order of users", houseFunnel + inOrder},
	{"windowFunnel of all events", strings.Replace(houseFunnel, "WHERE «steps»", "", 1)},
	{"windowFunnel of all events in order of users", strings.Replace(houseFunnel, "WHERE «steps»", "", 1) + inOrder},
	{"windowFunnel of users of the second step", `
SELECT (SELECT uniqExact(user) FROM «table» WHERE event = «step 1»), countIf(level >= 2), countIf(level >= 3)
FROM (
    SELECT user, windowFunnel(«window»)(toUInt64(«ms»), event = «step 1», event = «step 2», event = «step 3») AS level
    FROM «table» WHERE «steps» AND user IN (SELECT user FROM «table» WHERE event = «step 2») GROUP BY user)`},
}

var houseGroups = []form{
	{"cumulative minima", `
SELECT grouping(value) AS total, value, count() AS step_1, countIf(best.1 <= 1), countIf(best.1 = 0)
FROM (
    SELECT best, best.3 AS value
    FROM (
        SELECT min((multiIf(ifNull(c - t <= «window», false), 0, ifNull(b - t <= «window», false), 1, 2), t, value)) AS best
        FROM (
            SELECT user, event, value, t, min(if(event = «step 2», t, NULL)) OVER later AS b, min(if(event = «step 2», third, NULL)) OVER later AS c
            FROM (
                SELECT user, event, toString(ifNull(«group», '')) AS value, «ms» AS t, min(if(event = «step 3», «ms», NULL)) OVER (PARTITION BY user ORDER BY «ms» DESC) AS third
                FROM «table» WHERE «steps»)
            WINDOW later AS (PARTITION BY user ORDER BY t DESC))
        WHERE event = «step 1» GROUP BY user))
GROUP BY GROUPING SETS ((), (value)) ORDER BY total DESC, step_1 DESC, value LIMIT 1001`},
}

const houseJoin = `
WITH starts AS (SELECT user, min(«ms») AS began FROM «table» WHERE «start» GROUP BY user),
sizes AS (SELECT intDiv(intDiv(began, «day») + 3, 7) AS number, count() AS size FROM starts GROUP BY number),
came AS (
    SELECT user, any(began) AS first, groupBitOr(bitShiftLeft(toUInt64(1), intDiv(«ms» - began, «window»))) AS bits
    FROM «table» JOIN starts USING (user)
    WHERE «return» AND «ms» >= began AND «ms» - began < «span» GROUP BY user),
back AS (
    SELECT intDiv(intDiv(first, «day») + 3, 7) AS number, k, countIf(bitTest(bits, k)) AS returned
    FROM came CROSS JOIN (SELECT number AS k FROM numbers(8)) AS p GROUP BY number, k)
SELECT toDate(number * 7 - 3) AS cohort, size, k, returned
FROM sizes CROSS JOIN (SELECT number AS k FROM numbers(8)) AS p LEFT JOIN back USING (number, k) ORDER BY cohort, k`

const houseArrays = `
SELECT cohort, size, k, counts[k + 1]
FROM (
    SELECT toDate(intDiv(intDiv(began, «day») + 3, 7) * 7 - 3) AS cohort, count() AS size, sumForEach(arrayMap(k -> toUInt64(has(periods, k)), range(8))) AS counts
    FROM (
        SELECT began, arrayDistinct(arrayMap(x -> intDiv(x - began, «window»), arrayFilter(x -> x >= began AND x - began < «span», times))) AS periods
        FROM (
            SELECT minIf(«ms», «start») AS began, groupArrayIf(«ms», «return») AS times
            FROM «table» WHERE («start») OR («return») GROUP BY user HAVING countIf(«start») > 0))
    GROUP BY cohort) ARRAY JOIN range(8) AS k
ORDER BY cohort, k`

var houseRetentions = []form{
	{"join, a bit for each period", houseJoin},
	{"arrays", houseArrays},
	{"arrays in order of users", houseArrays + inOrder},
}

var houseSegments = []form{
	{"toDate", "SELECT toDate(time) AS day, «group», count() AS n FROM «table» WHERE «there» GROUP BY day, «group» ORDER BY day, n DESC, «group» NULLS FIRST"},
	{"day by intDiv", "SELECT toDate(day), «group», n FROM (SELECT intDiv(«ms», «day») AS day, «group», count() AS n FROM «table» WHERE «there» GROUP BY day, «group») ORDER BY day, n DESC, «group» NULLS FIRST"},
	{"day by intDiv in 16 bits", "SELECT toDate(day), «group», n FROM (SELECT toUInt16(intDiv(«ms», «day»)) AS day, «group», count() AS n FROM «table» WHERE «there» GROUP BY day, «group») ORDER BY day, n DESC, «group» NULLS FIRST"},
}
