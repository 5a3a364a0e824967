package tabular

import (
	"io"
	"math"

	"github.com/parquet-go/parquet-go/format"

	"github.com/uniflow-labs/uniflow/internal/records/parquet"
	"github.com/uniflow-labs/uniflow/trail/event"
)

// A column makes values of one column of a Parquet file.
type column struct {
	target
	name string
	role int // colUser …, or roles + index of the property
	in   *parquet.Column

	stored  *parquet.Values  // the dictionary that the next ones are of
	dict    []event.Value    // what it says
	dictBad map[uint32]error // entries that cannot be a value of the type
	terms   []string         // of dict, if strings are wanted as codes
	coded   bool             // they are
	empty   bool             // terms has an empty one

	scratch      []event.Value
	scratchCodes []uint32
	errs         []valueError // of the batch
}

// A valueError is a value that cannot be taken.
type valueError struct {
	row int // of the batch
	err error
}

// grown returns a slice of n elements, s if it is large enough.
func grown[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}

// read reads the next n rows into dst[0], dst[stride] and so on. If strings are wanted
// as codes, it sets the same places of codes: to 0, or to the place in terms, from 1
// on, instead of the value.
func (c *column) read(dst []event.Value, codes []uint32, stride, n int) error {
	c.errs = c.errs[:0]
	for row := 0; row < n; {
		run, err := c.in.Next(n - row)
		if err == io.EOF {
			return io.ErrUnexpectedEOF // not before the rows of the group were read
		} else if err != nil {
			return err
		}
		var to []uint32
		if c.coded {
			to = codes[row*stride:]
		}
		c.run(&run, dst[row*stride:], to, stride, row)
		row += run.N
	}
	return nil
}

// run makes the rows of a run; the first is row base of the batch.
func (c *column) run(run *parquet.Run, dst []event.Value, codes []uint32, stride, base int) {
	if run.Present == run.N {
		c.values(run, dst, codes, stride, base)
		return
	}
	c.scratch = grown(c.scratch, run.Present)
	var scratch []uint32
	if codes != nil {
		c.scratchCodes = grown(c.scratchCodes, run.Present)
		scratch = c.scratchCodes
	}
	fails := len(c.errs)
	c.values(run, c.scratch, scratch, 1, 0)
	k := 0
	for i, l := range run.Defs {
		if int(l) != c.in.MaxDef {
			dst[i*stride] = event.Value{}
			if codes != nil {
				codes[i*stride] = 0
			}
			continue
		}
		if codes != nil {
			codes[i*stride] = scratch[k]
		}
		if fails < len(c.errs) && c.errs[fails].row == k {
			c.errs[fails].row = base + i
			fails++
		}
		dst[i*stride] = c.scratch[k]
		k++
	}
}

// values makes the values of a run.
func (c *column) values(run *parquet.Run, dst []event.Value, codes []uint32, stride, base int) {
	if run.Codes == nil {
		if codes != nil {
			for i := range run.Present {
				codes[i*stride] = 0
			}
		}
		c.convert(&run.Values, run.Present, dst, stride, base)
		return
	}
	if run.Dict != c.stored {
		c.dictionary(run.Dict)
	}
	if codes == nil {
		for i, code := range run.Codes {
			dst[i*stride] = c.dict[code]
		}
	} else {
		for i, code := range run.Codes {
			codes[i*stride] = code + 1
		}
		if c.empty {
			for i, code := range run.Codes {
				if c.terms[code] == "" {
					codes[i*stride], dst[i*stride] = 0, event.Value{}
				}
			}
		}
	}
	if len(c.dictBad) > 0 {
		for i, code := range run.Codes {
			if err := c.dictBad[code]; err != nil {
				c.errs = append(c.errs, valueError{base + i, err})
			}
		}
	}
}

func (c *column) dictionary(stored *parquet.Values) {
	n := stored.Len()
	c.stored, c.dict, c.dictBad, c.terms = stored, make([]event.Value, n), nil, nil
	fails := len(c.errs)
	c.convert(stored, n, c.dict, 1, 0)
	for _, f := range c.errs[fails:] {
		if c.dictBad == nil {
			c.dictBad = make(map[uint32]error)
		}
		c.dictBad[uint32(f.row)] = f.err
	}
	c.errs = c.errs[:fails]
	if c.coded {
		c.terms = make([]string, n)
		c.empty = false
		for i := range c.terms {
			c.terms[i] = c.dict[i].Text()
			c.empty = c.empty || c.terms[i] == ""
		}
	}
}

// convert makes values of n stored ones.
func (c *column) convert(stored *parquet.Values, n int, dst []event.Value, stride, base int) {
	if c.Physical == format.Int64 && c.Meaning == parquet.Plain && c.typ == event.Int && !c.time {
		for i, v := range stored.Ints[:n] {
			dst[i*stride] = event.IntOf(v)
			if v == math.MinInt64 {
				dst[i*stride] = event.Value{}
				c.errs = append(c.errs, valueError{base + i, errLeast})
			}
		}
		return
	}
	for i := range n {
		v, err := c.of(stored, i)
		dst[i*stride] = v
		if err != nil {
			c.errs = append(c.errs, valueError{base + i, err})
		}
	}
}
