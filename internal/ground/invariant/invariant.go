// Package invariant has checks of the program's own rules for tests. They are on under
// the race detector and with the build tag "invariant", and compiled away otherwise.
package invariant

import "fmt"

// Check panics with the message if ok is false and checks are on. A failed check is
// always a bug in the program, never a wrong input.
func Check(ok bool, format string, args ...any) {
	if Enabled && !ok {
		panic("engine bug [F9001]: " + fmt.Sprintf(format, args...))
	}
}
