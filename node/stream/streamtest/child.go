package streamtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Environment variables of a child, which is this test binary.
const (
	childOf    = "STREAMTEST_CHILD"    // the name of the test that calls Run
	childDoc   = "STREAMTEST_DOCUMENT" // a file
	childFirst = "STREAMTEST_FIRST"    // of a sink: the first number to send; empty for a source
	childHolds = "STREAMTEST_HOLDS"    // of a source: some messages are not answered
)

// child runs a workflow until it is killed, and prints what it has done: "done ID" before
// a source's message is answered, and after a sink has confirmed one. A line that begins
// with ! makes the test fail.
func (s *Subject) child(t *testing.T) int {
	var work sync.WaitGroup
	defer work.Wait()
	orphan := make(chan struct{})
	work.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent
		close(orphan)
	})
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		_, _ = fmt.Fprintf(os.Stdout, format+"\n", args...) // without a parent it ends anyway
	}
	doc, err := os.ReadFile(os.Getenv(childDoc))
	if err != nil {
		say("! %v", err)
		return 1
	}
	l := newLedger(s.bodyOf)
	l.tell = func(run []took) {
		for _, m := range run {
			say("done %d", m.id)
		}
	}
	if os.Getenv(childHolds) != "" {
		var held atomic.Int32
		l.decide = func(run []took) verdict {
			if n := int32(len(run)); run[0].id%50 == 7 {
				if held.Add(n) <= 16 { // it has places for more messages
					return verdict{until: orphan}
				}
				held.Add(-n)
			}
			return verdict{}
		}
	}
	flow := s.flow(t, l, os.Stderr)
	list, err := flow.Apply(string(doc))
	if err != nil || list.HasErrors() {
		say("! %v %v", list, err)
		return 1
	}
	engine := flow.Engine()
	say("ready")
	if text := os.Getenv(childFirst); text != "" {
		first, err := strconv.Atoi(text)
		if err != nil {
			say("! %v", err)
			return 1
		}
		for i := range senders {
			work.Go(func() {
				for id := first + i; ; id += senders {
					b := body{ID: id, Key: fmt.Sprint("k", i), Seq: id, Pad: "x"}
					if _, _, err := engine.Run(context.Background(), "sink", payload(b)); err != nil {
						say("! %v", err)
						return
					}
					say("done %d", id)
				}
			})
		}
	}
	<-orphan
	return 1
}

// A killed is a child of this test.
type killed struct {
	rig    *rig
	cmd    *exec.Cmd
	stdin  io.Closer
	reader sync.WaitGroup
	mu     struct {
		sync.Mutex
		ready bool
		done  []int
	}
}

// child starts a child with a document.
func (r *rig) child(doc string, env ...string) *killed {
	r.Helper()
	file := filepath.Join(r.TempDir(), "child.yaml")
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		r.Fatal(err)
	}
	// The test that calls Run has the row as a subtest of a subtest.
	name := r.Name()
	for range 2 {
		name = name[:strings.LastIndexByte(name, '/')]
	}
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + p + "$"
	}
	cmd := exec.CommandContext(r.Context(), os.Args[0], "-test.run="+strings.Join(parts, "/"))
	cmd.Env = append(append(os.Environ(), childOf+"="+name, childDoc+"="+file), env...)
	cmd.Stderr = &r.log
	in, err := cmd.StdinPipe()
	if err != nil {
		r.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		r.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.Fatal(err)
	}
	k := &killed{rig: r, cmd: cmd, stdin: in}
	k.reader.Go(func() { k.read(out) })
	return k
}

func (k *killed) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return // an incomplete line does not count
		}
		line = strings.TrimSuffix(line, "\n")
		id, done := strings.CutPrefix(line, "done ")
		switch {
		case done:
			n, err := strconv.Atoi(id)
			if err != nil {
				k.rig.Errorf("child: %s", line)
				continue
			}
			k.mu.Lock()
			k.mu.done = append(k.mu.done, n)
			k.mu.Unlock()
		case line == "ready":
			k.mu.Lock()
			k.mu.ready = true
			k.mu.Unlock()
		case strings.HasPrefix(line, "!"):
			k.rig.Errorf("child: %s", line)
		}
	}
}

// wait waits until the child has done something, or just until it is ready.
func (k *killed) wait(least int) {
	k.rig.Helper()
	k.rig.until(fmt.Sprintf("the child is ready and has done %d", least), patience, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		return k.mu.ready && len(k.mu.done) >= least
	})
}

// kill ends the child as kill -9 does, and returns what it had done.
func (k *killed) kill() []int {
	k.rig.Helper()
	if err := k.cmd.Process.Kill(); err != nil {
		k.rig.Errorf("kill: %v", err)
	}
	k.reader.Wait()
	_ = k.cmd.Wait() // the error is that it was killed
	_ = k.stdin.Close()
	return k.mu.done
}

// sourceKill: a process is killed at random times. Each message that was produced is
// answered. What comes twice was in flight, or settled since the last commit; and where
// positions are committed and some messages are not answered, what is above those.
func sourceKill(r *rig) {
	const (
		flight = 64
		// since is how many messages may be settled and not committed.
		since = 2000
	)
	kills := scale(2, 25)
	twice := r.surviveKills(kills, flight, childHolds+"=1")
	r.Logf("%d kills while some messages were not answered: %d came again after they were", kills, twice)
	twice = r.surviveKills(kills, flight)
	r.Logf("%d kills: %d came again after they were answered", kills, twice)
	if most := kills * (flight + since); twice > most {
		r.Errorf("%d messages more than were made, want at most %d", twice, most)
	}
}

// surviveKills kills children, and lets a last one answer what is left. It returns how many more
// answers there were than messages.
func (r *rig) surviveKills(kills, flight int, env ...string) (twice int) {
	r.Helper()
	doc := r.source(fields{"order": "none", "max_in_flight": flight})
	first := r.made() + 1
	done := make(map[int]int)
	count := func(ids []int) {
		for _, id := range ids {
			done[id]++
		}
	}
	for i := range kills {
		r.produce(500, 100, 20)
		k := r.child(doc, env...)
		if i == 0 { // late enough that something was committed
			k.wait(100)
			r.pause(calm)
		} else {
			k.wait(r.rnd.IntN(100))
			r.pause(time.Duration(r.rnd.IntN(50)) * time.Millisecond)
		}
		count(k.kill())
	}
	r.produce(10, 10, 20)
	k := r.child(doc)
	r.until("the last child has answered what was left", patience, func() bool {
		k.mu.Lock()
		defer k.mu.Unlock()
		all := make(map[int]bool)
		for _, id := range k.mu.done {
			all[id] = true
		}
		for id := range done {
			all[id] = true
		}
		for id := first; id <= r.made(); id++ {
			if !all[id] {
				return false
			}
		}
		return true
	})
	r.settled()
	count(k.kill())
	for _, n := range done {
		twice += n - 1
	}
	return twice
}

// sinkKill: what was confirmed to a process that was killed has arrived.
func sinkKill(r *rig) {
	const apart = 1_000_000 // between the numbers of two children
	kills := scale(5, 50)
	doc := r.sink(nil)
	confirmed := make(map[int]bool)
	for i := range scale(5, 50) {
		k := r.child(doc, childFirst+"="+fmt.Sprint(i*apart+1))
		k.wait(1 + r.rnd.IntN(100))
		for _, id := range k.kill() {
			confirmed[id] = true
		}
	}
	copies := r.holds(confirmed)
	r.Logf("%d kills, %d messages confirmed, %d arrived", kills, len(confirmed), len(copies))
}
