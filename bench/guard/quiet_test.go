package main

import (
	"slices"
	"testing"
	"time"
)

// TestChooser counts busy and idle hundredths of a second.
func TestChooser(t *testing.T) {
	now := [][2]int{{0, 0}, {0, 0}}
	c := newChooser([]int{0, 1})
	const tick = 10 * time.Millisecond
	c.stat = func() map[int]busy {
		all := make(map[int]busy)
		for i, n := range now {
			all[i] = busy{time.Duration(n[0]) * tick, time.Duration(n[0]+n[1]) * tick}
		}
		return all
	}
	c.forget()
	f := func(what string, cpu0, cpu1 [2]int, want ...int) {
		t.Helper()
		now[0] = [2]int{now[0][0] + cpu0[0], now[0][1] + cpu0[1]}
		now[1] = [2]int{now[1][0] + cpu1[0], now[1][1] + cpu1[1]}
		if got := c.pick(len(want)); !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	f("at first", [2]int{0, 20}, [2]int{0, 20}, 1)
	c.used([]int{1}, 200*time.Millisecond)
	f("busy with what is measured", [2]int{0, 20}, [2]int{20, 0}, 1)
	f("a little of others", [2]int{0, 20}, [2]int{2, 18}, 1)
	f("a neighbour comes", [2]int{0, 20}, [2]int{20, 0}, 0)
	f("too soon to tell", [2]int{1, 0}, [2]int{0, 1}, 0)
	c.used([]int{0}, 200*time.Millisecond)
	f("it stays", [2]int{20, 0}, [2]int{20, 0}, 0)
	f("two", [2]int{0, 20}, [2]int{0, 20}, 0, 1)
	if got := c.pick(0); len(got) != 2 {
		t.Errorf("got %v, want all", got)
	}
	c.stat = func() map[int]busy { return nil }
	c.forget()
	if got := c.pick(1); len(got) != 1 {
		t.Errorf("without /proc: got %v, want one", got)
	}
}
