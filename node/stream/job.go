package stream

import (
	"errors"
	"fmt"
)

// mostReasons is how many dead letters the error of a job that fails wholly quotes.
const mostReasons = 3

// holdsMarks reports whether marks are not committed: marks of a run of dead letters wait for
// the next good message, or the end of the job. If the job fails, its next run reads them
// again. Of dead requeue they do not wait: what has failed again is in a new file. The caller holds
// the lock.
func (s *session) holdsMarks() bool {
	if _, again := s.reader.(*letterReader); again {
		return false
	}
	return s.mu.aborted || s.settings.maxDead > 0 && s.mu.deadRun > 0 && !s.mu.closing
}

// beforeDead keeps the marks that come before a run of dead letters. The caller holds the lock.
func (s *session) beforeDead() {
	if s.settings.maxDead > 0 && s.mu.deadRun == 0 {
		s.keepMarks()
	}
}

// keepMarks keeps the marks as they are now: those are committed even if the job fails. The
// caller holds the lock.
func (s *session) keepMarks() {
	for _, l := range s.mu.dirty {
		s.mu.safe = append(s.mu.safe, l.mark)
	}
}

// dead counts a dead letter of a job. The caller holds the lock.
func (s *session) dead(m *message) {
	if s.settings.maxDead == 0 || s.mu.aborted {
		return
	}
	s.mu.deadRun++
	if len(s.mu.reasons) < mostReasons {
		s.mu.reasons = append(s.mu.reasons, m.err)
	}
	if s.mu.deadRun >= s.settings.maxDead {
		s.abort(fmt.Errorf("%d messages in a row were dead letters, and none was good; the first failed with:\n%w", s.mu.deadRun, errors.Join(s.mu.reasons...)))
	}
}

// good notes that a message of a job was good. The caller holds the lock.
func (s *session) good() {
	if s.mu.deadRun > 0 && !s.mu.aborted {
		s.mu.deadRun, s.mu.reasons, s.mu.safe = 0, nil, nil
	}
}

// abort ends a job early: nothing more is read, and what has not begun is given back. The
// caller holds the lock.
func (s *session) abort(err error) {
	if s.mu.deadRun == 0 && !s.mu.aborted {
		s.keepMarks()
	}
	s.mu.failure, s.mu.ended, s.mu.aborted = err, true, true
	s.mu.news = append(s.mu.news, func() { s.log.Error("the source has ended early", "error", err) })
	s.stopRead()
	s.giveBack(func(m *message) bool { return m.state == stateQueued }, err)
	s.wakeAll()
}
