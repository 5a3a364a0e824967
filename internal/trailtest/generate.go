package trailtest

import (
	"iter"
	"math/bits"
	"strconv"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// A Generator makes rows of a large data set. It uses integers only, so the rows are the
// same each time and on every machine. Users come in order of their number, and the rows
// of a user in order of time.
type Generator interface {
	Schema() event.Schema
	// Rows yields the rows. A row and its values are valid until the next one.
	Rows() iter.Seq[*Row]
}

// A Row is an event with a value for each field of the schema.
type Row struct {
	User   string
	Time   int64 // milliseconds since 1970 UTC; whole seconds, except of Visits
	Name   string
	Values []event.Value
	Late   int64 // milliseconds from Time to when it arrives; of Skew alone
}

// Event returns the row as an event of its own, without missing properties.
func (r *Row) Event(schema event.Schema) event.Event {
	e := event.Event{User: r.User, Time: r.Time, Name: r.Name}
	for i, v := range r.Values {
		if !v.Missing() {
			e.Properties = append(e.Properties, event.Property{Name: schema[i].Name, Value: v})
		}
	}
	return e
}

// The time that generated events span: twelve weeks from a Monday.
const (
	firstSecond = 1767571200 // 2026-01-05T00:00:00Z
	spanWeeks   = 12
	spanSeconds = spanWeeks * 7 * 86400
)

// A source is splitmix64: the i-th number of a user depends only on the seed, the user
// and i.
type source struct{ state uint64 }

func newSource(seed, user uint64) source { return source{mix(mix(seed) ^ user*0x9e3779b97f4a7c15)} }

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (s *source) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	return mix(s.state)
}

// below returns a number from 0 to n-1.
func (s *source) below(n uint64) uint64 {
	hi, _ := bits.Mul64(s.next(), n)
	return hi
}

// perMille is true that many times out of a thousand.
func (s *source) perMille(n uint64) bool { return s.below(1000) < n }

// one is 1 in logarithms, which are fixed-point numbers: log2 of a number, times 65536.
const one = 1 << 16

// pow2Table has 2^(i/1024), times 2^62.
type pow2Table [1025]uint64

func newPow2Table() *pow2Table {
	const root = 0x400b18178ba33b14 // 2^(1/1024) times 2^62
	p := &pow2Table{1 << 62}
	for i := 1; i < len(p); i++ {
		hi, lo := bits.Mul64(p[i-1], root)
		p[i] = hi<<2 | lo>>62
	}
	return p
}

// exp2 returns 2^(x/65536), rounded down; x is from 0 to 48*65536.
func (p *pow2Table) exp2(x int64) int64 {
	k, fine := x%one>>6, uint64(x%64)
	low := p[k]
	v := low + (p[k+1]-low)>>6*fine
	return int64(v >> (62 - x/one))
}

// logUniform returns a number from 1 to 2^(x/65536)-1 in the manner of Zipf: each
// as likely as 1 by it.
func (p *pow2Table) logUniform(s *source, x int64) int64 {
	return p.exp2(int64(s.below(uint64(x))))
}

// logNormal returns a number whose logarithm is the sum of twelve uniform numbers,
// which is nearly normal: the median is 2^(median/65536), a deviation is
// times or by 2^(deviation/65536). It is at least 1.
func (p *pow2Table) logNormal(s *source, median, deviation int64) int64 {
	var z int64
	for range 3 {
		r := s.next()
		z += int64(r&0xffff + r>>16&0xffff + r>>32&0xffff + r>>48)
	}
	z -= 6 * one
	return p.exp2(min(max(median+z*deviation/one, 0), 40*one))
}

// A zipf picks one of a few things, the i-th as often as 1 by i+1.
type zipf [4096]uint8

func newZipf(n int) *zipf {
	total := 0
	for i := range n {
		total += 1 << 20 / (i + 1)
	}
	z := &zipf{}
	at, sum := 0, 0
	for i := range n {
		sum += 1 << 20 / (i + 1)
		for ; at < sum*len(z)/total; at++ {
			z[at] = uint8(i)
		}
	}
	return z
}

func (z *zipf) pick(s *source) int { return int(z[s.next()>>52]) }

// A calendar turns even positions into times of more and less busy hours.
type calendar struct {
	until [7 * 24]uint64 // weight of the hours up to this one, included
}

func newCalendar() *calendar {
	days := [7]uint64{100, 96, 97, 102, 115, 134, 122}
	hours := [24]uint64{30, 18, 12, 9, 9, 14, 28, 52, 74, 88, 96, 104, 118, 112, 102, 98, 100, 108, 124, 146, 160, 152, 112, 62}
	c := &calendar{}
	var sum uint64
	for h := range c.until {
		sum += days[h/24] * hours[h%24]
		c.until[h] = sum
	}
	return c
}

// second returns the second from the start of the span at a position, of 2^32. It
// rises with the position.
func (c *calendar) second(position uint64) int64 {
	p := position * spanWeeks
	week, x := p>>32, (p&0xffffffff)*c.until[len(c.until)-1]>>32
	low, high := 0, len(c.until)-1
	for low < high {
		if mid := (low + high) / 2; c.until[mid] > x {
			high = mid
		} else {
			low = mid + 1
		}
	}
	var before uint64
	if low > 0 {
		before = c.until[low-1]
	}
	return int64(week*7*86400 + uint64(low)*3600 + (x-before)*3600/(c.until[low]-before))
}

// A visitor goes through the sessions of a user: times rise, and one event in a
// hundred is at the time of the one before.
type visitor struct {
	source
	events   int // that are left
	session  int // events of this session that are left
	sessions uint64
	index    uint64 // of the session
	from     uint64 // position of the first session, of 2^32
	length   uint64 // of all, in positions
	second   int64  // from the start of the span
	fresh    bool   // this event begins a session
}

// newVisitor plans a user with a number of events and of events a session.
func newVisitor(s source, events, perSession int) visitor {
	v := visitor{source: s, events: events, sessions: uint64(events/perSession + 1)}
	// Many sessions need room: about an hour for each.
	need := min(v.sessions*3600<<32/spanSeconds, 1<<32-1<<22)
	v.from = v.below(1<<32 - need)
	v.length = need + v.below(1<<32-need-v.from)
	v.second = -3600
	return v
}

// step moves to the next event. It is false after the last one.
func (v *visitor) step() bool {
	if v.events == 0 {
		return false
	}
	v.events--
	if v.fresh = v.session == 0; !v.fresh {
		v.session--
		r := v.next()
		if r%100 != 0 {
			v.second += 1 + int64(r>>32&63) // seconds between events
		}
	}
	return true
}

// open begins a session at its time, at least half an hour after the last.
func (v *visitor) open(c *calendar, perSession int) {
	jitter := v.next() >> 40 // of 2^24
	position := v.from + (v.length*v.index+v.length*jitter>>24)/v.sessions
	v.second = max(v.second+1800, c.second(min(position, 1<<32-1)))
	v.index = min(v.index+1, v.sessions-1)
	v.session = int(v.below(uint64(2*perSession - 1)))
}

// millis returns the time of the event. What would be after the span is in its last
// second.
func (v *visitor) millis() int64 {
	return (firstSecond + min(v.second, spanSeconds-1)) * 1000
}

// numbered makes the id of a user.
func numbered(buffer []byte, prefix string, n uint64) string {
	return string(strconv.AppendUint(append(buffer[:0], prefix...), n, 10))
}

func stringValues(list ...string) []event.Value {
	values := make([]event.Value, len(list))
	for i, s := range list {
		values[i] = event.StringOf(s)
	}
	return values
}
