package external_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/nodes/external"
	"github.com/uniflow-labs/uniflow/value"
)

// newFlow returns a flow whose nodes may start programs.
func newFlow(t testing.TB) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, external.Defs(stream.Options{})...)
	f.Options.Clock = node.SystemClock{}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.Options.Programs = node.AllowPrograms(exe, "confine")
	return f
}

// program is a node that runs this binary, with more fields.
func program(t testing.TB, behaviour, more string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("- {kind: exec, name: n, command: [%s], environment: {%s: %s}%s}", strconv.Quote(exe), asGuest, behaviour, more)
}

func text(s string) value.Value { return value.String(s) }

func failure(t testing.TB, r node.Response) *node.Error {
	t.Helper()
	if !r.IsError() {
		t.Fatalf("got %v, want an error", r.Payload)
	}
	return node.Describe(r.Payload.AsError())
}

func TestEcho(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "echo", ""))
	for _, want := range []value.Value{
		value.Null(), value.Int(7), text("line\nbreak \u2028 é"), value.List(value.Float(1.5), value.Bool(true)), value.Map(value.Field{Name: "a", Value: text("b")}),
		text(strings.Repeat("x", 8<<20)), text(""),
	} {
		if got := f.Send("n", want).Payload; !got.Equal(want) {
			t.Errorf("got %.100s, want %.100s", got, want)
		}
	}
}

func TestOutOfOrder(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "reverse", ", processes: 1"))
	var calls []*flowtest.Call
	for i := range 10 {
		calls = append(calls, f.Start("n", value.Int(int64(i))))
	}
	for i, c := range calls {
		if got := c.Response().Payload; !got.Equal(value.Int(int64(i))) {
			t.Errorf("got %v, want %d", got, i)
		}
	}
}

// TestMistakes has programs that break the protocol: what they had fails with a message that says why, and the next
// packet is answered.
func TestMistakes(t *testing.T) {
	for _, c := range []struct {
		send, code, want string
		status           int
	}{
		{"die", "exec_ended", "exit status 7; it said: the shelf broke", 502},
		{"text", "exec_ended", `a line that is not JSON, "Hello, I am`, 502},
		{"number", "exec_ended", `"17": an answer is a map`, 502},
		{"misspelled", "exec_output", `an answer has the field "payloda", and no payload`, 502},
		{"nothing", "exec_ended", `an answer has the "id"`, 502},
		{"long", "exec_ended", "a line longer than max_line, 1048576 bytes", 502},
		{"close", "exec_ended", "it closed its output", 502},
		{"loop", "timeout", "gave no answer within 500ms, and was killed", 504},
		{"error", "stock", "no stock", 409},
		{"plain", "exec", "it failed", 500},
	} {
		t.Run(c.send, func(t *testing.T) {
			f := newFlow(t)
			timeout := "2m"
			if c.send == "loop" {
				timeout = "500ms"
			}
			f.Load(program(t, "hostile", ", processes: 1, timeout: "+timeout+", max_line: 1MiB, backoff: {initial: 1ms}"))
			e := failure(t, f.Send("n", text(c.send)))
			if e.Code != c.code || e.Status != c.status || !strings.Contains(node.Message(e), c.want) || e.Outage || e.Node.Name != "n" {
				t.Errorf("got %v, code %s, status %d, outage %t", e, e.Code, e.Status, e.Outage)
			}
			if c.send == "loop" {
				return // a machine that is busy may take as long to start the next process
			}
			if got := f.Send("n", text("ok")); !got.Payload.Equal(text("ok")) {
				t.Errorf("got %v after the failure", got.Payload)
			}
		})
	}
}

// TestLeft expects that a program that loops for a client that has left does not keep others waiting.
func TestLeft(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ", processes: 1, in_flight: 1, timeout: 1s, backoff: {initial: 1ms}"))
	f.Send("n", text("pid"))
	c := f.Start("n", text("loop"))
	c.Cancel()
	c.Response()
	if after := f.Send("n", text("pid")); after.IsError() {
		t.Errorf("got %v", after.Payload)
	}
}

// TestSpuriousAnswers expects that answers for no one are logged, and that the process goes on.
func TestSpuriousAnswers(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ", processes: 1"))
	before := f.Send("n", text("pid")).Payload
	for _, what := range []string{"twice", "unknown"} {
		if got := f.Send("n", text(what)).Payload; !got.Equal(text(what)) {
			t.Errorf("got %v, want %s", got, what)
		}
	}
	if after := f.Send("n", text("pid")).Payload; !after.Equal(before) {
		t.Errorf("got process %v, want still %v", after, before)
	}
	if n := strings.Count(f.Log(), "an answer is for no request that is open"); n != 2 {
		t.Errorf("got %d records, want 2:\n%s", n, f.Log())
	}
}

// TestChatter expects that a program that says too much neither waits nor floods the log.
func TestChatter(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ", processes: 1"))
	for _, what := range []string{"chatter", "unfinished", "ok"} {
		if got := f.Send("n", text(what)).Payload; !got.Equal(text(what)) {
			t.Errorf("got %v, want %s", got, what)
		}
	}
	f.Close()
	log := f.Log()
	if n := strings.Count(log, "the program says"); n < 50 || n > 2000 {
		t.Errorf("got %d lines in the log", n)
	}
	said, warned := strings.Count(log, "the program says"), strings.Count(log, "lines were left out")
	if warned == 0 || warned > 1+said/20 {
		t.Errorf("got %d warnings that lines were left out, for %d lines", warned, said)
	}
}

