package segment

import (
	"fmt"
	"math"
	"slices"
	"sort"
)

// A HashRange is a part of the hashes of users: the hashes whose upper Bits bits are Index.
// The zero HashRange has all hashes.
type HashRange struct {
	Bits  int    `json:"bits"`
	Index uint64 `json:"index"`
}

// Bounds returns the least and the greatest hash.
func (r HashRange) Bounds() (low, top uint64) {
	if r.Bits == 0 {
		return 0, math.MaxUint64
	}
	low = r.Index << (64 - r.Bits)
	return low, low | math.MaxUint64>>r.Bits
}

// Has reports whether a hash is in the range.
func (r HashRange) Has(hash uint64) bool {
	low, top := r.Bounds()
	return low <= hash && hash <= top
}

// Overlaps reports whether two ranges have hashes in common: then one contains the
// other.
func (r HashRange) Overlaps(other HashRange) bool {
	low, _ := r.Bounds()
	otherLow, _ := other.Bounds()
	return r.Has(otherLow) || other.Has(low)
}

// Part returns one of 1<<bits equal parts.
func (r HashRange) Part(bits int, index uint64) HashRange {
	return HashRange{r.Bits + bits, r.Index<<bits | index}
}

// A rowRef is a row or a user of an input.
type rowRef struct{ input, row uint32 }

// A rowRange is rows of one input that follow each other in the output, too.
type rowRange struct{ input, lo, n uint32 }

// A plan records where each user and each row of a merged segment comes from. Each
// input is read in the order of its rows.
type plan struct {
	inputs   []Input
	times    []timesWindow // of the inputs
	ranges   []Range       // of the inputs: what is not left out
	userOf   []rowRef
	rowStart []uint32
	spans    []rowRange
	rows     int
	dropped  int64

	minTime, maxTime int64
}

// newPlan checks the user indexes, the times and the ids of the inputs and merges
// them.
func newPlan(inputs []Input) (*plan, error) {
	p := &plan{inputs: inputs, times: make([]timesWindow, len(inputs)), minTime: math.MaxInt64, maxTime: math.MinInt64}
	users, total := 0, int64(0)
	rows := int64(0)
	for i, in := range inputs {
		s := in.Segment
		p.times[i].t = &s.times
		if _, _, err := s.Range(0, math.MaxUint64); err != nil {
			return nil, err
		}
		r, _, err := s.Range(in.Hashes.Bounds())
		if err != nil {
			return nil, err
		}
		p.ranges = append(p.ranges, r)
		if err := s.checkOrder(); err != nil {
			return nil, err
		}
		if err := s.check(s.ids.data, nameIDs); err != nil {
			return nil, err
		}
		if _, err := s.times.Prepare(0, s.rows); err != nil {
			return nil, err
		}
		if c := s.eventIDs; c != nil {
			if _, err := c.Prepare(0, s.rows); err != nil {
				return nil, err
			}
		}
		users = max(users, r.UserHi-r.UserLo)
		rows += int64(r.RowHi - r.RowLo)
		total += int64(s.rows)
	}
	if rows > MaxRows {
		return nil, fmt.Errorf("segment: %d rows to merge, at most %d fit", rows, MaxRows)
	}
	p.userOf = make([]rowRef, 0, users)
	p.rowStart = append(make([]uint32, 0, users+1), 0)
	if err := p.users(); err != nil {
		return nil, err
	}
	p.dropped = total - int64(p.rows)
	return p, nil
}

// checkOrder checks that the row index ascends, on which the plan relies.
func (s *Segment) checkOrder() error {
	last := 0
	for i := range s.users + 1 {
		start := s.FirstRow(i)
		if start < last || i == 0 && start != 0 || start > s.rows {
			return s.damage(nameUsers, s.starts.at, "rows of users are out of order")
		}
		last = start
	}
	if last != s.rows {
		return s.damage(nameUsers, s.starts.at, "rows without a user")
	}
	return nil
}

// A head is the next user of an input.
type head struct {
	hash  uint64
	input uint32
	user  uint32
}

// users merges the users. Users with one hash mostly are one user, of several inputs.
func (p *plan) users() error {
	less := func(a, b head) bool { return a.hash < b.hash || a.hash == b.hash && a.input < b.input }
	var heads heap[head]
	for i, in := range p.inputs {
		if r := p.ranges[i]; r.UserLo < r.UserHi {
			heads.push(head{in.Segment.hashes[r.UserLo], uint32(i), uint32(r.UserLo)}, less)
		}
	}
	dropped := make([]int, len(p.inputs)) // how far Dropped was read
	var same []head
	for len(heads) > 0 {
		h := heads[0]
		same = same[:0]
		for len(heads) > 0 && heads[0].hash == h.hash {
			next := heads[0]
			in := &p.inputs[next.input]
			at := &dropped[next.input]
			for *at < len(in.Dropped) && in.Dropped[*at] < h.hash {
				*at++
			}
			if *at == len(in.Dropped) || in.Dropped[*at] != h.hash {
				same = append(same, next)
			}
			if next.user++; int(next.user) < p.ranges[next.input].UserHi {
				next.hash = in.Segment.hashes[next.user]
				if next.hash < h.hash {
					return in.Segment.damage(nameUsers, in.Segment.hashAt, "users are out of order")
				}
				heads[0] = next
				heads.down(0, less)
			} else {
				heads.pop(less)
			}
		}
		if err := p.sameHash(same); err != nil {
			return err
		}
	}
	return nil
}

