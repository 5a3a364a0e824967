package spool

import "slices"

// Recovered is an iterator, of type iter.Seq2[Position, Record], over the records that
// the last spool in this folder left unacknowledged, in the order in which they were
// appended. Use it once, right after Open; a second iteration is empty. Records may be
// appended and acknowledged meanwhile. Records that can no longer be read are counted
// and logged.
func (s *Spool) Recovered(yield func(Position, Record) bool) {
	s.mu.Lock()
	old := s.old
	s.old = nil
	s.mu.Unlock()
	for _, g := range old {
		if !s.recovered(g, yield) {
			return
		}
	}
}

// recovered yields the records of one segment.
func (s *Spool) recovered(g *segment, yield func(Position, Record) bool) bool {
	s.mu.Lock()
	from, end := g.acks.mark, g.end
	skip := g.acks.spans(nil)
	s.mu.Unlock()
	if from >= end {
		return true
	}
	// Damage that Open has counted is skipped, also if the file is kept.
	skip = joined(append(skip, g.damaged...))
	_, f, err := s.use(g.number)
	if err != nil {
		s.countDamage("path", g.path, "err", err)
		return true
	}
	defer s.release(g)
	sc := newScanner(f, end)
	for off := from; off < end; {
		if i := slices.IndexFunc(skip, func(a span) bool { return a.to > off }); i < 0 {
			skip = nil
		} else {
			skip = skip[i:]
		}
		limit := end
		if len(skip) > 0 {
			if skip[0].from <= off {
				off = skip[0].to
				continue
			}
			limit = min(limit, skip[0].from)
		}
		got, ok := sc.next(off, limit)
		switch {
		case !ok:
			return true
		case !got.ok:
			s.countDamage("path", g.path, "from", got.from, "to", got.to)
		case !yield(Position{g.number, got.from, uint32(got.to - got.from), got.record.Count}, got.record):
			return false
		}
		off = got.to
	}
	return true
}

// countDamage counts and logs damage that Open did not find.
func (s *Spool) countDamage(attrs ...any) {
	s.mu.Lock()
	s.mu.corrupt++
	s.mu.Unlock()
	s.log.Error("spool: records damaged since the start", attrs...)
}
