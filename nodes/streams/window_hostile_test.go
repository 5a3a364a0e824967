package streams_test

import (
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// counted are windows that count their payloads, linked to a probe list.
func counted(config string) string {
	return "- {kind: window, name: n, ack: early, init: 0, step: acc + 1, " + config + ", ports: {out: [{name: list}], late: [{name: late}]}}"
}

// sum adds up what windows have counted.
func sum(sent []value.Value) (all int64) {
	for _, w := range sent {
		v, _ := w.Get("value")
		n, _ := v.AsInt()
		all += n
	}
	return all
}

// TestWindowKeys counts a million payloads of as many keys against the bound: it holds, and each payload is counted
// once. Without STREAM_FAULTS=full, they are fewer.
func TestWindowKeys(t *testing.T) {
	keys := 50_000
	if os.Getenv("STREAM_FAULTS") == "full" {
		keys = 1_000_000
	}
	for _, config := range []string{"size: 1h", "gap: 10s"} {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock = node.SystemClock{}
		f.Load("- {kind: window, name: n, ack: early, init: 0, step: acc + 1, max: 1000, key: self.key, " + config + ", ports: {out: [{name: list}]}}")
		var windows, payloads atomic.Int64
		f.Probe("list").Do(func(_ node.Process, pkt node.Packet) node.Result {
			windows.Add(1)
			payloads.Add(sum([]value.Value{pkt.Payload}))
			return node.None()
		})
		began := time.Now()
		for i := range keys {
			f.Send("n", value.Map(value.Field{Name: "key", Value: value.Int(int64(i))}, value.Field{Name: "time", Value: value.Time(time.Unix(1_600_000_000, int64(i)*1e6))}))
			if open := f.Figure("window_open"); i%1000 == 0 && open > 1000 {
				t.Fatalf("%v windows are open", open)
			}
		}
		t.Logf("%s: %v a payload", config, time.Since(began)/time.Duration(keys))
		f.Close()
		if got := payloads.Load(); got != int64(keys) || windows.Load() != int64(keys) {
			t.Errorf("%s: %d payloads are counted in %d windows, want %d", config, got, windows.Load(), keys)
		}
	}
}

// TestWindowLongKeys counts keys as memory.
func TestWindowLongKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock = node.SystemClock{}
		f.Options.Memory = 8 << 20
		f.Load(counted("size: 1h, key: self.key, max: 1000000"))
		for i := range 200 {
			f.Send("n", value.Map(value.Field{Name: "time", Value: value.Time(time.Now())}, value.Field{Name: "key", Value: value.String(fmt.Sprint(i, strings.Repeat("x", 100<<10)))}))
			if open := f.Figure("window_open"); open > 50 {
				t.Fatalf("%v windows are open, with keys of 100 KiB each", open)
			}
			synctest.Wait()
		}
		f.Close()
	})
}

// TestWindowsAtOnce ends many windows at one time: only some of their processes are under way, and all are sent.
func TestWindowsAtOnce(t *testing.T) {
	const keys = 3000
	bubble(t, counted("size: 10s, key: self.n"), func(t *testing.T, f *flowtest.Flow) {
		var under, most atomic.Int64
		f.Probe("list").Do(func(node.Process, node.Packet) node.Result {
			most.Store(max(most.Load(), under.Add(1)))
			return node.Sleep(time.Second, func(node.Process, node.Response) node.Result {
				under.Add(-1)
				return node.None()
			})
		})
		for i := range keys {
			f.Send("n", parse(at(1, i, "")))
		}
		<-time.After(9 * time.Second)
		synctest.Wait()
		<-time.After(3 * time.Second)
		synctest.Wait()
		if got := sum(f.Probe("list").Payloads()); got != keys || most.Load() > 1024 {
			t.Errorf("%d payloads are counted, with %d windows under way", got, most.Load())
		}
	})
}

// TestWindowsLost says how many windows are lost when the grace of a shutdown ends before their turn has come.
func TestWindowsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock, f.Options.Grace = node.SystemClock{}, 2*time.Second
		f.Load(counted("size: 10s, key: self.n"))
		f.Probe("list").Do(func(node.Process, node.Packet) node.Result {
			return node.Sleep(time.Hour, func(node.Process, node.Response) node.Result { return node.None() })
		})
		for i := range 1500 {
			f.Send("n", parse(at(1, i, "")))
		}
		err := f.Engine().Shutdown(t.Context())
		if err == nil || !strings.Contains(err.Error(), "476 windows that were answered early are lost") {
			t.Errorf("got %v", err)
		}
	})
}

