package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/uniflow-labs/uniflow/bench/program"
	"github.com/uniflow-labs/uniflow/bench/server"
)

// mostWaiting is the share of the time, in percent, that may be spent waiting for one
// of our locks.
const mostWaiting = 1.0

// contended is how long each workflow is loaded.
const contended = 4 * time.Second

// BenchmarkContention serves workflows with mutex and block profiles, loads them, and prints
// for each lock, and who takes it, what share of the processors' time was spent
// waiting for it. It fails if one that is taken in our code is above the limit. It needs
// dist/uniflow: make contention builds it. The output of benchmarks is cut, so tables are printed.
func BenchmarkContention(b *testing.B) {
	l, err := program.NewLab(filepath.Join("..", "dist", "uniflow"), os.Stdout)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // a temporary folder
	all, err := server.Workloads(filepath.Join("..", "examples"))
	if err != nil {
		b.Fatal(err)
	}
	for _, w := range all {
		b.Run(w.Name, func(b *testing.B) {
			mutex, block := l.File(w.Name+".mutex"), l.File(w.Name+".block")
			got, err := w.Run(b.Context(), l.Binary, l.Dir, nil, contended, "--mutexprofile", mutex, "--blockprofile", block)
			if err != nil {
				b.Fatal(err)
			}
			waits, err := readWaits(mutex, block)
			if err != nil {
				b.Fatal(err)
			}
			whole := got.Elapsed * time.Duration(runtime.NumCPU())
			var table program.Table
			table.Figures("WAITED", "SHARE", "TIMES")
			table.Text("PROFILE", "TAKEN BY", "CALLED FROM", "")
			for _, wait := range waits {
				share := 100 * float64(wait.delay) / float64(whole)
				verdict := ""
				if wait.ours && share > mostWaiting {
					verdict = "above the limit"
					b.Fail()
				}
				if share >= 0.01 || wait.ours {
					table.Row(wait.delay.Round(time.Microsecond), fmt.Sprintf("%.3f %%", share), wait.count, wait.profile, wait.by, wait.from, verdict)
				}
			}
			if table.Body() == "" {
				table.Row("no lock was waited for", "", "", "", "", "", "")
			}
			if err := table.Print(os.Stdout, fmt.Sprintf("%s: %d requests in %v; shares are of %v of processor time", w.Name, got.Requests, got.Elapsed.Round(time.Millisecond), whole.Round(time.Millisecond))); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// A wait is what a profile says of one place that takes a lock.
type wait struct {
	profile string // mutex: a lock was held while others waited; block: a goroutine waited
	by      string // the function that takes the lock
	from    string // the function of ours that this is for; empty if none is in the stack
	ours    bool   // the lock is taken in our code, and not within a library
	delay   time.Duration
	count   int64
}

// readWaits returns what was waited for by place, the longest first.
func readWaits(mutex, block string) ([]wait, error) {
	var all []wait
	for _, file := range []struct{ name, path string }{{"mutex", mutex}, {"block", block}} {
		p, err := program.ReadProfile(file.path)
		if err != nil {
			return nil, fmt.Errorf("%s profile: %w", file.name, err)
		}
		all = append(all, waitsOf(file.name, p)...)
	}
	slices.SortStableFunc(all, func(a, b wait) int { return cmp.Compare(b.delay, a.delay) })
	return all, nil
}

// locks are the functions that wait for locks or release them. Idle goroutines
// wait for channels and timers, so these do not count.
var locks = []string{
	"sync.(*Mutex).", "sync.(*RWMutex).", "internal/sync.(*Mutex).", module + "/lock.(*Mutex).", "runtime.unlock", "runtime._LostContendedRuntimeLock",
}

func isLock(function string) bool {
	return slices.ContainsFunc(locks, func(l string) bool { return strings.HasPrefix(function, l) })
}

// waitsOf sums up the samples of a profile by who takes the lock and for whom.
func waitsOf(name string, p *profile.Profile) []wait {
	type place struct{ by, from string }
	at := make(map[place]int)
	var waits []wait
	for _, sample := range p.Sample {
		by, from, ok := taker(program.Stack(sample))
		if !ok {
			continue
		}
		i, ok := at[place{by, from}]
		if !ok {
			i = len(waits)
			at[place{by, from}] = i
			waits = append(waits, wait{profile: name, by: by, from: from, ours: strings.HasPrefix(by, module)})
		}
		waits[i].count += sample.Value[0]
		waits[i].delay += time.Duration(sample.Value[1])
	}
	return waits
}

// taker returns the first function that is not a lock's, and the first of ours. It
// is not ok if the innermost is not a lock's.
func taker(functions []string) (by, from string, ok bool) {
	if len(functions) == 0 || !isLock(functions[0]) {
		return "", "", false
	}
	for _, f := range functions {
		if isLock(f) {
			continue
		}
		if by == "" {
			by = f
		}
		if strings.HasPrefix(f, module) {
			return by, strings.TrimPrefix(f, module+"/"), true
		}
	}
	return by, "", by != ""
}
