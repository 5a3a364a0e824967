package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/internal/clock"
	"github.com/uniflow-labs/uniflow/internal/ground/leak"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/schedule"
	"github.com/uniflow-labs/uniflow/value"
)

func TestMain(m *testing.M) { leak.Main(m) }

func doc(fields string) string {
	return "- {kind: schedule, name: n, " + fields + ", ports: {out: [{name: job}]}}\n"
}

// flow returns a flow at a time.
func flow(t *testing.T, at string) *flowtest.Flow {
	t.Helper()
	now, err := time.Parse(time.RFC3339, at)
	if err != nil {
		t.Fatal(err)
	}
	return flowAt(t, &leaping{Fake: clock.New(now)})
}

func flowAt(t *testing.T, c *leaping) *flowtest.Flow {
	t.Helper()
	f := flowtest.New(t, schedule.Defs()...)
	f.Options.Clock = c
	f.Options.Metrics = true
	c.Begin()
	f.Engine() // registers its cleanup
	t.Cleanup(func() { c.End(); f.Close(); c.Close() })
	return f
}

// A leaping clock can be set forward and back.
type leaping struct {
	*clock.Fake
	ahead atomic.Int64
}

func (l *leaping) Now() time.Time { return l.Fake.Now().Add(time.Duration(l.ahead.Load())) }

func (l *leaping) leap(d time.Duration) { l.ahead.Add(int64(d)) }

// got returns the times of the ticks that a probe has got.
func got(f *flowtest.Flow) string {
	var times []string
	for _, p := range f.Probe("job").Payloads() {
		at, _ := p.Get("time")
		times = append(times, at.String())
	}
	return strings.Join(times, " ")
}

