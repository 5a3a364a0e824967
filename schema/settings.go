package schema

import "github.com/uniflow-labs/uniflow/value"

// A Setting is a field of a config as a reader of the running program sees it.
type Setting struct {
	Path   string      // with the names of the groups and lists that it is in, such as "routes[0].method"
	Value  value.Value // as it was written, or the default; null if Hidden
	Given  bool        // the author gave it; otherwise the value is the default
	Hidden bool        // the content must not be shown: see [Config.Hidden]
}

// Settings returns the fields that the author gave, and those with a default, in the order of declaration.
func (c Config) Settings() []Setting { return c.settings(nil) }

func (c Config) settings(all []Setting) []Setting {
	for i, f := range c.object.fields {
		s := &c.slots[i]
		set := Setting{Path: join(c.path, f.name), Given: s.raw != nil, Hidden: s.raw != nil && (f.secret || s.raw.templated())}
		switch {
		case set.Hidden:
		case f.typ == TypeGroup:
			all = s.group.settings(all)
			continue
		case f.typ == TypeList:
			for _, item := range s.list {
				all = item.settings(all)
			}
			continue
		case set.Given:
			set.Value = s.raw.ToValue()
		case f.secret || f.def.IsNull():
			continue
		default:
			set.Value = f.def
		}
		all = append(all, set)
	}
	return all
}