// sameHash merges users who share a hash. Nearly always they are one user.
func (p *plan) sameHash(same []head) error {
	var failed error
	compare := func(a, b head) int {
		n, err := compareIDs(p.inputs[a.input].Segment, int(a.user), p.inputs[b.input].Segment, int(b.user))
		if err != nil {
			failed = err
		}
		return n
	}
	for sorted := false; len(same) > 0 && failed == nil; {
		n := 1
		for n < len(same) && compare(same[0], same[n]) == 0 {
			n++
		}
		if n < len(same) && !sorted { // two users after all
			slices.SortStableFunc(same, compare)
			sorted = true
			continue
		}
		if failed == nil {
			failed = p.user(same[:n])
		}
		same = same[n:]
	}
	return failed
}

// A source has the rows of a user that an input has left.
type source struct {
	input  uint32
	lo, hi int
	time   int64
	id     uint64
	times  *timesWindow
	ids    *Column
}

// user merges the rows of one user, whom each of the heads is.
func (p *plan) user(parts []head) error {
	before := p.rows
	var few [8]source
	sources := few[:0]
	for _, h := range parts {
		s := p.inputs[h.input].Segment
		src := source{input: h.input, lo: s.FirstRow(int(h.user)), hi: s.FirstRow(int(h.user) + 1), times: &p.times[h.input], ids: s.eventIDs}
		if from := p.inputs[h.input].From; from > s.minTime {
			n := src.hi - src.lo
			src.lo += sort.Search(n, func(i int) bool { return src.times.millis(src.lo+i) >= from })
		}
		if src.lo < src.hi {
			sources = append(sources, src)
		}
	}
	switch len(sources) {
	case 0:
		return nil
	case 1:
		src := &sources[0]
		p.take(src.input, src.lo, src.hi-src.lo)
		p.time(src.times.millis(src.lo))
		p.time(src.times.millis(src.hi - 1))
	default:
		p.interleave(sources)
	}
	if p.rows > before {
		p.userOf = append(p.userOf, rowRef{parts[0].input, parts[0].user})
		p.rowStart = append(p.rowStart, uint32(p.rows))
	}
	return nil
}

func (p *plan) time(t int64) { p.minTime, p.maxTime = min(p.minTime, t), max(p.maxTime, t) }

func (p *plan) take(input uint32, lo, n int) {
	p.rows += n
	if last := len(p.spans) - 1; last >= 0 {
		if sp := &p.spans[last]; sp.input == input && int(sp.lo+sp.n) == lo {
			sp.n += uint32(n)
			return
		}
	}
	p.spans = append(p.spans, rowRange{input, uint32(lo), uint32(n)})
}

// interleave merges the rows of a user by time and id. Sources are few: a store has
// few runs of one time bucket.
func (p *plan) interleave(sources []source) {
	for i := range sources {
		sources[i].load()
	}
	var lastTime int64
	var lastID uint64
	for first := true; len(sources) > 0; first = false {
		least := 0
		for i := 1; i < len(sources); i++ {
			if a, b := &sources[i], &sources[least]; a.time < b.time || a.time == b.time && a.id < b.id {
				least = i
			}
		}
		src := &sources[least]
		if first || src.id == 0 || src.id != lastID || src.time != lastTime {
			p.take(src.input, src.lo, 1)
			p.time(src.time)
			lastTime, lastID = src.time, src.id
		}
		if src.lo++; src.lo < src.hi {
			src.load()
		} else {
			sources = append(sources[:least], sources[least+1:]...)
		}
	}
}

func (s *source) load() {
	s.time = s.times.millis(s.lo)
	if s.ids != nil {
		s.id = s.ids.rawAt(s.lo)
	}
}

func (c *Column) rawAt(row int) uint64 {
	if c.enc == encRaw {
		return c.data64[row]
	}
	if i := searchRow(c.places, row); i < len(c.places) && int(c.places[i]) == row {
		return c.data64[i]
	}
	return RawMissing(c.typ)
}

// userID adds the id of a user of the merged segment to dst.
func (p *plan) userID(dst []byte, ord int) ([]byte, error) {
	u := p.userOf[ord]
	s := p.inputs[u.input].Segment
	return s.ids.append(dst, s, int(u.row))
}

// prepared returns a column of each input, checked, nil for one without.
func (p *plan) prepared(column func(*Segment) *Column) ([]*Column, error) {
	columns := make([]*Column, len(p.inputs))
	for i, in := range p.inputs {
		c := column(in.Segment)
		if c == nil {
			continue
		}
		if _, err := c.Prepare(0, c.rows); err != nil {
			return nil, err
		}
		columns[i] = c
	}
	return columns, nil
}
