//go:build !race

package invariant

// Race reports whether the race detector is on. Then allocation budgets and timings
// mean nothing.
const Race = false
