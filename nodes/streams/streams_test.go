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

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/std"
	"github.com/uniflow-labs/uniflow/value"
)

// bubble runs a test by the clock of the machine, in which time passes only while all
// wait.
func bubble(t *testing.T, document string, test func(t *testing.T, f *flowtest.Flow)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := flowtest.New(t, std.Defs("")...)
		f.Options.Clock = node.SystemClock{}
		f.Load(document)
		test(t, f)
	})
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

// start sends payloads in processes of their own, in order.
func start(f *flowtest.Flow, payloads ...string) []*flowtest.Call {
	var calls []*flowtest.Call
	for _, p := range payloads {
		calls = append(calls, f.Start("n", parse(p)))
		synctest.Wait()
	}
	return calls
}

func parse(json string) value.Value {
	v, err := value.ParseJSON([]byte(json))
	if err != nil {
		panic(err)
	}
	return v
}

// answers waits for the responses.
func answers(calls []*flowtest.Call) string {
	var all []string
	for _, c := range calls {
		all = append(all, flowtest.Show(c.Response()))
	}
	return strings.Join(all, ", ")
}

func TestCollect(t *testing.T) {
	f := func(config string, answer func(node.Process, node.Packet) node.Result, payloads []string, wantLists, wantAnswers string, wantTook time.Duration) {
		t.Helper()
		bubble(t, "- {kind: collect, name: n, "+config+", ports: {out: [{name: list}]}}", func(t *testing.T, f *flowtest.Flow) {
			f.Probe("list").Do(answer)
			began := time.Now()
			calls := start(f, payloads...)
			expect(t, config+" answers", answers(calls), wantAnswers)
			expect(t, config+" lists", f.Probe("list").String(), wantLists)
			if took := time.Since(began); took != wantTook {
				t.Errorf("%s: took %s, want %s", config, took, wantTook)
			}
		})
	}
	nothing := flowtest.Answer(value.Int(7))
	f("count: 2", nothing, []string{"1", "2"}, `[[1,2]]`, "none, none", 0)
	f("count: 2", flowtest.Echo, []string{"1", "2", "3", "4"}, `[[1,2],[3,4]]`, "1, 2, 3, 4", 0)
	f("count: 2", flowtest.None, []string{"1", "2"}, `[[1,2]]`, "none, none", 0)
	f("count: 2", flowtest.Fail(errors.New("full")), []string{"1", "2"}, `[[1,2]]`, "error: full, error: full", 0)
	f("count: 2, key: self.k", flowtest.Echo, []string{`{"k":1}`, `{"k":"1"}`, `{"k":"1"}`, `{"k":1}`}, `[[{"k":"1"},{"k":"1"}],[{"k":1},{"k":1}]]`, `{"k":1}, {"k":"1"}, {"k":"1"}, {"k":1}`, 0)
	f("key: self.k", flowtest.Echo, []string{`{}`}, `[]`, `error: key: no such key: k`, 0)
	f("linger: 2s", flowtest.Echo, []string{"1", "2", "3"}, `[[1,2,3]]`, "1, 2, 3", 2*time.Second)
	f("linger: 1s, bytes: 200B", flowtest.Echo, []string{`"` + strings.Repeat("x", 300) + `"`}, `[["`+strings.Repeat("x", 300)+`"]]`, `"`+strings.Repeat("x", 300)+`"`, 0)
}

// TestCollectOneProcess lets the packets of one process wait together.
func TestCollectOneProcess(t *testing.T) {
	bubble(t, "- {kind: source, name: from, ports: {'out[0]': [{name: n, port: in}]}}\n- {kind: collect, name: n, count: 3, linger: 1h, ports: {out: [{name: list}]}}", func(t *testing.T, f *flowtest.Flow) {
		packets := make([]node.Out, 6)
		for i := range packets {
			packets[i].Payload = value.Int(int64(i))
		}
		resp := f.Source("from").Run(t.Context(), node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
			return node.Respond(node.Join(resps))
		}))
		expect(t, "answer", flowtest.Show(resp), "[0,1,2,3,4,5]")
		for _, list := range f.Probe("list").Payloads() {
			expect(t, "elements of a list", fmt.Sprint(list.Len()), "3")
		}
	})
}

