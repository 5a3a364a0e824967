package stream

import "context"

// A host is what a reader sees of its session.
type host struct{ *session }

// Release implements [Host].
func (h host) Release(ctx context.Context, numbers []int32) []Mark {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	lanes := make(map[*lane]bool, len(numbers))
	for _, number := range numbers {
		if l := s.mu.lanes[number]; l != nil {
			lanes[l] = true
		}
	}
	meant := func(m *message) bool { return lanes[m.lane] }
	s.forget(meant)
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.room.Broadcast()
	})()
	held := func() bool {
		for l := range lanes {
			if l.held > 0 {
				return true
			}
		}
		return false
	}
	s.mu.watchers++
	defer func() { s.mu.watchers-- }()
	for held() && ctx.Err() == nil {
		s.room.Wait()
		s.forget(meant) // those whose attempt has failed
	}
	for m, after := s.mu.first, (*message)(nil); m != nil; m = after {
		if after = m.after; meant(m) {
			s.letGo(m)
		}
	}
	var marks []Mark
	for _, number := range numbers {
		l := s.mu.lanes[number]
		if l == nil {
			continue
		}
		if l.marked {
			marks = append(marks, l.mark)
		}
		delete(s.mu.lanes, number)
		if s.mu.recent == l {
			s.mu.recent = nil
		}
		if s.mu.gap == l {
			s.mu.gap = nil
		}
	}
	kept := s.mu.dirty[:0]
	for _, l := range s.mu.dirty {
		if !lanes[l] {
			kept = append(kept, l)
		}
	}
	s.mu.dirty = kept
	if s.keeper != nil && len(marks) > 0 {
		s.mu.left = append(s.mu.left, marks...)
		s.mu.due = true
		s.settle.Signal()
	}
	s.tidy()
	return marks
}

// InFlight implements [Host].
func (h host) InFlight(f func(m *Message)) {
	s := h.session
	s.mu.Lock()
	defer s.mu.Unlock()
	for m := s.mu.first; m != nil; m = m.after {
		f(m.receipt)
	}
}
