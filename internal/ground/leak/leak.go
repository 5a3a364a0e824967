// Package leak makes a test binary fail if it leaves goroutines running. It is for
// tests only.
package leak

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// settle is how long Main waits for goroutines that are about to end.
const settle = 5 * time.Second

// Main runs the tests of a package and exits: with 1 if they passed but left
// goroutines running. Before it looks, it calls the functions of after. Call it from
// TestMain.
func Main(m *testing.M, after ...func()) {
	code := m.Run()
	for _, f := range after {
		f()
	}
	if code == 0 {
		if left := wait(nil, settle); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "%d goroutines left behind:\n\n%s\n", len(left), strings.Join(left, "\n\n"))
			code = 1
		}
	}
	os.Exit(code)
}

// Since notes the goroutines that run. The function that it returns waits for all
// others to end, and returns the stacks of the goroutines that do not. Only one test at
// a time can use it.
func Since() (left func() []string) {
	before := make(map[string]bool)
	for _, stack := range stray() {
		before[identity(stack)] = true
	}
	return func() []string { return wait(before, soon) }
}

// identity returns the part of a stack that names its goroutine: "goroutine 12".
func identity(stack string) string {
	id, _, _ := strings.Cut(stack, " [")
	return id
}

// soon is how long the function of Since waits.
const soon = 2 * time.Second

// wait returns the stacks of the goroutines that still run after a time, without those
// that ran before.
func wait(before map[string]bool, longest time.Duration) []string {
	deadline := time.After(longest)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		left := slices.DeleteFunc(stray(), func(stack string) bool { return before[identity(stack)] })
		if len(left) == 0 {
			return nil
		}
		select {
		case <-deadline:
			return left
		case <-tick.C:
		}
	}
}

func stray() []string {
	buf := make([]byte, 1<<20)
	buf = buf[:runtime.Stack(buf, true)]
	var left []string
	for i, stack := range strings.Split(string(buf), "\n\n") {
		if i == 0 || ofTesting(stack) { // the first is this goroutine
			continue
		}
		left = append(left, strings.TrimSpace(stack))
	}
	return left
}

// ofTesting reports whether a goroutine belongs to the runtime or the testing package.
func ofTesting(stack string) bool {
	for _, mark := range []string{
		"testing.(*M).", "testing.runTests", "testing.tRunner.func", "testing.runFuzz", "testing.(*F).Fuzz",
		"runtime.goexit0", "runtime.ReadTrace", "os/signal.signal_recv", "os/signal.loop", "runtime/pprof.profileWriter", "created by runtime.gc",
	} {
		if strings.Contains(stack, mark) {
			return true
		}
	}
	return false
}
