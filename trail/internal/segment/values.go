package segment

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"math/bits"
	"slices"
	"sort"

	"github.com/uniflow-labs/uniflow/trail/event"
)

// maxValues is the largest number of values in a dictionary of numbers.
const maxValues = 1<<16 - 1

// errText is the error of a column whose strings do not fit into a segment.
var errText = errors.New("the strings of a column take more than 4 GiB")

func missingIn[T number](values []T, none T) int {
	n := 0
	for _, v := range values {
		if v == none {
			n++
		}
	}
	return n
}

// codeInts gives integers codes by their place in the range that they span. It
// returns nil if the range is too large.
func codeInts(m *meta, values []uint64) []uint32 {
	none := RawMissing(event.Int)
	low, top := int64(math.MaxInt64), int64(math.MinInt64)
	for _, v := range values {
		if v != none {
			low, top = min(low, int64(v)), max(top, int64(v))
		}
	}
	span := uint64(top - low) // correct even if the difference overflows
	if span > maxCodes-2 {
		return nil
	}
	m.dict, m.min, m.codes = dictRange, low, int(span)+2
	codes := make([]uint32, len(values))
	for i, v := range values {
		if v != none {
			codes[i] = uint32(int64(v)-low) + 1
		}
	}
	return codes
}

// tighten reduces the range of a dictionary to the range of codes. At least one row
// must have a value.
func (m *meta) tighten(codes []uint32) {
	low, top := uint32(math.MaxUint32), uint32(0)
	for _, c := range codes {
		if c != 0 {
			low, top = min(low, c), max(top, c)
		}
	}
	m.codes = int(top-low) + 2
	if low == 1 {
		return
	}
	m.min += int64(low - 1)
	for i, c := range codes {
		if c != 0 {
			codes[i] = c - (low - 1)
		}
	}
}

// replace makes a dictionary of values in place of a range if they are few for it. It returns the values, nil if it made none.
func (m *meta) replace(codes []uint32) (terms []uint64) {
	if m.dict != dictRange || m.codes < 1<<16 {
		return nil
	}
	few := distinct(codes, 0, min((len(codes)-m.missing)/8, m.codes>>8))
	if few == nil {
		return nil
	}
	slices.Sort(few)
	code := placesOf(few)
	last, to := uint32(0), uint32(0)
	for i, c := range codes {
		if c != last {
			last, to = c, code[c]
		}
		codes[i] = to
	}
	for _, c := range few {
		value := m.min + int64(c) - 1
		if m.typ == event.Float {
			terms = append(terms, math.Float64bits(float64(value)/power(m.scale)+0))
		} else {
			terms = append(terms, uint64(value))
		}
	}
	m.dict, m.codes, m.min, m.scale = dictValues, len(terms)+1, 0, 0
	return terms
}

func compareInts(a, b uint64) int { return cmp.Compare(int64(a), int64(b)) }

func compareFloats(a, b uint64) int {
	return cmp.Compare(math.Float64frombits(a), math.Float64frombits(b))
}

// distinct returns the different values except none. It returns nil if they are more
// than limit or than a dictionary can have.
func distinct[T number](values []T, none T, limit int) []T {
	limit = min(limit, maxValues)
	seen := make(map[T]struct{})
	last := none
	for _, v := range values {
		if v == last || v == none {
			continue
		}
		last = v
		if seen[v] = struct{}{}; len(seen) > limit {
			return nil
		}
	}
	return slices.Collect(maps.Keys(seen))
}

func placesOf[T number](sorted []T) map[T]uint32 {
	places := make(map[T]uint32, len(sorted))
	for i, v := range sorted {
		places[v] = uint32(i) + 1
	}
	return places
}

// codeValues gives values a dictionary if each comes eight times on average.
func codeValues(m *meta, values []uint64, compare func(a, b uint64) int) (codes []uint32, terms []uint64) {
	none := RawMissing(m.typ)
	terms = distinct(values, none, (len(values)-m.missing)/8)
	if terms == nil {
		return nil, nil
	}
	slices.SortFunc(terms, compare)
	m.dict, m.codes = dictValues, len(terms)+1
	code := placesOf(terms) // none is not in it: its code is 0
	codes = make([]uint32, len(values))
	last, to := none, uint32(0)
	for i, v := range values {
		if v != last {
			last, to = v, code[v]
		}
		codes[i] = to
	}
	return codes, terms
}

// codeFloats gives numbers codes if they are decimals with up to six digits after
// the point: as integers of the last digit. It returns nil if they are not.
func codeFloats(m *meta, values []uint64) []uint32 {
	none := RawMissing(event.Float)
	scale, low, top, ok := decimals(values, none)
	if !ok {
		return nil
	}
	m.dict, m.scale, m.min, m.codes = dictRange, scale, low, int(top-low)+2
	by := power(scale)
	codes := make([]uint32, len(values))
	for i, v := range values {
		if v != none {
			codes[i] = uint32(int64(math.Round(math.Float64frombits(v)*by))-low) + 1
		}
	}
	return codes
}

// decimals returns the smallest scale in which all numbers are integers, and the range
// of these. It is not ok without such a scale, or if the range is too large for codes.
func decimals(values []uint64, none uint64) (scale int, low, top int64, ok bool) {
	low, top = math.MaxInt64, math.MinInt64
	by := power(scale)
	for i := 0; i < len(values); i++ {
		v := values[i]
		if v == none {
			continue
		}
		f := math.Float64frombits(v)
		scaled := math.Round(f * by)
		if math.Abs(scaled) > 1<<53 {
			return 0, 0, 0, false
		}
		if math.Float64bits(scaled/by+0) != v {
			if scale++; scale > maxScale {
				return 0, 0, 0, false
			}
			by = power(scale)
			low, top, i = math.MaxInt64, math.MinInt64, -1
			continue
		}
		low, top = min(low, int64(scaled)), max(top, int64(scaled))
	}
	return scale, low, top, top-low <= maxCodes-2
}

// writeText writes a dictionary of sorted strings.
func writeText(o *output, m *meta, terms []string) error {
	offsets := make([]uint32, 1, len(terms)+1) // where each ends
	total := int64(0)
	for _, t := range terms {
		if total += int64(len(t)); total > math.MaxUint32 {
			return errText
		}
		offsets = append(offsets, uint32(total))
	}
	m.dict, m.ends = dictPackedText, bits.Len64(uint64(total))
	m.terms = pack(o, offsets, int64(m.ends))
	off := o.begin()
	fill := 0
	for _, t := range terms {
		if fill+len(t) > len(o.buf) {
			o.bytes(o.buf[:fill])
			fill = 0
		}
		if len(t) > len(o.buf) {
			o.bytes([]byte(t))
			continue
		}
		fill += copy(o.buf[fill:], t)
	}
	o.bytes(o.buf[:fill])
	m.text = o.since(off)
	return nil
}

// sortTerms returns strings in order, and for each place in terms the code.
func sortTerms(terms []string) (sorted []string, codes []uint32) {
	order := make([]uint32, len(terms))
	for i := range order {
		order[i] = uint32(i)
	}
	sort.Slice(order, func(i, j int) bool { return terms[order[i]] < terms[order[j]] })
	sorted = make([]string, len(terms))
	codes = make([]uint32, len(terms))
	for i, t := range order {
		sorted[i] = terms[t]
		codes[t] = uint32(i) + 1
	}
	return sorted, codes
}
