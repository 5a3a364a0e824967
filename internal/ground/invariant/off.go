//go:build !race && !invariant

package invariant

// Enabled reports whether the program checks its own rules as it runs: under
// the race detector and with the build tag "invariant".
const Enabled = false
