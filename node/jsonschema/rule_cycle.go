package jsonschema

import (
	"errors"
	"slices"
)

// acyclic returns an error if a value is to be checked by a rule for which it has to be
// checked by the same rule.
func (r *rule) acyclic(path []*rule, done map[*rule]bool) error {
	switch {
	case r == nil || done[r]:
		return nil
	case slices.Contains(path, r):
		return errors.New("the schema refers to itself in a circle")
	}
	path = append(path, r)
	same := slices.Concat([]*rule{r.ref, r.not, r.cond, r.yes, r.no}, r.all, r.any, r.one)
	for _, d := range r.dependent {
		same = append(same, d.rule)
	}
	for _, next := range same {
		if err := next.acyclic(path, done); err != nil {
			return err
		}
	}
	done[r] = true
	others := slices.Concat([]*rule{r.others, r.names, r.contains, r.items}, r.first)
	for _, below := range r.fields {
		others = append(others, below)
	}
	for _, p := range r.patterns {
		others = append(others, p.rule)
	}
	for _, next := range others {
		if err := next.acyclic(nil, done); err != nil {
			return err
		}
	}
	return nil
}
