package exec

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/ground/spell"
	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// shardRows is about how many rows of all segments a shard has, so that what is
// computed of them stays in the cache of a core.
const shardRows = 1 << 16

// maxShards bounds the cost of finding the shards in the segments.
const maxShards = 1 << 14

// A matcher says which events are meant, for all segments.
type matcher struct {
	events []string   // any if empty
	where  *condition // nil passes all
	lo, hi int64      // times, hi exclusive
}

// A plan is what is decided before any row is read.
type plan struct {
	in       Input
	opt      Options
	matchers []matcher
	columns  []string     // properties that the kernel reads in addition to filters, or eventName
	types    []event.Type // of columns
	sources  []*source    // sources that may have a matching event, by time
	skipped  int          // sources that cannot
	overlap  bool         // the times of two sources overlap
	rows     int64        // of sources
	hashTo   uint64       // the last hash that is read
	share    float64      // of the users, up to hashTo
	shards   int
	width    int   // of masks in bits: 8 or 64
	through  int64 // the last time of all segments
	warnings []string
	held     *budget
	cost     stats // of planning
}

// A source is a segment with what the plan decided for it.
type source struct {
	seg         *segment.Segment
	dropped     []uint64
	events      *segment.Column
	times       *segment.Times
	table       []uint64 // by event code: the matchers that mean it
	live        uint64   // all matchers of table
	every       bool     // table gives the same mask for every event
	wheres      []filtered
	cut         []window // of matchers whose times do not hold the segment as a whole
	columns     []*segment.Column
	bucketIndex *bucketIndex // of a segmentation by time; may be nil
	numbers     *numberTable // of the column that a segmentation measures; may be nil
}

// A filtered is a filter of some matchers.
type filtered struct {
	mask uint64
	*selector
}

// A window is the times of some matchers.
type window struct {
	mask   uint64
	lo, hi int64
}

// A builder makes a plan for a query.
type builder struct {
	*plan
	unknown    map[string]bool // properties that it has warned about
	conditions map[string]*condition
	names      []string // of all events, once they were asked for
	err        error    // the first one of the matchers

	ranked *query.Answer // of a query for users, what it answers without them; nil if that does not matter

	// Of the current segment:
	selectors map[*condition]*selector
	opened    []*segment.Column
}

// open makes the dictionary of a column readable, and counts it once a segment.
func (b *builder) open(col *segment.Column) error {
	if slices.Contains(b.opened, col) {
		return nil
	}
	b.opened = append(b.opened, col)
	b.cost.bytes += col.DictionaryBytes()
	n, err := col.Prepare(0, 0)
	b.cost.bytes += n
	return err
}

func (b *builder) warn(format string, args ...any) {
	b.warnings = append(b.warnings, fmt.Sprintf(format, args...))
}

func (b *builder) unknownProperty(name string) {
	if b.unknown[name] {
		return
	}
	b.unknown[name] = true
	hint := ""
	switch name {
	case "event", "name":
		hint = "; events are chosen with event:, next to where:"
	case "user", "user_id":
		hint = "; users are not properties: keep a cohort of them, and test for that"
	case "time", "ts", "timestamp":
		hint = "; times are chosen with from: and to:"
	}
	if near, ok := spell.Nearest(name, b.in.Schema.Names()); ok && hint == "" {
		hint = fmt.Sprintf(", did you mean %q", near)
	}
	b.warn("no event has the property %q%s", name, hint)
}

// bounds returns the times of a query, as far as the store has kept them.
func (b *builder) bounds(q query.Bounds) (lo, hi int64) {
	lo, hi = b.in.Horizon, math.MaxInt64
	if q.HasFrom {
		lo = max(lo, q.From)
	}
	if q.HasTo {
		hi = q.To
	}
	return lo, hi
}

// match adds a matcher. The builder keeps the first error.
func (b *builder) match(m query.Match, lo, hi int64) {
	where, err := b.condition(m.Where)
	b.err = cmp.Or(b.err, err)
	b.matchers = append(b.matchers, matcher{m.Events, where, lo, hi})
}

