package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/procfs"
)

// A chooser picks the processors that other programs use least, which lowers the
// noise. Both sides of a comparison always get the same.
type chooser struct {
	allowed []int
	stat    func() map[int]busy // now
	last    map[int]busy
	own     map[int]time.Duration // of each, since last, by what was measured
	foreign map[int]float64       // share of each that others use, smoothed
	current int                   // kept unless another is clearly better
}

// busy are times of a processor since the machine started.
type busy struct{ busy, total time.Duration }

func newChooser(allowed []int) *chooser {
	c := &chooser{
		allowed: allowed, stat: readStat,
		own: make(map[int]time.Duration), foreign: make(map[int]float64), current: allowed[len(allowed)-1],
	}
	c.forget()
	return c
}

// forget starts again, after something that used all processors.
func (c *chooser) forget() {
	c.last = c.stat()
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
	now := c.stat()
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
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(weight(a), weight(b)) })
	c.current = order[0]
	return order[:n]
}

// readStat returns the times of each processor; none where there is no /proc.
func readStat() map[int]busy {
	got := make(map[int]busy)
	fs, err := procfs.NewDefaultFS()
	if err != nil {
		return got
	}
	stat, err := fs.Stat()
	if err != nil {
		return got
	}
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	for cpu, t := range stat.CPU {
		used := t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal // guests are in user
		got[int(cpu)] = busy{seconds(used), seconds(used + t.Idle + t.Iowait)}
	}
	return got
}
