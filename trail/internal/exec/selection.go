package exec

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/trail/event"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// A listing is an answer that counts users, and lists them if that is asked for.
type listing struct {
	name  string
	users bool // they are listed
	ids   bool

	count int64
	found []query.User
}

func (b *builder) listing(q *query.Query) listing {
	return listing{name: q.Name, users: b.opt.Users || b.opt.IDs, ids: b.opt.IDs}
}

func (l *listing) answer(p *plan) (*query.Answer, error) {
	slices.SortFunc(l.found, func(a, b query.User) int { return cmp.Compare(a.Hash, b.Hash) })
	return &query.Answer{Cohort: &query.CohortAnswer{Name: l.name, Users: p.users(l.count), Found: l.found}}, nil
}

// A lister is the part of a fold that lists users.
type lister struct {
	to    *listing
	w     *worker
	count int64
	found []query.User
	held  int

	// Of the users behind a number:
	*picked
	values   *dictionary
	seen     bool           // a user is in the group or under the label
	verdicts map[group]bool // by the numbers of the values
}

func (l *lister) add(p *part) error {
	l.count++
	if !l.to.users {
		return nil
	}
	user := query.User{Hash: p.hashes[p.at]}
	if l.to.ids {
		id, err := p.seg.UserID(p.UserLo + p.at)
		if err != nil {
			return err
		}
		user.ID = strings.Clone(id) // it may be the map's
	}
	l.found = append(l.found, user)
	if grown := cap(l.found) - l.held; grown > 0 {
		l.held += grown
		return l.w.held.take(int64(grown) * 40)
	}
	return nil
}

func (l *lister) join() {
	l.to.count += l.count
	l.to.found = append(l.to.found, l.found...)
	if l.picked != nil {
		l.picked.seen = l.picked.seen || l.seen
	}
}

// picked are the users behind one number of an answer.
type picked struct {
	listing
	selection *query.Selection
	missing   string          // what to say if the answer does not have the number
	absent    bool            // the answer does not have the number
	group     []event.Value   // of the number; nil for any
	shown     [][]event.Value // the groups of the answer, where users of all other groups are wanted
	seen      bool
}

// ranked runs the query without Users, if its answer decides which numbers exist: it may
// have only a part of the groups or paths.
func ranked(ctx context.Context, in Input, q *query.Query, opt Options) (*query.Answer, error) {
	if q.Users == nil {
		return nil, nil
	}
	s := q.Users
	switch grouped := len(s.Group) > 0 || s.Other; {
	case q.Funnel != nil && grouped, q.Segment != nil && q.Segment.Limit > 0 && grouped, q.Paths != nil:
	case q.Segment != nil && q.Segment.Fill && s.Bucket != "": // the answer has rows without events
	default:
		return nil, nil
	}
	plain := *q
	plain.Users = nil
	return Run(ctx, in, &plain, opt)
}

// behind makes the kernel that finds the users behind a number of an answer.
func (b *builder) behind(q *query.Query) (k kernel, err error) {
	s := q.Users
	p := &picked{listing: b.listing(q), selection: s}
	switch {
	case q.Funnel != nil:
		f := b.funnel(q.Funnel, s).(*funnel)
		f.picked, k = p, f
		if s.Bucket != "" {
			p.missing = fmt.Sprintf("the answer has no bucket %q", s.Bucket)
		}
		err = b.pickGroup(p, q.Funnel.By)
	case q.Retention != nil:
		p.missing = fmt.Sprintf("the answer has no cohort %q", s.Cohort)
		k = b.retentionUsers(q.Retention, p)
	case q.Segment != nil:
		if s.Bucket != "" {
			p.missing = fmt.Sprintf("the answer has no bucket %q", s.Bucket)
		}
		k, err = b.segmentUsers(q.Segment, p), b.pickGroup(p, q.Segment.By)
		if q.Segment.Fill && b.ranked != nil && slices.ContainsFunc(b.ranked.Segment.Rows, p.has) {
			p.missing = ""
		}
	case q.Paths != nil:
		p.missing = fmt.Sprintf("the answer has no path %s", strings.Join(s.Path, ", "))
		p.absent = b.ranked != nil && !slices.ContainsFunc(b.ranked.Paths.Paths, func(path query.Path) bool { return slices.Equal(path.Path, s.Path) })
		var all *paths
		if all, err = b.paths(q.Paths); err == nil {
			all.picked, k = p, all
		}
	default:
		err = errorAt(s.Pos, "", "the answer has no number that users are behind")
	}
	return k, err
}