// eventName stands for the names of the events among the columns of a plan.
const eventName = ""

// column adds a property to the columns of a view, and returns its place in them.
func (b *builder) column(property string) int {
	if property != eventName && b.in.Schema.Index(property) < 0 {
		b.unknownProperty(property)
	}
	if i := slices.Index(b.columns, property); i >= 0 {
		return i
	}
	b.columns = append(b.columns, property)
	b.types = append(b.types, b.in.Schema.Type(property))
	return len(b.columns) - 1
}

// newBuilder begins a plan without matchers.
func newBuilder(in Input, opt Options, share float64) *builder {
	if opt.Workers <= 0 {
		opt.Workers = runtime.GOMAXPROCS(0)
	}
	p := &plan{in: in, opt: opt, share: 1, hashTo: math.MaxUint64, through: math.MinInt64, held: newBudget(opt.Memory)}
	if share > 0 && share < 1 {
		p.share = share
		p.hashTo = uint64(share * (1 << 63) * 2)
		if p.hashTo > 0 {
			p.hashTo--
		}
	}
	return &builder{plan: p, unknown: make(map[string]bool), conditions: make(map[string]*condition)}
}

// finish plans every segment, drops segments without a matching event, and divides the
// users into shards.
func (b *builder) finish(ctx context.Context, k kernel) error {
	b.width = 8
	if len(b.matchers) > 8 {
		b.width = 64
	}
	if len(b.matchers) > 64 {
		return errorAt(query.Pos{}, "ask with fewer steps and exclusions", "a query of %d matches, 64 are the limit", len(b.matchers))
	}
	seen := make(map[string]bool)
	for _, s := range b.in.Sources {
		if ctx.Err() != nil { // an atomic load; Cause locks what all queries of one caller share
			return context.Cause(ctx)
		}
		if s.Segment.Rows() == 0 {
			continue
		}
		b.through = max(b.through, s.Segment.MaxTime())
		src, err := b.source(s, seen)
		if err != nil {
			return err
		}
		if src == nil {
			b.skipped++
			continue
		}
		b.sources = append(b.sources, src)
		b.rows += int64(src.seg.Rows())
	}
	for i := range b.matchers {
		for _, name := range b.matchers[i].events {
			if !seen[name] {
				seen[name] = true
				b.unknownEvent(name)
			}
		}
	}
	slices.SortFunc(b.sources, func(x, y *source) int { return cmp.Compare(x.seg.MinTime(), y.seg.MinTime()) })
	last := int64(math.MinInt64)
	for _, s := range b.sources {
		b.overlap = b.overlap || s.seg.MinTime() <= last
		last = max(last, s.seg.MaxTime())
	}
	b.shards = min(1<<bits.Len64(uint64(float64(b.rows)*b.share)/shardRows), maxShards)
	b.opt.Workers = min(b.opt.Workers, b.shards)
	return k.settle(b.plan)
}

func (b *builder) unknownEvent(name string) {
	if b.names == nil {
		b.names = b.eventNames()
	}
	if _, known := slices.BinarySearch(b.names, name); known {
		return // at other times
	}
	switch near, ok := spell.Nearest(name, b.names); {
	case ok:
		b.warn("no event is called %q, did you mean %q", name, near)
	case len(b.names) > 0 && len(b.names) <= 12:
		b.warn("no event is called %q; there are %s", name, strings.Join(b.names, ", "))
	default:
		b.warn("no event is called %q", name)
	}
}

