package streams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// TestWindowMemory answers early what is counted as memory: when none is left, the oldest windows are sent, and
// payloads are refused. All that was answered is sent.
func TestWindowMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock = node.SystemClock{}
		f.Options.Memory = 8 << 20
		f.Load("- {kind: window, name: n, size: 1h, key: self.key, ack: early, max: 1000000, ports: {out: [{name: list}]}}")
		taken, refused := 0, 0
		text := value.String(strings.Repeat("x", 100<<10))
		f.Probe("list").Do(flowtest.None)
		for i := range 300 {
			resp := f.Send("n", value.Map(value.Field{Name: "time", Value: value.Time(time.Now())}, value.Field{Name: "key", Value: value.Int(int64(i % 4))}, value.Field{Name: "text", Value: text}))
			switch {
			case !resp.IsError():
				taken++
			case node.Describe(resp.Payload.AsError()).Status == 503:
				refused++
			default:
				t.Errorf("got %s", flowtest.Show(resp))
			}
			if held := f.Figure("window_bytes"); held > 4<<20 {
				t.Fatalf("%v bytes are held", held)
			}
			synctest.Wait()
		}
		f.Close()
		sent := 0
		for _, w := range f.Probe("list").Payloads() {
			items, _ := w.Get("items")
			sent += items.Len()
		}
		if sent != taken || refused == 0 || refused > 20 {
			t.Errorf("%d payloads were taken, and %d refused; %d were sent", taken, refused, sent)
		}
	})
}

// TestWindowLost sends a window that was answered early, and has failed, to the port error.
func TestWindowLost(t *testing.T) {
	for _, link := range []string{"", ", error: [{name: lost}]"} {
		bubble(t, "- {kind: window, name: n, size: 10s, ack: early, ports: {out: [{name: list}]"+link+"}}", func(t *testing.T, f *flowtest.Flow) {
			f.Probe("list").Do(flowtest.Fail(errors.New("down")))
			f.Probe("lost").Do(flowtest.None)
			expect(t, "answers", answers(start(f, ats(1, 2)...)), "none, none")
			<-time.After(time.Minute)
			synctest.Wait()
			got := ""
			for _, p := range f.Probe("lost").Payloads() {
				got += node.Message(p.AsError()) + " " + windowsOf([]value.Value{node.Describe(p.AsError()).Data})
			}
			if link != "" {
				expect(t, "lost", got, "down 0-10:1,2")
			} else if !strings.Contains(f.Log(), "a window is lost") {
				t.Errorf("got %s", f.Log())
			}
		})
	}
}

// TestWindowFold takes a failed step for a failure of its payload, and goes on.
func TestWindowFold(t *testing.T) {
	bubble(t, "- {kind: window, name: n, size: 10s, ack: early, init: 0, step: acc + item.n, ports: {out: [{name: list}]}}", func(t *testing.T, f *flowtest.Flow) {
		calls := start(f, at(1, 1, ""), `{"time":"2000-01-01T00:00:02Z"}`, at(3, 3, ""))
		expect(t, "answers", answers(calls), "none, error: step: no such key: n, none")
		<-time.After(time.Minute)
		synctest.Wait()
		expect(t, "windows", windowsOf(f.Probe("list").Payloads()), "0-10:4")
	})
}

// TestWindowNeverFull refuses a max that the sources upstream cannot reach, and warns of what they bound.
func TestWindowNeverFull(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	check := func(source, config, want string) {
		t.Helper()
		got := ""
		for _, d := range f.Check("- {kind: generate, name: a, " + source + ", ports: {out: [{name: n, port: in}], error: [{name: x}]}}\n- {kind: nop, name: x}\n" +
			"- {kind: window, name: n, size: 1m, " + config + "ports: {out: [{name: end}], late: [{name: end}]}}") {
			if d.Node == "n" {
				got += fmt.Sprintf("%s %s: %s\n", d.Severity, d.Path, d.Msg)
			}
		}
		expect(t, source+", "+config, got, want)
	}
	check("order: none, max_in_flight: 10", "max: 10, ", "")
	check("order: none, max_in_flight: 10", "max: 11, ", "error max: a window can never be full: what leads here has at most 10 messages in flight\n")
	check("order: none, max_in_flight: 10", "", "warning max: what leads here has at most 10 messages in flight, so no more are in windows, and longer ones are sent in parts\n")
	check("order: none, max_in_flight: 10", "ack: early, ", "")
	check("order: none, max_in_flight: 20000", "", "")
	check("order: key, max_in_flight: 20000", "", `warning : the source "a" has order: key, and sends no message before the one with the same key is answered, so a window has one message of each of these keys at a time`+"\n")
}

// TestLotHammer cancels processes and reloads, while packets wait in windows, for partners and for silence: each is
// answered, and nothing is left.
func TestLotHammer(t *testing.T) {
	const document = sides + `- {kind: join, name: n, keys: {left: self.id, right: self.id}, within: 1ms, ports: {'out[0]': [{name: end}], 'out[1]': [{name: end}]}}
- {kind: window, name: w, size: 2ms, slide: 1ms, idle: 1ms, max: 20, time: self.at, key: self.id, ports: {out: [{name: end}], late: [{name: end}]}}
- {kind: window, name: s, gap: 1ms, idle: 1ms, max: 20, time: self.at, key: self.id, ack: early, ports: {out: [{name: end}], late: [{name: end}]}}
- {kind: debounce, name: d, quiet: 1ms, key: self.id, max: 20, ports: {out: [{name: end}]}}
`
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	var n atomic.Int64
	f.Load(document)
	f.Probe("end").Do(func(_ node.Process, pkt node.Packet) node.Result {
		if n.Add(1)%3 == 0 {
			return node.Fail(errors.New("third"))
		}
		return node.Answer(pkt.Payload)
	})
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var good [4]atomic.Int64
	for i := range 16 {
		group.Go(func() {
			for j := int64(0); ctx.Err() == nil; j++ {
				own, leave := context.WithTimeout(context.Background(), time.Duration(200+200*i)*time.Microsecond)
				_, _, err := f.Engine().Run(own, []string{"side", "w", "s", "d"}[i%4], value.Map(
					value.Field{Name: "at", Value: value.Time(time.Now())}, value.Field{Name: "id", Value: value.Int(j % 3)}, value.Field{Name: "side", Value: value.String([]string{"l", "r"}[i/4%2])}))
				if leave(); err == nil {
					good[i%4].Add(1)
				}
			}
		})
	}
	enough := func() bool {
		for i := range good {
			if good[i].Load() < 50 {
				return false
			}
		}
		return true
	}
	for i := 0; i < 30 || !enough(); i++ {
		f.Load(document)
	}
	stop()
	group.Wait()
	f.Close()
}
