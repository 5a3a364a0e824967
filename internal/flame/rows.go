package flame

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A Part is a part of the time of a row.
type Part struct {
	Name  string
	Time  time.Duration
	Share float64 // of the row's time, 0 to 1
}

// A NodeRow is the time of one owner.
type NodeRow struct {
	Owner
	Time      time.Duration
	Share     float64 // of [Profile.CPU], 0 to 1
	Functions []Part  // at most three, most first; see [Profile.Nodes]
}

// A KindRow is the time of all nodes of one kind.
type KindRow struct {
	Kind  string // or the name of an owner that is not a node
	Time  time.Duration
	Share float64 // of [Profile.CPU], 0 to 1
	Nodes []Part  // at most three, most first
	Count int     // of nodes
}

// A FunctionRow is the time of one function.
type FunctionRow struct {
	Function   string        // with the path of its package
	Flat       time.Duration // in itself
	FlatShare  float64       // of [Profile.CPU], 0 to 1
	Cumulative time.Duration // in itself and in all that it calls
	Share      float64       // of [Profile.CPU], 0 to 1, of Cumulative
	Node       Owner         // for which most of Cumulative was spent
	NodeShare  float64       // how much of Cumulative
}

// maxParts bounds the parts of a row.
const maxParts = 3

// Nodes returns a row for each owner, most time first. Its functions are the
// innermost ones that are not part of the runtime, locks or system calls.
func (p *Profile) Nodes() []NodeRow {
	spent := make(map[Owner]*sum)
	for _, s := range p.samples {
		of(spent, s.owner).add(s.actor(), s.time)
	}
	rows := make([]NodeRow, 0, len(spent))
	for owner, t := range spent {
		rows = append(rows, NodeRow{owner, t.time, share(t.time, p.CPU), t.most()})
	}
	slices.SortFunc(rows, func(a, b NodeRow) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), a.compare(b.Owner))
	})
	return rows
}

// Kinds returns a row for each kind, most time first.
func (p *Profile) Kinds() []KindRow {
	type key struct {
		name string
		node bool
	}
	spent := make(map[key]*sum)
	nodes := make(map[key]map[Owner]bool)
	for _, s := range p.samples {
		k := key{s.owner.Node, false}
		if s.owner.Kind != "" {
			k = key{s.owner.Kind, true}
		}
		of(spent, k).add(s.owner.Node, s.time)
		if nodes[k] == nil {
			nodes[k] = make(map[Owner]bool)
		}
		nodes[k][s.owner] = true
	}
	rows := make([]KindRow, 0, len(spent))
	for k, t := range spent {
		row := KindRow{Kind: k.name, Time: t.time, Share: share(t.time, p.CPU)}
		if k.node {
			row.Nodes, row.Count = t.most(), len(nodes[k])
		}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b KindRow) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), strings.Compare(a.Kind, b.Kind), cmp.Compare(b.Count, a.Count))
	})
	return rows
}

// Functions returns a row for each function, most flat time first.
func (p *Profile) Functions() []FunctionRow {
	type sums struct {
		flat, cumulative time.Duration
		owners           map[Owner]time.Duration
	}
	spent := make(map[string]*sums)
	seen := make(map[string]int) // the last sample, counted from 1, with a function
	for i, s := range p.samples {
		for _, name := range s.stack {
			if seen[name] == i+1 {
				continue // recursion
			}
			seen[name] = i + 1
			f := spent[name]
			if f == nil {
				f = &sums{owners: make(map[Owner]time.Duration)}
				spent[name] = f
			}
			f.cumulative += s.time
			f.owners[s.owner] += s.time
		}
		spent[s.stack[len(s.stack)-1]].flat += s.time
	}
	rows := make([]FunctionRow, 0, len(spent))
	for name, f := range spent {
		row := FunctionRow{
			Function: name, Flat: f.flat, FlatShare: share(f.flat, p.CPU), Cumulative: f.cumulative, Share: share(f.cumulative, p.CPU),
		}
		var most time.Duration
		for owner, t := range f.owners {
			if t > most || t == most && owner.compare(row.Node) < 0 {
				row.Node, most = owner, t
			}
		}
		row.NodeShare = share(most, f.cumulative)
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b FunctionRow) int {
		return cmp.Or(cmp.Compare(b.Flat, a.Flat), cmp.Compare(b.Cumulative, a.Cumulative), strings.Compare(a.Function, b.Function))
	})
	return rows
}

// actor returns the innermost function of a stack that is not [underneath], or else the
// innermost of all.
func (s *sample) actor() string {
	for _, name := range slices.Backward(s.stack) {
		if !underneath(name) && name != unknown {
			return name
		}
	}
	return s.stack[len(s.stack)-1]
}

func (o Owner) compare(other Owner) int {
	return cmp.Or(strings.Compare(o.Node, other.Node), strings.Compare(o.Namespace, other.Namespace), strings.Compare(o.Kind, other.Kind))
}

// A sum adds up time by part.
type sum struct {
	time  time.Duration
	parts map[string]time.Duration
}

// of returns the sum of a key, and adds it if it is missing.
func of[K comparable](all map[K]*sum, key K) *sum {
	t := all[key]
	if t == nil {
		t = &sum{parts: make(map[string]time.Duration)}
		all[key] = t
	}
	return t
}

func (t *sum) add(part string, spent time.Duration) {
	t.time += spent
	t.parts[part] += spent
}

func (t *sum) most() []Part {
	parts := make([]Part, 0, len(t.parts))
	for name, spent := range t.parts {
		parts = append(parts, Part{name, spent, share(spent, t.time)})
	}
	slices.SortFunc(parts, func(a, b Part) int {
		return cmp.Or(cmp.Compare(b.Time, a.Time), strings.Compare(a.Name, b.Name))
	})
	return slices.Clip(parts[:min(maxParts, len(parts))])
}

// share divides, and is 0 for an empty whole.
func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return float64(part) / float64(whole)
}