// eventNames lists the names of events, not all if there are very many.
func (b *builder) eventNames() []string {
	const enough = 10_000
	seen := make(map[string]bool)
	for _, s := range b.in.Sources {
		events := s.Segment.Events()
		if _, err := events.Prepare(0, 0); err != nil || s.Segment.Rows() == 0 {
			continue // the segment is not needed for an answer of zeros
		}
		for c := 1; c < events.Codes() && len(seen) < enough; c++ {
			if name := events.Value(uint32(c)).Text(); !seen[name] {
				seen[strings.Clone(name)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// source plans a segment. It returns nil if no event of the segment can match. It
// keeps the names of the events in the segment.
func (b *builder) source(in Source, seen map[string]bool) (*source, error) {
	seg := in.Segment
	s := &source{seg: seg, dropped: in.Dropped, events: seg.Events(), times: seg.Times()}
	if !slices.ContainsFunc(b.matchers, func(m matcher) bool { return seg.MaxTime() >= m.lo && seg.MinTime() < m.hi }) {
		return nil, nil // it may even be damaged
	}
	b.selectors, b.opened = make(map[*condition]*selector), b.opened[:0]
	if err := b.open(s.events); err != nil {
		return nil, err
	}
	for i := range b.matchers {
		for _, name := range b.matchers[i].events {
			if !seen[name] {
				_, seen[name] = s.events.Search(event.StringOf(name))
			}
		}
	}
	s.table = meanings(b.matchers, s.events)
	first, last := seg.MinTime(), seg.MaxTime()
	var live uint64
	for k := range b.matchers {
		m := &b.matchers[k]
		bit := uint64(1) << k
		if !slices.ContainsFunc(s.table, func(t uint64) bool { return t&bit != 0 }) {
			continue
		}
		if last < m.lo || first >= m.hi {
			s.clear(bit)
			continue
		}
		if m.where != nil {
			sel, err := b.selector(m.where, seg)
			if err != nil {
				return nil, err
			}
			if same, ok := sel.constant(); !ok {
				s.filter(bit, sel)
			} else if !same {
				s.clear(bit)
				continue
			}
		}
		live |= bit
		if first < m.lo || last >= m.hi {
			s.narrow(bit, m.lo, m.hi)
		}
	}
	if live == 0 {
		return nil, nil
	}
	s.live, s.every = live, true
	for _, t := range s.table[1:] {
		s.every = s.every && t == s.table[1]
	}
	for _, name := range b.columns {
		col := seg.Column(name)
		if name == eventName {
			col = s.events
		}
		if col != nil {
			if err := b.open(col); err != nil {
				return nil, err
			}
		}
		s.columns = append(s.columns, col)
	}
	return s, nil
}

// clear takes a matcher out of the table.
func (s *source) clear(bit uint64) {
	for c := range s.table {
		s.table[c] &^= bit
	}
}

// filter notes the filter of a matcher.
func (s *source) filter(bit uint64, sel *selector) {
	for i := range s.wheres {
		if s.wheres[i].selector == sel {
			s.wheres[i].mask |= bit
			return
		}
	}
	s.wheres = append(s.wheres, filtered{bit, sel})
}

// narrow makes the times of a matcher be compared for each row.
func (s *source) narrow(bit uint64, lo, hi int64) {
	for i := range s.cut {
		if s.cut[i].lo == lo && s.cut[i].hi == hi {
			s.cut[i].mask |= bit
			return
		}
	}
	s.cut = append(s.cut, window{bit, lo, hi})
}

// spans returns the times of the sources between two times, hi excluded.
func (p *plan) spans(lo, hi int64) (spans []span) {
	for _, s := range p.sources {
		if first, last := max(s.seg.MinTime(), lo), min(s.seg.MaxTime(), hi-1); first <= last {
			spans = append(spans, span{first, last})
		}
	}
	return spans
}

// shard returns the hashes of a shard, both included.
func (p *plan) shard(i int) (from, to uint64) {
	width := p.hashTo / uint64(p.shards)
	from = uint64(i) * width
	if i > 0 {
		from++
	}
	to = uint64(i+1) * width
	if i == p.shards-1 {
		to = p.hashTo
	}
	return from, to
}

// users scales a count of users to the whole.
func (p *plan) users(n int64) query.Number { return query.ScaleCount(n, float64(n), p.share) }

func errorAt(pos query.Pos, hint, format string, args ...any) error {
	return &query.Error{Pos: pos, Msg: fmt.Sprintf(format, args...), Hint: hint}
}

// typeName is the name of a type with its article.
func typeName(t event.Type) string {
	if t == event.Int {
		return "an " + t.String()
	}
	return "a " + t.String()
}
