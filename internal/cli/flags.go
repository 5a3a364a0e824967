package cli

import (
	"errors"
	"math"

	"github.com/uniflow-labs/uniflow/internal/ground/show"
)

// A size is a flag of a number of bytes, above 0.
type size int64

func (s *size) String() string { return show.Size(float64(*s)) }

// Set reads a size.
func (s *size) Set(text string) error {
	n, ok := show.ParseSize(text)
	if !ok || n < 1 || n != math.Trunc(n) || n > 1<<53 {
		return errors.New("must be a number of bytes above 0, such as 65536, 64KiB or 8MiB")
	}
	*s = size(n)
	return nil
}

// Type is the placeholder in the help.
func (*size) Type() string { return "SIZE" }
