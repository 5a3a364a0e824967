package dialogue_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// killedSource names the database of the program that TestKill kills.
const killedSource = "UNIFLOW_TEST_KILLED_SOURCE"

// remembering is a process that remembers, and then asks.
const remembering = `
- {kind: session, name: talk, key: self.user, %s, ports: {out: [{name: note}]}}
- {kind: remember, name: note, set: {visits: 1000}, ports: {out: [{name: n}]}}
- {kind: ask, name: n, key: self.user}
`

// TestKill kills a program with kill -9 while it counts visits, and while a process waits for
// an answer. What was answered is there; what waited is gone, and has changed nothing.
func TestKill(t *testing.T) {
	if source := os.Getenv(killedSource); source != "" {
		countForever(t, source)
		return
	}
	source := filepath.Join(t.TempDir(), "db")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), killedSource+"="+source)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	last := 0
	lines := bufio.NewScanner(out)
	for last < 50 && lines.Scan() {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatalf("the program has said %q", lines.Text())
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for lines.Scan() { // what it has said before
		if n, err := strconv.Atoi(lines.Text()); err == nil {
			last = n
		}
	}
	_ = cmd.Wait() // it was killed

	f := newFlow(t)
	f.Options.Clock = node.SystemClock{} // as the program had
	store := fmt.Sprintf("store: {driver: sqlite, source: '%s'}", source)
	f.Load(counter(store) + fmt.Sprintf(remembering, store) + around)
	got, err := strconv.Atoi(visits(f, "ann"))
	if err != nil || last < 50 || got != last+1 && got != last+2 { // one more may have been saved
		t.Errorf("got %d visits (%v), want one or two more than %d", got, err, last)
	}
	if got := visits(f, "bob"); got != "1" {
		t.Errorf("got %s visits of a process that had not ended, want 1", got)
	}
	reply := value.Map(value.Field{Name: "user", Value: value.String("bob")})
	if got := flowtest.Show(f.Source("replies").Run(t.Context(), node.Send(0, reply))); got != "error: no question waits for this reply" {
		t.Errorf("a reply to what waited: got %s", got)
	}
}

// countForever counts visits until it is killed, and says each number after its answer.
func countForever(t *testing.T, source string) {
	f := newFlow(t)
	f.Options.Clock = node.SystemClock{}
	store := fmt.Sprintf("store: {driver: sqlite, source: '%s'}", source)
	f.Load(counter(store) + fmt.Sprintf(remembering, store) + around)
	f.Start("talk", value.Map(value.Field{Name: "user", Value: value.String("bob")}))
	for {
		if _, err := fmt.Println(visits(f, "ann")); err != nil {
			return
		}
	}
}
