package flame

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A frame is a call or an owner, with the calls from it.
type frame struct {
	owner    Owner  // of the first level; zero of others
	function string // empty in the first level, and at the root
	time     time.Duration
	children []*frame // most time first
	index    map[key]*frame
}

// A key identifies a frame among its siblings.
type key struct {
	owner    Owner
	function string
}

// tree returns the root of all stacks, by owner first. Frames of less time than least
// are left out.
func (p *Profile) tree(least time.Duration) *frame {
	root := &frame{time: p.CPU}
	for _, s := range p.samples {
		at := root.child(key{owner: s.owner})
		at.time += s.time
		for _, name := range s.stack {
			at = at.child(key{function: name})
			at.time += s.time
		}
	}
	root.finish(least)
	return root
}

func (f *frame) child(k key) *frame {
	c := f.index[k]
	if c == nil {
		if f.index == nil {
			f.index = make(map[key]*frame)
		}
		c = &frame{owner: k.owner, function: k.function}
		f.index[k] = c
		f.children = append(f.children, c)
	}
	return c
}

// finish sorts the children of a frame, and leaves out the smallest.
func (f *frame) finish(least time.Duration) {
	f.index = nil
	f.children = slices.DeleteFunc(f.children, func(c *frame) bool { return c.time < least })
	slices.SortFunc(f.children, func(a, b *frame) int {
		return cmp.Or(cmp.Compare(b.time, a.time), strings.Compare(a.function, b.function), a.owner.compare(b.owner))
	})
	for _, c := range f.children {
		c.finish(least)
	}
}

func (f *frame) depth() int {
	deepest := 0
	for _, c := range f.children {
		deepest = max(deepest, c.depth())
	}
	return 1 + deepest
}