// TestWindowClock has the clock of the machine jump by days, ahead and back: each payload is counted or late.
func TestWindowClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flowtest.New(t, std.Defs("")...)
		jumping := &jumpingClock{}
		f.Options.Clock = jumping
		f.Load(counted("size: 10s, late: 5s"))
		f.Probe("late").Do(flowtest.None)
		sent := 0
		for i, jump := range []time.Duration{0, 48 * time.Hour, 0, -96 * time.Hour, 0, 48 * time.Hour, 0} {
			jumping.by.Add(int64(jump))
			for j := range 5 {
				event := value.Map(value.Field{Name: "time", Value: value.Time(jumping.Now())}, value.Field{Name: "n", Value: value.Int(int64(i + j))})
				if resp := f.Send("n", event); resp.IsError() {
					t.Errorf("after %v: got %s", jump, flowtest.Show(resp))
				}
				sent++
				<-time.After(time.Second)
			}
		}
		<-time.After(time.Hour)
		synctest.Wait()
		if open := f.Figure("window_open"); open > 0 {
			t.Errorf("%v windows are open after an hour", open)
		}
		if got := int(sum(f.Probe("list").Payloads())) + len(f.Probe("late").Payloads()); got != sent {
			t.Errorf("%d payloads are counted or late, want %d", got, sent)
		}
		f.Close()
	})
}

// A jumpingClock is the clock of a machine that is set while the program runs: its times have no monotonic part.
type jumpingClock struct {
	node.SystemClock
	by atomic.Int64
}

// Now implements [node.Clock].
func (c *jumpingClock) Now() time.Time { return time.Now().Add(time.Duration(c.by.Load())).Round(0) }

// TestWindowOddities gives a window events far ahead, NaN as key and as value, and steps without a value.
func TestWindowOddities(t *testing.T) {
	f := func(name, config string, payloads []string, wantWindows, wantAnswers string) {
		t.Helper()
		bubble(t, "- {kind: window, name: n, "+config+", ports: {out: [{name: list}], late: [{name: late}]}}", func(t *testing.T, f *flowtest.Flow) {
			f.Probe("late").Do(flowtest.Answer(value.String("late")))
			calls := start(f, payloads...)
			<-time.After(48 * time.Hour)
			synctest.Wait()
			expect(t, name+" answers", answers(calls), wantAnswers)
			expect(t, name+" windows", windowsOf(f.Probe("list").Payloads()), wantWindows)
		})
	}
	day := 24 * 60 * 60
	f("a day ahead", "size: 10s", ats(5, day-10, 6), "0-10:1 86390-86400:2", `none, none, "late"`)
	f("more than a day ahead", "size: 10s", ats(5, day+10, 6), "0-10:1,3", "none, error: time: 2000-01-02T00:00:10Z is more than 24h0m0s ahead of the clock, and would end all windows before it, none")
	f("before 1970", "size: 7s, late: 48h", ats(-1, -946684800-1), "-5-2:1", `none, "late"`)
	f("no init", "size: 10s, ack: early, step: 'acc == null ? item.n : acc + item.n'", ats(1, 2), "0-10:3", "none, none")
	f("null as a value", "size: 10s, ack: early, init: 0, step: 'null'", ats(1, 2), "0-10:null", "none, none")
	f("not a number", "size: 10s, key: 0.0 / 0.0", ats(1, 2), "0-10:NaN:1,2", "none, none")
	f("not a number as a value", "size: 10s, ack: early, init: 0.0, step: acc / 0.0", ats(1, 2), "0-10:NaN", "none, none")
	f("equal numbers", "size: 10s, key: 'self.n == 1 ? 0.0 : self.n == 2 ? -0.0 : 0'", ats(1, 2, 3), "0-10:0:1,2,3", "none, none, none")
	f("time is not a number", "size: 10s, time: 0.0 / 0.0", ats(1), "", "error: time: want a timestamp, got float: in CEL, write such as timestamp(self.body.at)")
	f("no payload", "size: 10s", []string{"null", "[]", `""`}, "", "error: time: no such key: time, error: time: unsupported index type 'string' in list, error: time: no such key: time")
}
