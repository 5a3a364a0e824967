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
	}
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
func (s *Session) Set(name string, v value.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setLocked(name, v)
}

func (s *Session) setLocked(name string, v value.Value) {
	if v.IsNull() {
		s.mu.values = s.mu.values.Without(name)
	} else {
		s.mu.values = s.mu.values.With(name, v)
	}
	s.mu.changed = true
}

// Clear removes all values.
func (s *Session) Clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.values, s.mu.changed = empty, true
}

// Append puts items at the end of the list of that name, and removes the first of it until
// there are at most as many as most. A value that is not a list is replaced by one.
func (s *Session) Append(name string, most int, items ...value.Value) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, _ := s.mu.values.Get(name)
	var all []value.Value
	if old.Kind() == value.KindList {
		for _, item := range old.Elems() {
			all = append(all, item)
		}
	}
	all = append(all, items...)
	s.setLocked(name, value.List(all[max(0, len(all)-most):]...))
}

// Values returns all, as a map, and whether anything was set since New.
func (s *Session) Values() (values value.Value, changed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.values, s.mu.changed
}
