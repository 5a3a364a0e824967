package streams_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// at is the payload n of a key, so many seconds after the time at which the clock of a bubble starts.
func at(seconds, n int, key string) string {
	return fmt.Sprintf(`{"time":%q,"n":%d,"key":%q}`, time.Unix(946684800+int64(seconds), 0).UTC().Format(time.RFC3339), n, key)
}

// ats are payloads without keys; each counts from 1.
func ats(seconds ...int) (all []string) {
	for i, s := range seconds {
		all = append(all, at(s, i+1, ""))
	}
	return all
}

// windowsOf shows windows: [start,end) in seconds, key, numbers or value, and a * for a part.
func windowsOf(sent []value.Value) string {
	var all []string
	for _, w := range sent {
		get := func(name string) value.Value { v, _ := w.Get(name); return v }
		second := func(name string) int64 { t, _ := get(name).AsTime(); return t.Unix() - 946684800 }
		text := fmt.Sprintf("%d-%d:", second("start"), second("end"))
		if key := get("key"); !key.IsNull() {
			text += key.String() + ":"
		}
		if v, ok := w.Get("value"); ok {
			text += v.String()
		}
		for i, item := range get("items").Elems() {
			if i > 0 {
				text += ","
			}
			n, _ := item.Get("n")
			text += n.String()
		}
		if get("partial").Truth() {
			text += "*"
		}
		all = append(all, text)
	}
	slices.Sort(all) // windows that end together are sent at the same time
	return strings.Join(all, " ")
}

func TestWindow(t *testing.T) {
	f := func(config string, payloads []string, wantWindows, wantAnswers string, wantTook time.Duration) {
		t.Helper()
		bubble(t, "- {kind: window, name: n, "+config+", ports: {out: [{name: list}], late: [{name: late}]}}", func(t *testing.T, f *flowtest.Flow) {
			f.Probe("late").Do(flowtest.Answer(value.String("late")))
			began := time.Now()
			calls := start(f, payloads...)
			got := answers(calls)
			synctest.Wait()
			for f.Figure("window_open") > 0 {
				<-time.After(time.Second)
				synctest.Wait()
			}
			took := time.Since(began)
			expect(t, config+" answers", got, wantAnswers)
			expect(t, config+" windows", windowsOf(f.Probe("list").Payloads()), wantWindows)
			if took != wantTook {
				t.Errorf("%s: took %s, want %s", config, took, wantTook)
			}
		})
	}
	// The last window ends by the clock: the idle time, or the rest of the window if that is longer.
	f("size: 10s", ats(1, 9, 10, 25), "0-10:1,2 10-20:3 20-30:4", "none, none, none, none", 10*time.Second)
	f("size: 30s", ats(1, 2), "0-30:1,2", "none, none", 28*time.Second)
	f("size: 10s", ats(1, 12, 3), "0-10:1 10-20:2", `none, none, "late"`, 10*time.Second)
	f("size: 10s, late: 5s", ats(1, 12, 3, 16, 4), "0-10:1,3 10-20:2,4", `none, none, none, none, "late"`, 10*time.Second)
	f("size: 10s, slide: 5s", ats(1, 6, 11), "-5-5:1 0-10:1,2 10-20:3 5-15:2,3", "none, none, none", 10*time.Second)
	f("gap: 5s", ats(1, 4, 9, 30), "1-9:1,2 30-35:4 9-14:3", "none, none, none, none", 10*time.Second)
	f("gap: 5s, late: 20s", ats(1, 9, 5), "1-14:1,2,3", "none, none, none", 25*time.Second)
	f("size: 10s, key: self.key", []string{at(1, 1, "a"), at(2, 2, "b"), at(3, 3, "a")}, "0-10:a:1,3 0-10:b:2", "none, none, none", 10*time.Second)
	f("size: 10s, max: 2", ats(1, 2, 3), "0-10:1,2* 0-10:3*", "none, none, none", 10*time.Second)
	f("size: 10s, ack: early", ats(1, 9, 10, 3), "0-10:1,2 10-20:3", `none, none, none, "late"`, 10*time.Second)
	f("size: 10s, ack: early, init: 0, step: acc + item.n", ats(1, 9, 10), "0-10:3 10-20:3", "none, none, none", 10*time.Second)
	f("gap: 5s, late: 20s, ack: early, init: 0, step: acc + item.n", ats(1, 9, 5), "1-6:1* 5-14:5*", "none, none, none", 25*time.Second)
	f("size: 10s", []string{`{}`, `{"time":7}`, `{"time":"noon"}`, `{"time":"1066-10-14T00:00:00Z"}`, `{"time":"2000-01-03T00:00:00Z"}`}, "",
		"error: time: no such key: time, error: time: want a timestamp, got integer: in CEL, write such as timestamp(self.body.at), "+
			`error: time: want a timestamp such as 2026-01-31T12:00:00Z, got "noon", `+
			"error: time: 1066-10-14T00:00:00Z is out of range: years from 1700 to 2200 are taken, "+
			"error: time: 2000-01-03T00:00:00Z is more than 24h0m0s ahead of the clock, and would end all windows before it", 0)
}

// TestWindowFails opens a window again for its messages after its process has failed.
func TestWindowFails(t *testing.T) {
	bubble(t, "- {kind: window, name: n, size: 10s, ports: {out: [{name: list}]}}", func(t *testing.T, f *flowtest.Flow) {
		var down atomic.Bool
		down.Store(true)
		f.Probe("list").Do(func(node.Process, node.Packet) node.Result {
			if down.Load() {
				return node.Fail(errors.New("down"))
			}
			return node.None()
		})
		expect(t, "answers", answers(start(f, ats(1, 2, 15)[:2]...)), "error: down, error: down")
		down.Store(false)
		expect(t, "again", answers(start(f, ats(1, 2)...)), "none, none")
		expect(t, "another", answers(start(f, at(3, 3, ""), at(-3, 3, ""))), "none, error: late: the windows of this time have been sent")
		expect(t, "windows", windowsOf(f.Probe("list").Payloads()), "0-10:1,2 0-10:1,2 0-10:3*")

		down.Store(true)
		expect(t, "answers", answers(start(f, at(21, 1, ""), at(22, 2, ""))), "error: down, error: down")
		down.Store(false)
		expect(t, "one of two", answers(start(f, at(21, 1, ""))), "none")
		expect(t, "the other", answers(start(f, at(22, 2, ""))), "none")
		expect(t, "windows", windowsOf(f.Probe("list").Payloads()[3:]), "20-30:1* 20-30:1,2 20-30:2*")
	})
}