// TestCollectCancel lets a packet leave whose process ends, and answers it when its list
// is on its way.
func TestCollectCancel(t *testing.T) {
	bubble(t, "- {kind: collect, name: n, count: 2, linger: 1h, ports: {out: [{name: list}]}}", func(t *testing.T, f *flowtest.Flow) {
		f.Probe("list").Do(func(_ node.Process, pkt node.Packet) node.Result {
			return node.Sleep(time.Second, func(node.Process, node.Response) node.Result { return node.Answer(pkt.Payload) })
		})
		first := start(f, "1")[0]
		first.Cancel()
		expect(t, "left", flowtest.Show(first.Response()), "error: process cancelled: context canceled")
		calls := start(f, "2", "3")
		calls[0].Cancel()
		expect(t, "answers", answers(calls), "error: process cancelled: context canceled, 3")
		expect(t, "lists", f.Probe("list").String(), "[[2,3]]")
	})
}

// TestCollectDrain sends what waits when the workflow is replaced or ends, and what comes
// to the old one later.
func TestCollectDrain(t *testing.T) {
	const document = "- {kind: collect, name: n, count: 10, linger: 1h, ports: {out: [{name: list}]}}\n- {kind: sleep, name: late, interval: 2s, ports: {out: [{name: n, port: in}]}}"
	bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
		late := f.Start("late", value.Int(9))
		calls := start(f, "1", "2")
		began := time.Now()
		f.Load(document)
		expect(t, "answers", answers(calls), "1, 2")
		expect(t, "late", flowtest.Show(late.Response()), "9")
		calls = start(f, "3")
		f.Close()
		expect(t, "answers", answers(calls), "3")
		expect(t, "lists", f.Probe("list").String(), "[[1,2],[9],[3]]")
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %s", took)
		}
	})
}

// TestCollectNeverFull refuses a count that the sources upstream cannot reach.
func TestCollectNeverFull(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	check := func(count, links, want string) {
		t.Helper()
		list := f.Check("- {kind: generate, name: a, max_in_flight: 10, ports: {out: [{name: s, port: in}], error: [{name: x, port: in}]}}\n" +
			"- {kind: generate, name: b, max_in_flight: 5, " + links + "}\n" +
			"- {kind: log, name: s, ports: {out: [{name: n, port: in}]}}\n- {kind: split, name: x, ports: {'out[0]': []}}\n" +
			"- {kind: collect, name: n, " + count + "ports: {out: [{name: end}]}}")
		got := ""
		for _, d := range list {
			if d.Severity == diag.SeverityError {
				got += d.Path + ": " + d.Msg
			}
		}
		expect(t, count+links, got, want)
	}
	never := func(n int) string {
		return fmt.Sprintf("count: a list can never be full: what leads here has at most %d messages in flight", n)
	}
	check("count: 10, ", "ports: {}", "")
	check("count: 11, ", "ports: {}", never(10))
	check("", "ports: {}", "")
	check("count: 15, ", "ports: {out: [{name: n, port: in}]}", "")
	check("count: 16, ", "ports: {out: [{name: n, port: in}]}", never(15))
	check("count: 20, ", "ports: {out: [{name: n, port: in}], error: [{name: n, port: in}]}", "")
	check("count: 99, ", "ports: {out: [{name: split, port: in}]}}\n- {kind: split, name: split, ports: {'out[0]': [{name: n, port: in}]}", "")
	check("count: 99, ", "ports: {}}\n- {kind: listener, name: l, protocol: http, port: 0, ports: {out: [{name: n, port: in}]}", "")
	check("count: 99, ", "ports: {out: [{name: c1, port: in}]}}\n- {kind: log, name: c1, ports: {out: [{name: c2, port: in}]}}\n- {kind: log, name: c2, ports: {out: [{name: c1, port: in}, {name: n, port: in}]}", "")
}

// TestHammer cancels processes and reloads, while packets are collected and deduplicated.
func TestHammer(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	const document = "- {kind: dedupe, name: once, key: self, ttl: 1ms, ports: {out: [{name: n, port: in}]}}\n" +
		"- {kind: collect, name: n, count: 3, linger: 500us, ports: {out: [{name: list}]}}"
	f.Load(document)
	f.Probe("list").Do(func(_ node.Process, pkt node.Packet) node.Result {
		if pkt.Payload.Len() == 2 {
			return node.Fail(errors.New("two"))
		}
		return node.Answer(pkt.Payload)
	})
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var good atomic.Int64
	for i := range 16 {
		group.Go(func() {
			for ctx.Err() == nil {
				own, leave := context.WithTimeout(context.Background(), time.Duration(50+100*i)*time.Microsecond)
				want := value.Int(int64(i / 2))
				got, ok, err := f.Engine().Run(own, "once", want)
				leave()
				switch {
				case err != nil:
				case ok && !got.Equal(want):
					t.Errorf("got %s, want %s", got, want)
				default:
					good.Add(1)
				}
			}
		})
	}
	for i := 0; i < 40 || good.Load() < 200; i++ {
		f.Load(document)
	}
	stop()
	group.Wait()
}