// pickGroup finds the values of the group whose users are wanted.
func (b *builder) pickGroup(p *picked, by []string) error {
	s := p.selection
	if !s.Other && len(s.Group) == 0 {
		return nil
	}
	in := ""
	if s.Bucket != "" {
		in = fmt.Sprintf(" in bucket %q", s.Bucket)
	}
	p.missing = "the answer has no other groups" + in
	if b.ranked != nil {
		p.shown = shownGroups(b.ranked)
	}
	if s.Other {
		return nil
	}
	if len(s.Group) != len(by) {
		return errorAt(s.Pos, "", "a group has %d values, got %d", len(by), len(s.Group))
	}
	var texts []string
	for i, l := range s.Group {
		texts = append(texts, fmt.Sprintf("%q", l.Text))
		v := event.Value{}
		if l.Text != "" {
			typ := b.in.Schema.Type(by[i])
			if typ == event.Unknown {
				p.absent = true // all values of the property are missing
				continue
			}
			var err error
			if v, err = literal(typ, by[i], l); err != nil {
				return err
			}
		}
		p.group = append(p.group, v)
	}
	p.missing = "the answer has no group " + strings.Join(texts, ", ") + in
	if b.ranked != nil {
		p.absent = p.absent || !slices.ContainsFunc(p.shown, func(g []event.Value) bool { return equalGroups(g, p.group) })
	}
	return nil
}

// shownGroups returns the groups of an answer, without the group of the others.
func shownGroups(a *query.Answer) (groups [][]event.Value) {
	if a.Funnel != nil {
		for _, g := range a.Funnel.Groups {
			if !g.Other {
				groups = append(groups, g.Values)
			}
		}
		return groups
	}
	for _, r := range a.Segment.Rows {
		if !r.Other {
			groups = append(groups, r.Group)
		}
	}
	slices.SortFunc(groups, func(a, b []event.Value) int { return slices.CompareFunc(a, b, event.Compare) })
	return slices.CompactFunc(groups, equalGroups)
}

func equalGroups(a, b []event.Value) bool { return slices.CompareFunc(a, b, event.Compare) == 0 }

// has reports whether the users of a row of a segment are wanted.
func (p *picked) has(r query.SegmentRow) bool {
	s := p.selection
	if s.Bucket != "" && s.Bucket != r.Bucket || s.Other && !r.Other {
		return false
	}
	return len(s.Group) == 0 || !r.Other && equalGroups(r.Group, p.group)
}

func (p *picked) answer(pl *plan) (*query.Answer, error) {
	if p.missing != "" && !p.seen {
		pl.warnings = append(pl.warnings, p.missing)
	}
	return p.listing.answer(pl)
}

// fork returns the lister of a worker, whose values of groups are in a dictionary.
func (p *picked) fork(w *worker, values *dictionary) *lister {
	return &lister{to: &p.listing, w: w, picked: p, values: values, verdicts: make(map[group]bool)}
}

// chosen reports whether a group is the one whose users are wanted, and then notes that
// the group exists.
func (l *lister) chosen(g group) bool {
	if l.absent {
		return false
	}
	if l.group == nil && !l.selection.Other {
		l.seen = true
		return true
	}
	is, known := l.verdicts[g]
	if !known {
		is = l.decide(g)
		l.verdicts[g] = is
		l.values.take(48)
	}
	l.seen = l.seen || is
	return is
}

func (l *lister) decide(g group) bool {
	width := max(len(l.group), 1)
	if l.selection.Other && len(l.shown) > 0 {
		width = len(l.shown[0])
	}
	values := make([]event.Value, width)
	for i := range values {
		values[i] = l.values.value(g[i])
	}
	if l.selection.Other {
		return !slices.ContainsFunc(l.shown, func(shown []event.Value) bool { return equalGroups(shown, values) })
	}
	return equalGroups(values, l.group)
}
