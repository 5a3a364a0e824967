//go:build !race

package invariant

// Race reports whether the race detector is on, under which allocation budgets
// and timings mean nothing.
const Race = false