func TestDedupe(t *testing.T) {
	const document = "- {kind: dedupe, name: n, ttl: 10s, capacity: 3, ports: {out: [{name: next}]}}"
	f := func(payloads, wantSeen, wantAnswers string) {
		t.Helper()
		bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
			var got []string
			for p := range strings.SplitSeq(payloads, " ") {
				got = append(got, f.SendJSON("n", p))
			}
			expect(t, payloads+": answers", strings.Join(got, ", "), wantAnswers)
			expect(t, payloads+": seen", f.Probe("next").String(), wantSeen)
		})
	}
	f(`{"id":1} {"id":1} {"id":2}`, `[{"id":1},{"id":2}]`, `{"id":1}, none, {"id":2}`)
	f(`{"id":"1"} {"id":1}`, `[{"id":"1"},{"id":1}]`, `{"id":"1"}, {"id":1}`)
	f(`{"id":1} {"id":2} {"id":3} {"id":4} {"id":1} {"id":4}`, `[{"id":1},{"id":2},{"id":3},{"id":4},{"id":1}]`, `{"id":1}, {"id":2}, {"id":3}, {"id":4}, {"id":1}, none`)
	f(`{} {"id":null} 7`, `[]`, `error: key: no such key: id, error: key: is null, error: key: no such key: id`)

	bubble(t, document, func(t *testing.T, f *flowtest.Flow) {
		expect(t, "first", f.SendJSON("n", `{"id":1}`), `{"id":1}`)
		f.Load(document + "\n- {kind: nop, name: more}")
		expect(t, "after a reload", f.SendJSON("n", `{"id":1}`), `none`)
		<-time.After(10 * time.Second)
		expect(t, "after ttl", f.SendJSON("n", `{"id":1}`), `{"id":1}`)
	})
}

// TestDedupeWaits lets the next one through when the first fails, and only then.
func TestDedupeWaits(t *testing.T) {
	f := func(outcomes []string, want string) {
		t.Helper()
		bubble(t, "- {kind: dedupe, name: n, ports: {out: [{name: next}], duplicate: [{name: again}]}}", func(t *testing.T, f *flowtest.Flow) {
			var calls []*flowtest.Call
			at := 0
			f.Probe("next").Do(func(_ node.Process, pkt node.Packet) node.Result {
				outcome := outcomes[at]
				at++
				return node.Sleep(time.Second, func(p node.Process, resp node.Response) node.Result {
					switch {
					case resp.IsError():
						return node.Respond(resp)
					case outcome == "fail":
						return node.Fail(errors.New("down"))
					case outcome == "panic":
						panic("ouch")
					case outcome == "none":
						return node.None()
					}
					return node.Answer(pkt.Payload)
				})
			})
			f.Probe("again").Do(flowtest.Answer(value.String("duplicate")))
			calls = start(f, `{"id":1,"n":0}`, `{"id":1,"n":1}`, `{"id":1,"n":2}`)
			if outcomes[0] == "cancel" {
				calls[1].Cancel()
				synctest.Wait() // or it might be let through before
				calls[0].Cancel()
			}
			expect(t, fmt.Sprint(outcomes), answers(calls), want)
		})
	}
	f([]string{"good"}, `{"id":1,"n":0}, "duplicate", "duplicate"`)
	f([]string{"none"}, `none, "duplicate", "duplicate"`)
	f([]string{"fail", "good"}, `error: down, {"id":1,"n":1}, "duplicate"`)
	f([]string{"fail", "fail", "fail"}, `error: down, error: down, error: down`)
	f([]string{"panic", "good"}, `error: panic: ouch, {"id":1,"n":1}, "duplicate"`)
	f([]string{"cancel", "good"}, `error: process cancelled: context canceled, error: process cancelled: context canceled, {"id":1,"n":2}`)
}

