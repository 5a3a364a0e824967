// Package profiles reads profiles of the CPU, of memory and of locks.
package profiles

import (
	"fmt"
	"os"

	"github.com/google/pprof/profile"
)

// Read reads a profile from a file.
func Read(file string) (*profile.Profile, error) {
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
