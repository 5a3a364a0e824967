package durable

import (
	"container/heap"
	"container/list"
	"time"
)

// A lane is the items of a queue with one key. Those that are queued have their turn lane by lane: the one
// that had it last is behind the others.
type lane struct {
	key   string
	begun int           // items that have begun and not ended
	full  bool          // it has its turn when one of them ends, as the limit of a key is reached
	turn  *list.Element // nil if it is not in turn
	due   time.Time     // when an item is; zero if it is not in later
	index int           // in later
	busy  bool          // it has its turn
	again bool          // it is to have another turn then
}

// lanes are those of a queue that have items. Its zero value is not usable.
type lanes struct {
	byKey map[string]*lane
	turn  *list.List // of those that may have items that are due
	delay delays     // those with items that are due later
}

func newLanes() lanes { return lanes{byKey: make(map[string]*lane), turn: list.New()} }

// of returns the lane of a key.
func (s *lanes) of(key string) *lane {
	l := s.byKey[key]
	if l == nil {
		l = &lane{key: key}
		s.byKey[key] = l
	}
	return l
}

func (s *lanes) len() int { return s.turn.Len() }

// list gives a lane a turn behind the others, unless it has one, or waits for the end of an item.
func (s *lanes) list(l *lane) {
	switch {
	case l.busy:
		l.again = true
	case l.turn == nil && !l.full:
		s.byKey[l.key] = l // it may have been tidied away
		l.turn = s.turn.PushBack(l)
	}
}

// relist gives those lanes a turn that wait for the end of an item.
func (s *lanes) relist() {
	for _, l := range s.byKey {
		if l.full {
			l.full = false
			s.list(l)
		}
	}
}

// pop takes the lane whose turn it is; nil if there is none.
func (s *lanes) pop() *lane {
	first := s.turn.Front()
	if first == nil {
		return nil
	}
	l := s.turn.Remove(first).(*lane)
	l.turn, l.busy = nil, true
	return l
}

// settle ends the turn of lanes; all of them have another one if again is set.
func (s *lanes) settle(all []*lane, again bool) {
	for _, l := range all {
		again := again || l.again
		l.busy, l.again = false, false
		if again {
			s.list(l)
		} else {
			s.tidy(l)
		}
	}
}

// later gives a lane a turn at a time, if it has none before.
func (s *lanes) later(l *lane, due time.Time) {
	s.byKey[l.key] = l
	switch {
	case l.due.IsZero():
		l.due = due
		heap.Push(&s.delay, l)
	case due.Before(l.due):
		l.due = due
		heap.Fix(&s.delay, l.index)
	}
}

// wake gives the lanes a turn that have an item which is due by now.
func (s *lanes) wake(now time.Time) {
	for len(s.delay) > 0 && !s.delay[0].due.After(now) {
		l := heap.Pop(&s.delay).(*lane)
		l.due = time.Time{}
		s.list(l)
	}
}

// due returns when the next lane is; zero if none is.
func (s *lanes) due() time.Time {
	if len(s.delay) == 0 {
		return time.Time{}
	}
	return s.delay[0].due
}

// tidy forgets a lane without items.
func (s *lanes) tidy(l *lane) {
	if l.begun == 0 && l.turn == nil && l.due.IsZero() && !l.full && !l.busy {
		delete(s.byKey, l.key)
	}
}

// delays is a heap of lanes by when they are due.
type delays []*lane

func (d delays) Len() int           { return len(d) }
func (d delays) Less(i, j int) bool { return d[i].due.Before(d[j].due) }

func (d delays) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].index, d[j].index = i, j
}

func (d *delays) Push(x any) {
	l := x.(*lane)
	l.index = len(*d)
	*d = append(*d, l)
}

func (d *delays) Pop() any {
	last := len(*d) - 1
	l := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return l
}
