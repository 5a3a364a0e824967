//go:build faults

package kill

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// Enabled reports whether the program can be killed at points.
const Enabled = true

// variable says where the program is killed.
const variable = "UNIFLOW_KILL"

// A plan is where the program is killed, and how often it passes there until then.
type plan struct {
	at   Point
	left *atomic.Int64
}

var asked = sync.OnceValue(func() plan {
	text := os.Getenv(variable)
	if text == "" {
		return plan{}
	}
	point, times, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if !ok || err != nil || n < 1 {
		panic(variable + "=" + text + ": want a point and a number, such as K5:3")
	}
	k := plan{at: Point(point), left: new(atomic.Int64)}
	k.left.Store(n)
	return k
})

// At kills the program if it has come to a point where it is asked to, for the time that it is asked to.
func At(p Point, come bool) {
	k := asked()
	if !come || k.at != p || k.left.Add(-1) != 0 {
		return
	}
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = self.Kill()
	}
	if err != nil {
		panic(err)
	}
	select {}
}