func TestEnvironment(t *testing.T) {
	t.Setenv("SECRET_OF_THIS_PROCESS", "x")
	f := newFlow(t)
	dir := t.TempDir()
	f.Load(program(t, "hostile", ", dir: "+strconv.Quote(dir)))
	got := f.Send("n", text("env")).Payload.String()
	if strings.Contains(got, "SECRET") || !strings.Contains(got, "PATH=") || !strings.Contains(got, asGuest) {
		t.Errorf("got %s", got)
	}
	if got := f.Send("n", text("dir")).Payload.String(); got != dir {
		t.Errorf("got %s, want %s", got, dir)
	}
}

// TestEarlyEnd expects that the packets of a program that cannot run are an outage, and that the log has its reason.
func TestEarlyEnd(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "early", ", backoff: {initial: 1h}, processes: 1"))
	var last *node.Error
	for range 10 {
		if last = failure(t, f.Send("n", value.Null())); last.Outage {
			break
		}
	}
	if !last.Outage || last.Status != 503 || !strings.Contains(last.Error(), "does not run: exit status 3; it said: cannot start: no key") || last.RetryAfter <= 0 {
		t.Errorf("got %v, outage %t, again after %s", last, last.Outage, last.RetryAfter)
	}
}

func TestNoProgram(t *testing.T) {
	f := newFlow(t)
	for fields, want := range map[string]string{
		"command: [no-such-program-here]":        "start no-such-program-here: ",
		"command: 'no-such-program-here .a --b'": "no shell reads the command, which is a list such as [no-such-program-here, .a, --b]",
		"command: [cat], dir: no-such-folder":    "start cat: the folder that it runs in: stat no-such-folder: no such file or directory",
	} {
		if _, err := f.Apply("- {kind: exec, name: n, " + fields + "}"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", fields, err, want)
		}
	}
}

func TestNotAllowed(t *testing.T) {
	f := newFlow(t)
	f.Options.Programs = nil
	if list := f.Check(program(t, "echo", "")); list.HasErrors() {
		t.Errorf("got %v", list)
	}
	for _, mode := range []string{"lines", "each"} {
		_, err := f.Apply(program(t, "echo", ", mode: "+mode))
		if err == nil || !strings.Contains(err.Error(), "--allow-exec") || !strings.Contains(err.Error(), `node "n"`) {
			t.Errorf("got %v", err)
		}
	}
}

// TestFrozen expects that a change by a client of the admin server keeps what runs, and starts nothing new.
func TestFrozen(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ""))
	before := f.Send("n", text("pid")).Payload
	thaw := f.Options.Programs.Freeze()
	_, err := f.Apply(program(t, "hostile", "") + "\n- {kind: exec, name: m, command: [cat], mode: each}")
	if err == nil || !strings.Contains(err.Error(), `node "m"`) || !strings.Contains(err.Error(), "over the admin server") {
		t.Errorf("got %v", err)
	}
	f.Load(program(t, "hostile", "") + "\n- {kind: probe, name: other}")
	thaw()
	f.Load(program(t, "hostile", "") + "\n- {kind: exec, name: m, command: [cat], mode: each}")
	if after := f.Send("n", text("pid")).Payload; !after.Equal(before) {
		t.Errorf("got process %v, want still %v", after, before)
	}
}

// TestReload expects that equal settings keep the processes.
func TestReload(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ", processes: 1"))
	before := f.Send("n", text("pid")).Payload
	f.Load(program(t, "hostile", ", processes: 1") + "\n" + "- {kind: exec, name: m, command: [cat], mode: each}")
	if after := f.Send("n", text("pid")).Payload; !after.Equal(before) {
		t.Errorf("got process %v, want still %v", after, before)
	}
	f.Load(program(t, "hostile", ", processes: 1, timeout: 7s"))
	if after := f.Send("n", text("pid")).Payload; after.Equal(before) {
		t.Error("other settings have the same process")
	}
}

// TestPool expects as many processes as are needed, and no more than are allowed.
func TestPool(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "hostile", ", processes: 3, in_flight: 1"))
	pids := make(map[string]bool)
	for range 20 {
		var calls []*flowtest.Call
		for range 3 {
			calls = append(calls, f.Start("n", text("wait 20ms")), f.Start("n", text("pid")))
		}
		for i, c := range calls {
			if got := c.Response().Payload; i%2 == 1 {
				pids[got.String()] = true
			}
		}
	}
	if len(pids) < 2 || len(pids) > 3 {
		t.Errorf("got %d processes, want 2 or 3", len(pids))
	}
}

// TestStubborn expects that nothing is left of a program that does not end by itself.
func TestStubborn(t *testing.T) {
	f := newFlow(t)
	f.Load(program(t, "deaf", ", processes: 1"))
	pids := f.Send("n", value.Null()).Payload
	f.Close()
	for _, v := range pids.Elems() {
		pid, _ := v.AsInt()
		gone(t, int(pid))
	}
}

// gone waits until a process has ended.
func gone(t *testing.T, pid int) {
	t.Helper()
	look, late := time.NewTicker(5*time.Millisecond), time.After(10*time.Second)
	defer look.Stop()
	for {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("process %d still runs", pid)
		}
	}
}
