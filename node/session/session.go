// Package session is the memory that the processes of one key have in common, one after
// the other: the memory of a conversation, or of a client.
//
// The kind session loads a [Session] and gives it to its process with [Session.Begin];
// nodes downstream read and change it, and find it with [Of]. What was changed is saved
// when the process has ended well. A process that was forked, and goes on after that, has
// no session. The package must not know where sessions are kept.
package session

import (
	"sync"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// A Session is a map of named values. Any goroutine may call its methods.
type Session struct {
	mu struct {
		sync.Mutex
		values  value.Value // a map
		changed bool
		ended   bool
		logs    bool
		changes []change // if it logs, all of them
	}
}

// A change makes the values of a session from those before.
type change struct {
	clear   bool // all values are removed; else the one of a name is changed
	name    string
	v       value.Value // is set; null removes it
	appends bool        // items are appended instead
	items   []value.Value
	most    int
}

// empty is the map of a new session.
var empty = value.Map()

// Given is what the kind session gives to its process.
const Given = "session"

// Needed is what a node says that needs a session, because of a field of its config or, with
// the field "", in any case.
func Needed(field string) node.Need {
	return node.Need{What: Given, Field: field, Hint: "put a node of kind session before it"}
}

var key = node.NewKey[*Session]("session")

// New returns a session with the fields of a map; null is an empty one.
func New(values value.Value) *Session {
	s := new(Session)
	if values.Kind() != value.KindMap {
		values = empty
	}
	s.mu.values = values
	return s
}

// Begin gives the session to a process and its children.
func (s *Session) Begin(p node.Process) { key.Store(p, s) }

// Of returns the session of a process, if it has one that has not ended.
func Of(p node.Process) (s *Session, ok bool) {
	if s, ok = key.Load(p); !ok || s.hasEnded() {
		return nil, false
	}
	return s, true
}

func (s *Session) hasEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.ended
}

// End ends the session, and returns what [Session.Values] does. What is set later is lost.
func (s *Session) End() (values value.Value, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.ended = true
	return s.mu.values, s.mu.changed
}

// Get returns a value, null if there is none of that name.
func (s *Session) Get(name string) value.Value {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, _ := s.mu.values.Get(name)
	return v
}

// Set sets a value. Null removes the one of that name.
func (s *Session) Set(name string, v value.Value) { s.change(change{name: name, v: v}) }

// Clear removes all values.
func (s *Session) Clear() { s.change(change{clear: true}) }

// Append puts items at the end of the list of that name, and removes the first of it until
// there are at most as many as most. A value that is not a list is replaced by one.
func (s *Session) Append(name string, most int, items ...value.Value) {
	s.change(change{name: name, appends: true, items: items, most: most})
}

func (s *Session) change(c change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.values, s.mu.changed = c.of(s.mu.values), true
	if s.mu.logs {
		s.mu.changes = append(s.mu.changes, c)
	}
}

// of makes the change.
func (c *change) of(values value.Value) value.Value {
	v := c.v
	switch {
	case c.clear:
		return empty
	case c.appends:
		old, _ := values.Get(c.name)
		var all []value.Value
		if old.Kind() == value.KindList {
			for _, item := range old.Elems() {
				all = append(all, item)
			}
		}
		all = append(all, c.items...)
		v = value.List(all[max(0, len(all)-c.most):]...)
	case v.IsNull():
		return values.Without(c.name)
	}
	return values.With(c.name, v)
}

// Log keeps the changes from now on, for [Session.Redo].
func (s *Session) Log() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.logs = true
}

// Changes returns how many changes there are in the log.
func (s *Session) Changes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.changes)
}

// Redo returns what the changes of the log make of other values, without the first of them.
func (s *Session) Redo(values value.Value, without int) value.Value {
	s.mu.Lock()
	changes := s.mu.changes[min(without, len(s.mu.changes)):]
	s.mu.Unlock()
	if values.Kind() != value.KindMap {
		values = empty
	}
	for i := range changes {
		values = changes[i].of(values)
	}
	return values
}

// Rebase gives the session other values, without changing it.
func (s *Session) Rebase(values value.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.values = values
}

// Values returns all, as a map, and whether anything was set since New.
func (s *Session) Values() (values value.Value, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.values, s.mu.changed
}