const topics = "- {kind: publish, name: n, topic: 'room.${self.room}'}\n" +
	"- {kind: subscribe, name: live, topic: 'room.${self}', buffer: 2, full: %s, ports: {out: [{name: got}], error: [{name: failed}]}}"

func TestTopics(t *testing.T) {
	bubble(t, fmt.Sprintf(topics, "drop_oldest"), func(t *testing.T, f *flowtest.Flow) {
		expect(t, "without subscriptions", f.SendJSON("n", `{"room":1}`), `{"subscriptions":0}`)
		one, same, other := f.Start("live", value.Int(1)), f.Start("live", value.Int(1)), f.Start("live", value.Int(2))
		synctest.Wait()
		expect(t, "room 1", f.SendJSON("n", `{"room":1}`), `{"subscriptions":2}`)
		expect(t, "room 2", f.SendJSON("n", `{"room":2}`), `{"subscriptions":1}`)
		expect(t, "room 3", f.SendJSON("n", `{"room":3}`), `{"subscriptions":0}`)
		synctest.Wait()
		expect(t, "got", f.Probe("got").String(), `[{"room":1},{"room":1},{"room":2}]`)
		one.Cancel()
		expect(t, "cancelled", flowtest.Show(one.Response()), "error: process cancelled: context canceled")
		expect(t, "room 1", f.SendJSON("n", `{"room":1}`), `{"subscriptions":1}`)
		f.Load(fmt.Sprintf(topics, "drop_oldest"))
		expect(t, "after a reload", flowtest.Show(same.Response())+flowtest.Show(other.Response()), "error: the workflow is replaced or endserror: the workflow is replaced or ends")
		last := f.Start("live", value.Int(1))
		synctest.Wait()
		f.Close()
		expect(t, "at the end", flowtest.Show(last.Response()), "error: the workflow is replaced or ends")
	})
}

// TestTopicsLifetime ends a subscription after a time.
func TestTopicsLifetime(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	f.Load("- {kind: subscribe, name: n, topic: all, lifetime: 24h, ports: {out: [{name: got}]}}")
	began := f.Now()
	expect(t, "answer", f.SendJSON("n", `1`), "none")
	if took := f.Now().Sub(began); took != 24*time.Hour {
		t.Errorf("it took %s", took)
	}
}

// TestTopicsFull drops the oldest payload, or ends the subscription.
func TestTopicsFull(t *testing.T) {
	for full, want := range map[string]string{
		"drop_oldest": `[{"n":0,"room":1},{"n":3,"room":1},{"n":4,"room":1}]`,
		"close":       `[{"n":0,"room":1}]`,
	} {
		bubble(t, fmt.Sprintf(topics, full), func(t *testing.T, f *flowtest.Flow) {
			ready := make(chan struct{})
			f.Probe("got").Do(f.Until(ready, flowtest.None))
			f.Probe("failed").Do(func(_ node.Process, pkt node.Packet) node.Result {
				return node.Answer(value.String(node.Describe(pkt.Payload.AsError()).Code))
			})
			call := f.Start("live", value.Int(1))
			synctest.Wait()
			for i := range 5 {
				f.SendJSON("n", fmt.Sprintf(`{"n":%d,"room":1}`, i))
				synctest.Wait()
			}
			close(ready)
			synctest.Wait()
			expect(t, full, f.Probe("got").String(), want)
			if full == "close" {
				expect(t, full, flowtest.Show(call.Response()), `"slow"`)
			}
		})
	}
}

// TestTopicsHammer publishes, subscribes, leaves and reloads concurrently.
func TestTopicsHammer(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	f.Options.Clock = node.SystemClock{}
	document := fmt.Sprintf(topics, "drop_oldest")
	f.Load(document)
	f.Probe("got").Do(flowtest.None)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var taken atomic.Int64
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				answer, _, _ := f.Engine().Run(ctx, "n", value.Map(value.Field{Name: "room", Value: value.Int(1)}))
				n, _ := answer.Get("subscriptions")
				count, _ := n.AsInt()
				taken.Add(count)
			}
		})
		group.Go(func() {
			for ctx.Err() == nil {
				own, leave := context.WithTimeout(ctx, time.Millisecond)
				_, _, _ = f.Engine().Run(own, "live", value.Int(1))
				leave()
			}
		})
	}
	for range 30 {
		f.Load(document)
	}
	for taken.Load() == 0 {
		f.Load(document)
	}
	stop()
	group.Wait()
}

