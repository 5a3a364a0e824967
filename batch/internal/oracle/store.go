package oracle

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"sync"
)

// A Store is the durable side of a receiver. It recognises batches it has taken
// by their key. Its methods may be called from any number of goroutines.
type Store struct {
	rules Rules
	mu    struct {
		sync.Mutex
		taken      map[string]taken    // by batch key
		copies     map[identity]uint32 // of each event, of batches not taken before
		last       map[uint64]uint64   // the largest Seq taken, by Event.Key
		disordered []string            // the first few events taken after a later one
		duplicates uint64
		events     uint64
		refused    map[uint64]uint32 // by Event.ID
		problems   []string
	}
}

// An identity is what makes two events the same.
type identity struct {
	producer string
	id       uint64
}

// taken is what the store remembers of a batch.
type taken struct {
	sum    [sha256.Size]byte
	answer Answer
}

// Rules are what a Store makes of the content of batches. They are called with
// the store's lock held, and must not call it.
type Rules struct {
	// Poison reports whether an event makes the store refuse its whole batch as
	// malformed: status 400. Nil: none does.
	Poison func(Event) bool
	// Verdict refuses single events: with a reason, which is empty for an
	// event that is taken. Nil takes all.
	Verdict func(Event) (reason string, retry bool)
	// MaxEvents is the most events of a batch; a larger one is too large:
	// status 413. 0 means no limit.
	MaxEvents int
	// MaxBytes is the most bytes of a body, decompressed; a larger one is too
	// large: status 413. 0 means 64 MiB.
	MaxBytes int64
}

// An Answer is what a receiver says about a batch that it takes.
type Answer struct {
	Accepted  int       `json:"accepted"`
	Duplicate bool      `json:"duplicate"`
	Rejected  []Refusal `json:"rejected,omitempty"`
}

// A Refusal is what a receiver says about an event of a batch it takes
// otherwise.
type Refusal struct {
	Index  int    `json:"index"`
	Reason string `json:"reason"`
	Retry  bool   `json:"retry"`
}

// NewStore makes a store.
func NewStore(r Rules) *Store {
	if r.MaxBytes == 0 {
		r.MaxBytes = 64 << 20
	}
	s := &Store{rules: r}
	s.mu.taken = make(map[string]taken)
	s.mu.copies = make(map[identity]uint32)
	s.mu.last = make(map[uint64]uint64)
	s.mu.refused = make(map[uint64]uint32)
	return s
}

// Take takes a batch, or says with an HTTP status why not: 400 or 413. A batch
// whose key was taken before changes nothing and gets the same answer; an empty
// key is never recognised. raws are not kept.
func (s *Store) Take(key string, raws [][]byte) (a Answer, status int) {
	events := make([]Event, len(raws))
	sum := sha256.New()
	var size int64
	for i, raw := range raws {
		e, err := Parse(raw)
		if err != nil {
			s.problem("batch %q, event %d of %d: %v", key, i, len(raws), err)
			return Answer{}, 400
		}
		events[i] = e
		sum.Write(raw)
		sum.Write([]byte{'\n'})
		size += int64(len(raw)) + 1
	}
	if s.rules.MaxEvents > 0 && len(raws) > s.rules.MaxEvents || size > s.rules.MaxBytes {
		return Answer{}, 413
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var digest [sha256.Size]byte
	sum.Sum(digest[:0])
	if t, ok := s.mu.taken[key]; ok && key != "" {
		if t.sum != digest {
			s.problemLocked("batch %q was taken with other events: %d of them now", key, len(raws))
		}
		s.mu.duplicates++
		a := t.answer
		a.Duplicate = true
		return a, 200
	}
	if s.rules.Poison != nil {
		for _, e := range events {
			if s.rules.Poison(e) {
				return Answer{}, 400
			}
		}
	}
	producer, _, _ := strings.Cut(key, "/")
	for i, e := range events {
		if s.rules.Verdict != nil {
			if reason, retry := s.rules.Verdict(e); reason != "" {
				if !retry {
					s.mu.refused[e.ID]++
				}
				a.Rejected = append(a.Rejected, Refusal{i, reason, retry})
				continue
			}
		}
		a.Accepted++
		s.mu.events++
		id := identity{producer, e.ID}
		s.mu.copies[id]++
		if s.mu.copies[id] > 1 {
			continue // order is judged by the first copy
		}
		if last := s.mu.last[e.Key]; e.Seq < last {
			if len(s.mu.disordered) < maxProblems/4 {
				s.mu.disordered = append(s.mu.disordered,
					fmt.Sprintf("order: batch %q brings place %d of key %d after place %d", key, e.Seq, e.Key, last))
			}
		} else {
			s.mu.last[e.Key] = e.Seq
		}
	}
	s.mu.taken[key] = taken{digest, a}
	return a, 200
}

// Events returns how many events were taken, without the events of duplicate
// batches.
func (s *Store) Events() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.events
}

// Duplicates returns how many batches came again after they had been taken.
func (s *Store) Duplicates() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.duplicates
}

// Has reports whether the event was taken, of any producer.
func (s *Store) Has(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for who := range s.mu.copies {
		if who.id == id {
			return true
		}
	}
	return false
}

// Copies returns how many copies of each event were taken, of all producers, by
// Event.ID.
func (s *Store) Copies() map[uint64]uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := make(map[uint64]uint32, len(s.mu.copies))
	for who, c := range s.mu.copies {
		n[who.id] += c
	}
	return n
}

// problem records something that must not happen, for Check.
func (s *Store) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problemLocked(format, args...)
}

func (s *Store) problemLocked(format string, args ...any) {
	if len(s.mu.problems) < maxProblems {
		s.mu.problems = append(s.mu.problems, fmt.Sprintf(format, args...))
	}
}
