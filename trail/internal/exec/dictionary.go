package exec

import (
	"strings"
	"unsafe"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// maxRemap is the most codes of a column for which a dictionary keeps a table by
// code; of more, every value is looked up.
const maxRemap = 1 << 18

// A dictionary gives values numbers: 0 for the missing one, then from 1 in order of
// appearance. Each worker has one, and the kernel one for all when they are joined.
// The codes of a segment are looked up when they are met, so that a column with many
// values costs only the values that are seen.
type dictionary struct {
	plan     *plan
	lexicons []*lexicon // by column; nil for columns that it numbers itself
	strings  map[string]int32
	others   map[other]int32
	values   []event.Value               // by number
	remaps   map[*segment.Column][]int32 // by code: number+1, 0 for not met yet
	held     int64                       // bytes of the budget
	owed     int64                       // bytes not yet taken from the budget
	err      error                       // of the budget; the first one stays
}

// An other is a value that is not a string.
type other struct {
	typ  event.Type
	bits uint64
}

func newDictionary(p *plan) *dictionary {
	return &dictionary{
		plan: p, values: []event.Value{{}},
		strings: make(map[string]int32), others: make(map[other]int32), remaps: make(map[*segment.Column][]int32),
	}
}

// close returns the memory of the dictionary to the budget. It must not be used after.
func (d *dictionary) close() {
	d.strings, d.others, d.values, d.remaps = nil, nil, nil, nil
	d.plan.held.give(d.held)
	d.held, d.owed = 0, 0
}

// open begins with the views of a shard.
func (d *dictionary) open(views []*view) {
	for _, v := range views {
		for i := range v.codes {
			c := &v.codes[i]
			if d.lexicons != nil && d.lexicons[i] != nil {
				c.remap = d.lexicons[i].ids[c.col]
				continue
			}
			if c.col == nil || c.col.Codes() == 0 || c.col.Codes() > min(maxRemap, max(256, c.col.Rows())) {
				continue
			}
			c.remap = d.remaps[c.col]
			if c.remap == nil {
				c.remap = make([]int32, c.col.Codes())
				d.remaps[c.col] = c.remap
				d.take(4 * int64(len(c.remap)))
			}
		}
	}
}

// id returns the number of the value that a column of a view has in a row.
func (d *dictionary) id(v *view, column, row int) int32 {
	c := &v.codes[column]
	switch {
	case c.col == nil:
		return 0
	case c.raw != nil:
		value, _ := rawValue(c.col.Type(), c.raw[row])
		return d.number(d.widen(column, value))
	}
	return d.code(c, column, c.at(row))
}

// code returns the number of the value of a code.
func (d *dictionary) code(c *codes, column int, code uint32) int32 {
	if c.remap == nil {
		return d.number(d.widen(column, c.col.Value(code)))
	}
	if id := c.remap[code]; id > 0 {
		return id - 1
	}
	id := d.number(d.widen(column, c.col.Value(code)))
	c.remap[code] = id + 1
	return id
}

// widen returns a value in the type that the schema gives its property. An older
// segment may have integers where the property has become a number.
func (d *dictionary) widen(column int, value event.Value) event.Value {
	wide, _ := value.As(d.plan.types[column])
	return wide
}

func (d *dictionary) number(value event.Value) int32 {
	if value.Missing() {
		return 0
	}
	const perEntry = 48 // of a map with room to grow
	id := int32(len(d.values))
	if value.Type() == event.String {
		if id, ok := d.strings[value.Text()]; ok {
			return id
		}
		text := strings.Clone(value.Text()) // value is in the map of a file, which may be unmapped
		value = event.StringOf(text)
		d.strings[text] = id
		d.take(int64(unsafe.Sizeof(value)) + perEntry + int64(len(text)))
	} else {
		key := other{value.Type(), value.Bits()}
		if id, ok := d.others[key]; ok {
			return id
		}
		d.others[key] = id
		d.take(int64(unsafe.Sizeof(value)) + perEntry)
	}
	d.values = append(d.values, value)
	return id
}

// value returns the value with a number, of a column without a lexicon.
func (d *dictionary) value(id int32) event.Value { return d.values[id] }

// valueOf returns the value with a number, of any column.
func (d *dictionary) valueOf(column int, id int32) event.Value {
	if d.lexicons != nil && d.lexicons[column] != nil {
		return d.lexicons[column].value(id)
	}
	return d.values[id]
}

// translate returns the number that another dictionary has for the value of a column;
// it is not ok if that has none, and must not get a new one.
func (d *dictionary) translate(column int, id int32, to *dictionary, add bool) (number int32, ok bool) {
	if d.lexicons != nil && d.lexicons[column] != nil {
		return id, true // they share it
	}
	value := d.values[id]
	if !add && !to.has(value) {
		return 0, false
	}
	return to.number(value), true
}

// has reports whether a value has a number.
func (d *dictionary) has(value event.Value) (ok bool) {
	switch {
	case value.Missing():
		return true
	case value.Type() == event.String:
		_, ok = d.strings[value.Text()]
	default:
		_, ok = d.others[other{value.Type(), value.Bits()}]
	}
	return ok
}

// take accounts for memory that goes with the dictionary, in steps, since workers
// share the budget.
func (d *dictionary) take(n int64) {
	const step = 16 << 10
	if d.owed += n; d.owed < step {
		return
	}
	d.held += d.owed
	if err := d.plan.held.take(d.owed); err != nil && d.err == nil {
		d.err = err
	}
	d.owed = 0
}