func figures(t *testing.T, f *flowtest.Flow, want string) {
	t.Helper()
	var all []string
	for _, figure := range f.Engine().Metrics().Figures {
		if figure.Metric.Value != 0 {
			all = append(all, fmt.Sprintf("%s=%v", strings.TrimSuffix(strings.TrimPrefix(figure.Metric.Name, "schedule_"), "_total"), figure.Metric.Value))
		}
	}
	if got := strings.Join(all, " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// moment lets the ticks happen that are due when a test has slept.
const moment = 500 * time.Microsecond

func TestTicks(t *testing.T) {
	f := func(at, fields string, d time.Duration, want string) {
		t.Helper()
		flow := flow(t, at)
		flow.Load(doc(fields))
		flow.Sleep(d + moment)
		if got := got(flow); got != want {
			t.Errorf("%s at %s for %s: got %s, want %s", fields, at, d, got, want)
		}
	}
	f("2026-03-01T12:00:00Z", "interval: 90m", 5*time.Hour, "2026-03-01T13:30:00Z 2026-03-01T15:00:00Z 2026-03-01T16:30:00Z")
	f("2026-03-01T12:00:00Z", "interval: 1ms", 2*time.Millisecond, "2026-03-01T12:00:00.001Z 2026-03-01T12:00:00.002Z")
	f("2026-03-01T12:00:00Z", "cron: '*/20 * * * *'", time.Hour, "2026-03-01T12:20:00Z 2026-03-01T12:40:00Z 2026-03-01T13:00:00Z")
	f("2026-03-01T12:00:00.5Z", "cron: '*/30 * * * * *'", time.Minute, "2026-03-01T12:00:30Z 2026-03-01T12:01:00Z")
	f("2026-03-28T12:00:00Z", "cron: 30 2 * * *, timezone: Europe/Berlin", 48*time.Hour, "2026-03-29T03:00:00+02:00 2026-03-30T02:30:00+02:00")
	f("2026-10-24T12:00:00Z", "cron: 30 2 * * *, timezone: Europe/Berlin", 48*time.Hour, "2026-10-25T02:30:00+02:00 2026-10-26T02:30:00+01:00")
	f("2026-11-01T05:00:00Z", "cron: 30 * * * *, timezone: America/New_York", 2*time.Hour, "2026-11-01T01:30:00-04:00 2026-11-01T01:30:00-05:00")
	f("2026-10-03T14:00:00Z", "cron: 15 2 * * *, timezone: Australia/Lord_Howe", 48*time.Hour, "2026-10-04T02:30:00+11:00 2026-10-05T02:15:00+11:00")
}

func TestPayload(t *testing.T) {
	f := func(payload, want string) {
		t.Helper()
		flow := flow(t, "2026-03-01T12:00:00Z")
		flow.Load(doc("interval: 1s" + payload))
		flow.Sleep(time.Second + moment)
		if got := flow.Probe("job").String(); got != want {
			t.Errorf("%s: got %s, want %s", payload, got, want)
		}
	}
	f("", `[{"time":"2026-03-01T12:00:01Z"}]`)
	f(", payload: null", `[null]`)
	f(", payload: {a: [1, x]}", `[{"a":[1,"x"]}]`)
}

// busy makes each process take some time of the clock.
func busy(f *flowtest.Flow, d time.Duration) {
	f.Probe("job").Do(func(node.Process, node.Packet) node.Result {
		return node.Sleep(d, func(_ node.Process, resp node.Response) node.Result { return node.Respond(resp) })
	})
}

func TestOverlap(t *testing.T) {
	f := func(overlap string, d time.Duration, ticks int, want string) {
		t.Helper()
		flow := flow(t, "2026-03-01T12:00:00Z")
		busy(flow, 25*time.Second)
		flow.Load(doc("interval: 10s, overlap: " + overlap))
		flow.Sleep(d)
		if got := flow.Probe("job").Len(); got != ticks {
			t.Errorf("%s: got %d processes, want %d", overlap, got, ticks)
		}
		figures(t, flow, want)
		if overlap == "skip" && strings.Count(flow.Log(), "ticks are left out") != ticks {
			t.Errorf("got the log\n%s\nwant one record for each process", flow.Log())
		}
	}
	f("skip", 64*time.Second, 2, "ticks=2 skipped=4 running=1")
	f("queue", 64*time.Second, 3, "ticks=3 running=1 queued=3")
	f("allow", 64*time.Second, 6, "ticks=6 running=3")
}

// TestQueueIsBounded checks that ticks that find the queue full are left out, and that
// a shutdown does not wait for those in it.
func TestQueueIsBounded(t *testing.T) {
	flow := flow(t, "2026-03-01T12:00:00Z")
	busy(flow, time.Hour)
	flow.Load(doc("interval: 1s, overlap: queue"))
	flow.Sleep(200*time.Second + moment)
	figures(t, flow, "ticks=1 skipped=99 running=1 queued=100")
}

func TestErrors(t *testing.T) {
	flow := flow(t, "2026-03-01T12:00:00Z")
	flow.Probe("job").Do(flowtest.Fail(errors.New("the job is broken")))
	flow.Load(doc("interval: 1s"))
	flow.Sleep(2*time.Second + moment)
	if got := strings.Count(flow.Log(), "the job is broken"); got != 2 {
		t.Errorf("got %d records, want one for each tick:\n%s", got, flow.Log())
	}
	flow.Probe("job").Do(flowtest.Panic)
	flow.Sleep(time.Second)
	if got := strings.Count(flow.Log(), "scheduled process"); got != 3 {
		t.Errorf("got %d records, want one more for the panic:\n%s", got, flow.Log())
	}
	flow.Probe("job").Do(flowtest.Fail(errors.New("it is handled")))
	flow.Probe("alert").Do(flowtest.None)
	flow.Load("- {kind: schedule, name: n, interval: 1s, ports: {out: [{name: job}], error: [{name: alert}]}}\n")
	flow.Sleep(time.Second)
	if got := flow.Probe("alert").Len(); got != 1 || strings.Count(flow.Log(), "scheduled process") != 3 {
		t.Errorf("got %d alerts, want 1, and no record of the process:\n%s", got, flow.Log())
	}
}

// TestPause checks that one tick takes the place of all that a pause has made overdue.
func TestPause(t *testing.T) {
	f := func(fields, want string) {
		t.Helper()
		c := &leaping{Fake: clock.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
		flow := flowAt(t, c)
		flow.Load(doc(fields))
		flow.Sleep(10*time.Minute + moment)
		c.leap(7 * time.Hour)
		flow.Sleep(15 * time.Minute)
		if got := got(flow); got != want {
			t.Errorf("%s: got %s, want %s", fields, got, want)
		}
		figures(t, flow, "ticks=3 missed=41")
		if strings.Count(flow.Log(), "ticks were missed") != 1 || !strings.Contains(flow.Log(), "count=41") {
			t.Errorf("%s: got the log\n%s\nwant one record of 41 ticks", fields, flow.Log())
		}
	}
	want := "2026-03-01T12:10:00Z 2026-03-01T19:10:00Z 2026-03-01T19:20:00Z"
	f("cron: '*/10 * * * *'", want)
	f("interval: 10m", want)
}

// TestSetBack checks that a clock that is set back gives no tick twice, and that the
// plan begins again if it was set back far.
func TestSetBack(t *testing.T) {
	c := &leaping{Fake: clock.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	flow := flowAt(t, c)
	flow.Load(doc("cron: '*/10 * * * *'"))
	flow.Sleep(10*time.Minute + moment)
	c.leap(-5 * time.Minute)
	flow.Sleep(15 * time.Minute)
	c.leap(-48 * time.Hour)
	flow.Sleep(10 * time.Minute)
	if got, want := got(flow), "2026-03-01T12:10:00Z 2026-03-01T12:20:00Z 2026-02-27T12:30:00Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestJitter(t *testing.T) {
	flow := flow(t, "2026-03-01T12:00:00Z")
	late := make(map[time.Duration]bool)
	flow.Probe("job").Do(func(_ node.Process, pkt node.Packet) node.Result {
		at, _ := pkt.Payload.Get("time")
		due, _ := at.AsTime()
		late[flow.Options.Clock.Now().Sub(due)] = true
		return node.Answer(value.Null())
	})
	flow.Load(doc("interval: 10s, jitter: 1h"))
	flow.Sleep(110*time.Second - time.Microsecond)
	figures(t, flow, "ticks=10")
	if len(late) < 5 {
		t.Errorf("got delays %v, want different ones", late)
	}
	for d := range late {
		if d < 0 || d >= 10*time.Second {
			t.Errorf("got a delay of %s, want less than an interval", d)
		}
	}
}

// TestReload checks that a reload neither loses a tick nor doubles one, and that the
// process of the generation before counts.
func TestReload(t *testing.T) {
	flow := flow(t, "2026-03-01T12:00:00Z")
	flow.Load(doc("interval: 10m"))
	for range 5 {
		flow.Sleep(7 * time.Minute)
		flow.Load(doc("interval: 10m"))
	}
	if got, want := got(flow), "2026-03-01T12:10:00Z 2026-03-01T12:20:00Z 2026-03-01T12:30:00Z"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	busy(flow, 15*time.Minute)
	flow.Sleep(6 * time.Minute) // 12:41: the process of 12:40 is running
	flow.Load(doc("interval: 10m"))
	flow.Sleep(10 * time.Minute) // the tick of 12:50 is left out
	figures(t, flow, "ticks=4 skipped=1 running=1")
	flow.Load(doc("interval: 1h"))
	flow.Sleep(70 * time.Minute)
	figures(t, flow, "ticks=1 running=1")
}

func TestReloadQueue(t *testing.T) {
	flow := flow(t, "2026-03-01T12:00:00Z")
	busy(flow, 25*time.Second)
	flow.Load(doc("interval: 10s, overlap: queue"))
	flow.Sleep(31 * time.Second) // one is running, two wait
	flow.Load(doc("interval: 10s, overlap: queue"))
	flow.Sleep(20 * time.Second)
	figures(t, flow, "ticks=2 running=1 queued=3")
}

// TestFailedReload checks that the ticks go on if the next generation serves the
// schedule and then fails to start.
func TestFailedReload(t *testing.T) {
	c := &leaping{Fake: clock.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))}
	served := 0
	broken := &node.Def{
		Kind: "broken", Summary: "Cannot serve.", Out: []node.Port{{Name: "out", Doc: "Nothing."}},
		New: func(*node.Init) (node.Node, error) { return unserved{&served}, nil },
	}
	f := flowtest.New(t, append(schedule.Defs(), broken)...)
	f.Options.Clock = c
	c.Begin()
	f.Engine()
	t.Cleanup(func() { c.End(); f.Close(); c.Close() })
	f.Load(doc("interval: 10m"))
	f.Sleep(25 * time.Minute)
	for _, both := range []string{doc("interval: 10m") + "- {kind: broken, name: b}\n", "- {kind: broken, name: b}\n" + doc("interval: 10m")} {
		if _, err := f.Apply(both); err == nil {
			t.Error("got no error of a trigger that cannot serve")
		}
	}
	f.Sleep(10 * time.Minute)
	if got, want := got(f), "2026-03-01T12:10:00Z 2026-03-01T12:20:00Z 2026-03-01T12:30:00Z"; got != want || served != 2 {
		t.Errorf("got %s, and %d attempts, want %s, and 2", got, served, want)
	}
}

// An unserved is a trigger that cannot serve.
type unserved struct{ attempts *int }

func (unserved) Receive(node.Process, node.Packet) node.Result { return node.None() }

func (u unserved) Serve(node.Starter) error {
	*u.attempts++
	return errors.New("broken on purpose")
}