// parts take what is emitted.
type parts struct {
	got []string
	err error
}

func (p *parts) Part(_ context.Context, v value.Value) error {
	p.got = append(p.got, v.String())
	return p.err
}

func TestEmit(t *testing.T) {
	f := func(config string, p *parts, payload value.Value, want string) {
		t.Helper()
		flow := flowtest.New(t, std.Defs("")...)
		flow.Load("- {kind: emit, name: n" + config + "}")
		ctx := context.Background()
		if p != nil {
			ctx = node.WithParts(ctx, p)
		}
		answer, ok, err := flow.Engine().Run(ctx, "n", payload)
		got := flowtest.Show(node.Response{Payload: answer, None: !ok})
		if err != nil {
			got = "error: " + node.Message(err)
		}
		if p != nil {
			got += " " + strings.Join(p.got, " ")
		}
		expect(t, config, got, want)
		flow.Close()
	}
	f("", &parts{}, value.Int(7), "none 7")
	f(", event: price", &parts{}, value.Int(7), `none {"event":"price","data":7}`)
	f(", event: 'p${self}'", &parts{}, value.Int(7), `none {"event":"p7","data":7}`)
	f("", &parts{err: errors.New("the client has left")}, value.Int(7), "error: the client has left 7")
	f("", nil, value.Int(7), "error: the trigger of this process takes no parts of its answer")
	f(", otherwise: drop", nil, value.Int(7), "none")
}

func TestLog(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	f.Load("- {kind: log, name: n, level: warn, message: 'order ${self.id}', bytes: 13B}\n- {kind: log, name: plain, bytes: 0B}")
	expect(t, "answer", f.SendJSON("n", `{"id":7,"name":"ärger"}`), `{"id":7,"name":"ärger"}`)
	expect(t, "answer", f.SendJSON("plain", `1`), `1`)
	for _, want := range []string{"level=WARN", `msg="order 7"`, `payload="{\"id\":7,\"name…"`, "node=n", "level=INFO msg=payload node=plain"} {
		if !strings.Contains(f.Log(), want) {
			t.Errorf("got %s, want %s", f.Log(), want)
		}
	}
	if got := f.SendJSON("n", `{}`); got != "error: message: no such key: id" {
		t.Errorf("got %s", got)
	}
}

func TestGenerate(t *testing.T) {
	f := func(config string, want string, wantTook time.Duration) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			f := flowtest.New(t, std.Defs("")...)
			f.Options.Clock = node.SystemClock{}
			began := time.Now()
			f.Load("- {kind: generate, name: n, order: total, " + config + ", ports: {out: [{name: map, port: in}]}}\n" +
				"- {kind: snippet, name: map, language: cel, code: 'self.id + \":\" + string(self.body)', ports: {out: [{name: got}]}}")
			n := strings.Count(want, ",") + 1
			f.Probe("got").Wait(n)
			if took := time.Since(began); took != wantTook {
				t.Errorf("%s: took %s, want %s", config, took, wantTook)
			}
			synctest.Wait()
			f.Close()
			expect(t, config, f.Probe("got").String(), want)
		})
	}
	f("count: 3", `["0:0","1:1","2:2"]`, 0)
	f("count: 2, interval: 1s", `["0:0","1:1"]`, time.Second)
	f("count: 5, rate: 2", `["0:0","1:1","2:2","3:3","4:4"]`, 2*time.Second)
	f(`count: 2, payload: "o${self.n * 3}"`, `["0:o0","1:o3"]`, 0)

	flow := flowtest.New(t, std.Defs("")...)
	list := flow.Check("- {kind: generate, name: n, rate: 1, interval: 1s, ports: {out: [], error: []}}")
	if len(list) != 1 || list[0].Path != "interval" {
		t.Errorf("got %v", list)
	}
}

// TestCollectBeforeItServes has a packet at collect from a workflow at the port active, which runs
// before a node may start processes: it fails, and the program goes on.
func TestCollectBeforeItServes(t *testing.T) {
	f := flowtest.New(t, std.Defs("")...)
	if _, err := f.Apply("- {kind: collect, name: n, count: 1, ports: {active: [{name: n}]}}\n"); err == nil || !strings.Contains(err.Error(), "starts no processes before the workflow serves") {
		t.Errorf("got %v", err)
	}
}
