package program

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// ReadProfile reads a profile from a file.
func ReadProfile(file string) (*profile.Profile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	p, err := profile.Parse(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

// Stack returns the functions on the stack of a sample, innermost first, with
// inlined ones.
func Stack(s *profile.Sample) []string {
	var stack []string
	for _, loc := range s.Location {
		for _, line := range loc.Line {
			if line.Function != nil {
				stack = append(stack, line.Function.Name)
			}
		}
	}
	return stack
}

// ProfileShare returns the share of samples with a function of part on the stack, of those
// with a function of whole, or of all if whole is nil. Functions are given by the
// beginnings of their names; value is the index of what is added up.
func ProfileShare(p *profile.Profile, value int, whole, part []string) (share float64, all int64) {
	var counted int64
	for _, s := range p.Sample {
		stack := Stack(s)
		if whole != nil && !begins(stack, whole) {
			continue
		}
		all += s.Value[value]
		if begins(stack, part) {
			counted += s.Value[value]
		}
	}
	return float64(counted) / float64(max(all, 1)), all
}

// begins reports whether the name of a function on the stack begins with a prefix.
func begins(stack, prefixes []string) bool {
	return slices.ContainsFunc(stack, func(function string) bool {
		return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
	})
}
