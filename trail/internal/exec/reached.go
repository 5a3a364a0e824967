package exec

import (
	"github.com/uniflow-labs/uniflow/trail/internal/segment"
)

// Reached counts how often a query came to each of the ways that save work, by name.
// Tests that draw questions ask for it, since a way that they never come to is a way
// that they do not test.
type Reached map[string]int64

// ways that save work are counted where they are taken, once a block, a view or eight rows.
type ways struct {
	blocks   int64 // left out by summaries
	views    int64 // left out by event sets
	sets     int64 // views whose event sets decide which users count
	presence int64 // parts of blocks in which bits of presence were asked
	sparse   int64 // stretches of which only the rare events were read
	empty    int64 // eight rows that a count skipped
}

func (w *ways) add(o ways) {
	w.blocks += o.blocks
	w.views += o.views
	w.sets += o.sets
	w.presence += o.presence
	w.sparse += o.sparse
	w.empty += o.empty
}

// reached adds what a query came to.
func (p *plan) reached(to Reached, n need, cost ways) {
	if to == nil {
		return
	}
	for name, n := range map[string]int64{
		"blocks left out": cost.blocks, "views left out": cost.views, "event sets": cost.sets, "presence": cost.presence, "rare events": cost.sparse, "empty masks": cost.empty,
	} {
		to[name] += n
	}
	for _, s := range p.sources {
		columns := map[*segment.Column]bool{s.events: !s.every}
		for _, c := range s.columns {
			columns[c] = c != nil
		}
		for _, f := range s.wheres {
			for _, l := range f.leaves {
				columns[l.column] = true
			}
		}
		for c, used := range columns {
			if used {
				to["column "+c.Encoding()]++
			}
		}
		if n.times || len(s.cut) > 0 {
			to["times "+s.times.Encoding()]++
		}
		if s.bucketIndex != nil {
			to["index of buckets"]++
		}
		if s.numbers != nil {
			to["table of numbers"]++
		}
	}
}
