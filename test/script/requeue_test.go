package script

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRequeueKilled kills uniflow dead requeue while it works, again and again, as letters
// fail again and others come. Then each letter has gone through the workflow.
func TestRequeueKilled(t *testing.T) {
	const letters, kills = 3000, 5
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, command)
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	read := func(name string) []byte {
		text, err := os.ReadFile(file(name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return text
	}
	made := 0
	more := func(n int) { // as a sink of a program that goes on writes them
		f, err := os.OpenFile(file("dead.ndjson"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		for range n {
			fmt.Fprintf(&b, `{"message":"no","node":"%c","data":{"body":{"n":%d},"id":"%d"}}`+"\n", 'a'+made%2, made, made)
			made++
		}
		if _, err := f.Write(b.Bytes()); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
	}
	const flow = `
- {kind: file_source, name: a, paths: [none], retry: {threshold: 0}, ports: {out: [{name: t}], error: [{name: dead}]}}
- {kind: file_source, name: b, paths: [none], retry: {threshold: 0}, batch: {count: 10}, ports: {out: [{name: t}], error: [{name: dead}]}}
- {kind: snippet, name: t, language: javascript, code: 'export default (p) => { for (const m of [].concat(p)) if (m.body.n % 7 == 3 && !FIXED) throw "no"; return [].concat(p).map(m => m.body.n) }', ports: {out: [{name: out}]}}
- {kind: file_sink, name: out, path: out.ndjson}
- {kind: file_sink, name: dead, path: dead.ndjson}
`
	requeue := func(fixed string) *exec.Cmd {
		if err := os.WriteFile(file("flow.yaml"), []byte(strings.Replace(flow, "FIXED", fixed, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), program, "dead", "requeue", "dead.ndjson", "flow.yaml", "--progress", "none", "--max-dead", "0", "--allow-dead", "100000")
		cmd.Dir = dir
		return cmd
	}
	// Positions of a file that is gone do not apply to this one.
	if err := os.WriteFile(file("dead.ndjson.requeue.a.pos"), []byte(`{"positions":{"letters":"100000"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	more(letters)
	lot := rand.New(rand.NewPCG(1, 2))
	for range kills {
		cmd := requeue("false")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		until, ended := len(read("out.ndjson"))+lot.IntN(8000), time.After(500*time.Millisecond)
	wait:
		for tick := time.Tick(time.Millisecond); len(read("out.ndjson")) < until; {
			select {
			case <-tick:
			case <-ended: // it has sent all that it can, or waits to remove the file
				break wait
			}
		}
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		more(10)
	}
	for range 3 { // what was begun, then what has come meanwhile
		if out, err := requeue("true").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if len(read("dead.ndjson")) == 0 {
			break
		}
	}
	times := make(map[string]int)
	for line := range strings.Lines(string(read("out.ndjson"))) {
		times[strings.TrimSpace(line)]++
	}
	twice := 0
	for n := range made {
		if times[fmt.Sprint(n)] == 0 {
			t.Errorf("letter %d is lost", n)
		}
		twice += times[fmt.Sprint(n)] - 1
	}
	t.Logf("%d letters, %d kills: %d came again", made, kills, twice)
	for _, name := range []string{"dead.ndjson.requeue", "dead.ndjson.requeue.a.pos", "dead.ndjson.requeue.b.pos"} {
		if _, err := os.Stat(file(name)); err == nil {
			t.Errorf("%s is left: %s", name, read(name))
		}
	}
	if left := read("dead.ndjson"); len(left) > 0 {
		t.Errorf("letters are left: %.300s", left)
	}
}
