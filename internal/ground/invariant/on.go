//go:build race || invariant

package invariant

// Enabled reports whether checks are on.
const Enabled = true
