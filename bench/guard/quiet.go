package main

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/bench/machine"
)

// A chooser picks the processors that other programs use least, which lowers the
// noise. Both sides of a comparison always get the same.
type chooser struct {
	allowed []int
	stat    func() string // the content of /proc/stat; "" where there is none
	last    map[int]busy
	own     map[int]time.Duration // of each, since last, by what was measured
	foreign map[int]float64       // share of each that others use, smoothed
	current int                   // kept unless another is clearly better
}

// busy are times of a processor since the machine started.
type busy struct{ busy, total time.Duration }

func newChooser(allowed []int) *chooser {
	c := &chooser{
		allowed: allowed, stat: func() string { return machine.Content("/proc/stat") },
		own: make(map[int]time.Duration), foreign: make(map[int]float64), current: allowed[len(allowed)-1],
	}
	c.forget()
	return c
}

// forget starts again, after something that used all processors.
func (c *chooser) forget() {
	c.last = parseStat(c.stat())
	clear(c.own)
}

// used adds what a measurement used of its processors.
func (c *chooser) used(cpus []int, d time.Duration) {
	for _, i := range cpus {
		c.own[i] += d / time.Duration(len(cpus))
	}
}

// window is the shortest time that is evaluated: /proc counts in steps of 10 ms.
const window = 100 * time.Millisecond

// look updates the shares of others.
func (c *chooser) look() {
	now := parseStat(c.stat())
	for _, i := range c.allowed {
		total := now[i].total - c.last[i].total
		if total < window {
			return
		}
		share := float64(now[i].busy-c.last[i].busy-c.own[i]) / float64(total)
		c.foreign[i] = c.foreign[i]/2 + min(max(share, 0), 1)/2
	}
	c.last = now
	clear(c.own)
}

// better is by how much another processor must be less used to change to it.
const better = 0.15

// pick returns n processors, all if n is 0 or there are no more.
func (c *chooser) pick(n int) []int {
	if n == 0 || n >= len(c.allowed) {
		return c.allowed
	}
	c.look()
	order := slices.Clone(c.allowed)
	weight := func(i int) float64 {
		if i == c.current {
			return c.foreign[i] - better
		}
		return c.foreign[i]
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch d := weight(a) - weight(b); {
		case d < 0:
			return -1
		case d > 0:
			return 1
		}
		return 0
	})
	c.current = order[0]
	return order[:n]
}

// parseStat reads the times of each processor from /proc/stat.
func parseStat(stat string) map[int]busy {
	const tick = 10 * time.Millisecond
	got := make(map[int]busy)
	for line := range strings.Lines(stat) {
		fields := strings.Fields(line)
		if len(fields) < 9 || !strings.HasPrefix(fields[0], "cpu") {
			continue
		}
		cpu, err := strconv.Atoi(fields[0][len("cpu"):])
		if err != nil {
			continue // the sum of all
		}
		var b busy
		// user nice system idle iowait irq softirq steal; guests are in user
		for i, f := range fields[1:9] {
			n, err := strconv.ParseInt(f, 10, 48)
			if err != nil {
				break
			}
			b.total += time.Duration(n) * tick
			if i != 3 && i != 4 {
				b.busy += time.Duration(n) * tick
			}
		}
		got[cpu] = b
	}
	return got
}
