package vfs

import (
	"slices"
	"strconv"
	"strings"
)

// A Series is a naming scheme for numbered files, such as events-000001.ndjson.
// Each number has one name: a name with another count of digits, or with
// upper-case ones, is not of the series.
type Series struct {
	Prefix, Suffix string
	Base           int // of the number: 10 or 16
	Digits         int // at least; shorter numbers begin with zeros
}

// Name returns the name of a number.
func (s Series) Name(n uint64) string {
	digits := strconv.FormatUint(n, s.Base)
	return s.Prefix + strings.Repeat("0", max(0, s.Digits-len(digits))) + digits + s.Suffix
}

// Number returns the number in a name. It is not ok if the name does not belong to the
// series.
func (s Series) Number(name string) (n uint64, ok bool) {
	digits, ok := strings.CutPrefix(name, s.Prefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, s.Suffix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(digits, s.Base, 64)
	return n, err == nil && s.Name(n) == name
}

// Numbers returns the numbers in the names that belong to the series, sorted.
func (s Series) Numbers(names []string) []uint64 {
	var all []uint64
	for _, name := range names {
		if n, ok := s.Number(name); ok {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all
}
