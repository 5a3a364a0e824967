package state

import (
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestGenerations(t *testing.T) {
	var s Generations[int]
	first, second, third := new(int), new(int), new(int)
	check := func(serving bool, current *int) {
		t.Helper()
		if s.Serving() != serving || s.Current() != current {
			t.Errorf("serving %t, current %p, want %t, %p", s.Serving(), s.Current(), serving, current)
		}
	}
	check(false, nil)
	s.Attach(first)
	s.Attach(second)
	check(true, second)
	s.Attach(third)
	if s.Detach(second) {
		t.Error("one of three was the last")
	}
	check(true, third)
	if s.Detach(third) { // a reload that was taken back
		t.Error("one of two was the last")
	}
	check(true, first)
	s.Attach(second)
	s.Attach(first) // again: it has moved
	check(true, first)
	if s.Detach(first) || !s.Detach(second) {
		t.Error("the last was not the last")
	}
	check(false, second)
}
