// Package invariant holds the checks that the engine makes of itself in tests:
// on under the race detector and with the build tag "invariant", compiled away
// otherwise.
//
// It imports nothing of the project.
package invariant

import "fmt"

// Check panics with the message if ok is false and checks are on. A failed check
// is a bug in the engine, whatever the input was.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("engine bug [F9001]: " + fmt.Sprintf(format, args...))
	}
}
