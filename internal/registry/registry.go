// Package registry holds the kinds that documents may use.
//
// It knows only the descriptions of kinds, and makes no nodes.
package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/uniflow-labs/uniflow/internal/lifecycle"
	"github.com/uniflow-labs/uniflow/node"
)

// A Registry is a set of kinds. It is immutable.
type Registry struct {
	defs  map[string]*node.Def
	kinds []string // sorted

	broken []string
}

// New returns a registry of the kinds, or an error with all kinds that are described
// twice or wrongly.
func New(defs []*node.Def) (*Registry, error) {
	r := &Registry{defs: make(map[string]*node.Def, len(defs))}
	var errs []error
	for i, def := range defs {
		if err := check(def); err != nil {
			errs = append(errs, fmt.Errorf("kind %d of %d, %q: %w", i+1, len(defs), def.Kind, err))
			continue
		}
		if old, ok := r.defs[def.Kind]; ok {
			errs = append(errs, fmt.Errorf("kind %q is defined twice: %q and %q", def.Kind, old.Summary, def.Summary))
			continue
		}
		r.defs[def.Kind] = def
		r.kinds = append(r.kinds, def.Kind)
	}
	slices.Sort(r.kinds)
	return r, errors.Join(errs...)
}

func check(def *node.Def) error {
	switch {
	case def.Kind == "":
		return errors.New("it has no name")
	case def.Summary == "":
		return errors.New("it has no summary")
	case (def.New == nil) == (def.Subgraph == node.NoSubgraph):
		return errors.New("it needs a New, or else a Subgraph")
	}
	for _, ports := range [][]node.Port{def.In, def.Out} {
		for i, port := range ports {
			if port.Name == "" || port.Name == "error" {
				return fmt.Errorf("port %d must not be called %q", i, port.Name)
			}
			if slices.ContainsFunc(ports[:i], func(p node.Port) bool { return p.Name == port.Name }) {
				return fmt.Errorf("port %q is defined twice", port.Name)
			}
			if port.Indexes != nil && i < len(ports)-1 {
				return fmt.Errorf("port %q is a family, but only the last port may be one", port.Name)
			}
		}
	}
	for _, port := range def.Out {
		if _, ok := lifecycle.Of(port.Name); ok {
			return fmt.Errorf("out-port %q has the name of a lifecycle port: call it something else than %s",
				port.Name, strings.Join(lifecycle.Names(), ", "))
		}
	}
	return nil
}

// With returns a registry of the kinds of r and of more, which knows the names of kinds whose declarations are wrong.
func (r *Registry) With(defs []*node.Def, broken []string) (*Registry, error) {
	all, err := New(append(r.All(), defs...))
	all.broken = broken
	return all, err
}

// IsBroken reports whether a kind has a declaration that is wrong, which was reported.
func (r *Registry) IsBroken(name string) bool { return slices.Contains(r.broken, name) }

// All returns the kinds, sorted by name. The caller owns the slice.
func (r *Registry) All() []*node.Def {
	all := make([]*node.Def, len(r.kinds))
	for i, kind := range r.kinds {
		all[i] = r.defs[kind]
	}
	return all
}

// IsTemplate reports whether specs of a kind declare kinds.
func (r *Registry) IsTemplate(name string) bool {
	def, ok := r.defs[name]
	return ok && def.Subgraph == node.SubgraphTemplate
}

// Kind returns the description of a kind.
func (r *Registry) Kind(name string) (def *node.Def, ok bool) {
	def, ok = r.defs[name]
	return def, ok
}

// Kinds returns the names of all kinds, sorted. The caller must not change them.
func (r *Registry) Kinds() []string { return r.kinds }
