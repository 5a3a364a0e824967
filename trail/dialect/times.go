package dialect

import (
	"fmt"
	"strconv"
	"time"

	"github.com/uniflow-labs/uniflow/trail/query"
)

// The times that DateTime64 of ClickHouse holds: the years 1900 to 2299.
const (
	clickhouseMin int64 = -2208988800000
	clickhouseMax int64 = 10413791999999
)

// moment returns milliseconds since 1970 as a literal.
func (c *compiler) moment(millis int64) string {
	if c.dialect == DuckDB {
		return "TIMESTAMP '" + time.UnixMilli(millis).UTC().Format("2006-01-02 15:04:05.999") + "'"
	}
	millis = min(max(millis, clickhouseMin), clickhouseMax)
	return "toDateTime64('" + time.UnixMilli(millis).UTC().Format("2006-01-02 15:04:05.000") + "', 3, 'UTC')"
}

// bounds returns the condition that an event is inside of bounds.
func (c *compiler) bounds(b query.Bounds) cond {
	from, to := always, always
	if b.HasFrom && (c.dialect == DuckDB || b.From > clickhouseMin) {
		from = is("time >= " + c.moment(b.From))
		if c.dialect == ClickHouse && b.From > clickhouseMax {
			from = never
		}
	}
	if b.HasTo && (c.dialect == DuckDB || b.To <= clickhouseMax) {
		to = is("time < " + c.moment(b.To))
		if c.dialect == ClickHouse && b.To <= clickhouseMin {
			to = never
		}
	}
	return all(from, to)
}

// share returns the share of users that the query reads.
func (c *compiler) share() float64 { return share(c.query) }

func share(q *query.Query) float64 {
	if q.Sample <= 0 || q.Sample >= 1 {
		return 1
	}
	return q.Sample
}

// sample returns the condition that a user is in the sample.
func (c *compiler) sample() cond {
	if c.share() == 1 {
		return always
	}
	percent := strconv.FormatFloat(c.share()*100, 'g', 6, 64)
	limit := strconv.FormatUint(uint64(c.share()*(1<<63)*2), 10)
	if c.dialect == DuckDB {
		c.note("About " + percent + " % of the users; DuckDB has a hash of its own, so they are others than trail takes.")
		return is("hash(user) <= " + limit)
	}
	c.note("About " + percent + " % of the users, by the hash that trail has too; samples of other programs differ.")
	return is("xxHash64(user) <= " + limit)
}

// millis returns the time of an event as milliseconds since 1970.
func (c *compiler) millis(column string) string {
	return c.pick("toUnixTimestamp64Milli("+column+")", "epoch_ms("+column+")")
}

// interval returns a length of time in SQL of DuckDB.
func interval(millis int64) string {
	for _, unit := range []struct {
		name   string
		millis int64
	}{{"DAY", 86400_000}, {"HOUR", 3600_000}, {"MINUTE", 60_000}, {"SECOND", 1000}} {
		if n := millis / unit.millis; millis%unit.millis == 0 && n <= 1<<30 {
			return fmt.Sprintf("INTERVAL %d %s", n, unit.name)
		}
	}
	return fmt.Sprintf("to_milliseconds(%d)", millis)
}

// local returns a time of the table as the clock of a zone shows it.
func (c *compiler) local(column string, zone *time.Location) string {
	switch {
	case zone == nil, zone.String() == "UTC":
		return column
	case zone.String() == "Local":
		c.unsupported("a time zone without a name")
	case c.dialect == DuckDB:
		return "timezone(" + c.text(zone.String()) + ", timezone('UTC', " + column + "))"
	}
	return "toTimeZone(" + column + ", " + c.text(zone.String()) + ")"
}

// date returns the first day of the day, week or month that a time is in. It is an
// expression that a comparison may follow.
func (c *compiler) date(column string, unit query.Unit, zone *time.Location) string {
	local := c.local(column, zone)
	if c.dialect == DuckDB {
		switch unit {
		case query.Day:
			return local + "::DATE" // a quarter less time than date_trunc
		case query.WeekSunday:
			return "(date_trunc('week', " + local + "::DATE + 1)::DATE - 1)"
		}
		return "date_trunc('" + unit.String() + "', " + local + ")::DATE"
	}
	switch unit {
	case query.Week:
		return "toMonday(" + local + ")"
	case query.WeekSunday:
		return "toStartOfWeek(" + local + ", 0)"
	case query.Month:
		return "toStartOfMonth(" + local + ")"
	}
	return "toDate32(" + local + ")"
}

// extended makes dates of ClickHouse reach before 1970 and past 2149.
const extended = "enable_extended_results_for_datetime_functions = 1"

// ordinal returns the number of the unit of the calendar that a time is in; the
// one after it has the next number.
func (c *compiler) ordinal(column string, unit query.Unit, zone *time.Location) string {
	switch unit {
	case query.Month:
		local := c.local(column, zone)
		return c.pick("(toYear("+local+") * 12 + toMonth("+local+"))", "(year("+local+") * 12 + month("+local+"))")
	case query.Day, query.Week, query.WeekSunday:
		day := c.pick("toInt32("+c.date(column, query.Day, zone)+")", "("+c.date(column, query.Day, zone)+" - DATE '1970-01-01')")
		if unit == query.Day {
			return day
		}
		// Counted from a Monday or a Sunday before all times: whole numbers round
		// towards zero.
		shift := 719169
		if unit == query.WeekSunday {
			shift = 719170
		}
		return c.pick(fmt.Sprintf("intDiv(%s + %d, 7)", day, shift), fmt.Sprintf("((%s + %d) // 7)", day, shift))
	}
	length := clockMillis(unit)
	millis := c.millis(column)
	if shift := c.zoneShift(unit, zone); shift != 0 {
		millis += " + " + strconv.FormatInt(shift, 10)
	}
	if c.dialect == DuckDB {
		// Whole numbers round towards zero.
		return "floor((" + millis + ") / " + strconv.FormatInt(length, 10) + ")::BIGINT"
	}
	return "toInt64(floor((" + millis + ") / " + strconv.FormatInt(length, 10) + "))"
}

// zoneShift returns by how many milliseconds full hours or minutes of a zone differ
// from UTC.
func (c *compiler) zoneShift(unit query.Unit, zone *time.Location) int64 {
	if zone == nil || zone == time.UTC {
		return 0
	}
	// An hour of a clock change is still a full hour; where a zone has moved by
	// less, there is no such sum.
	length := clockMillis(unit)
	var shift int64
	for i, year := range [...]int{2040, 2030, 2025, 2020, 2010, 2000} {
		for month := time.January; month <= time.December; month++ {
			_, offset := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC).In(zone).Zone()
			at := ((int64(offset)*1000)%length + length) % length
			if i == 0 && month == time.January {
				shift = at
			} else if at != shift {
				c.unsupported("hours of the time zone %s, whose clock has changed by less than one,", zone)
				return 0
			}
		}
	}
	return shift
}

func clockMillis(unit query.Unit) int64 {
	if unit == query.Minute {
		return time.Minute.Milliseconds()
	}
	return time.Hour.Milliseconds()
}
