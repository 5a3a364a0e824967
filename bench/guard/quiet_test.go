package main

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// stat is what /proc/stat shows of processors that were busy and idle for so many
// hundredths of a second.
func stat(times ...[2]int) string {
	s := "cpu  1 2 3 4 5 6 7 8 9 10\n"
	for i, t := range times {
		s += fmt.Sprintf("cpu%d %d 0 %d %d 0 0 0 0 0 0\n", i, t[0]/2, t[0]-t[0]/2, t[1])
	}
	return s + "intr 12\n"
}

func TestParseStat(t *testing.T) {
	got := parseStat(stat([2]int{100, 300}, [2]int{7, 0}))
	if len(got) != 2 || got[0] != (busy{time.Second, 4 * time.Second}) || got[1] != (busy{70 * time.Millisecond, 70 * time.Millisecond}) {
		t.Errorf("got %v", got)
	}
	if got := parseStat("cpu0 1 2\ncpux 1 2 3 4 5 6 7 8 9\n"); len(got) != 0 {
		t.Errorf("got %v, want nothing", got)
	}
}

func TestChooser(t *testing.T) {
	now := [][2]int{{0, 0}, {0, 0}}
	c := newChooser([]int{0, 1})
	c.stat = func() string { return stat(now...) }
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
	c.stat = func() string { return "" }
	c.forget()
	if got := c.pick(1); len(got) != 1 {
		t.Errorf("without /proc: got %v, want one", got)
	}
}
