package dialogue_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestAskMemory answers the first question of many forms with large texts: past the memory of
// the program an answer is refused, and the question stays for a smaller one.
func TestAskMemory(t *testing.T) {
	f := newFlow(t)
	f.Options.Memory = 1 << 20
	f.Load("- {kind: form, name: n, key: self.user, timeout: 1h, fields: [{name: a, text: A?}, {name: b, text: B?}]}" + around)
	const processes = 20
	var ended sync.WaitGroup
	messages, replies, k := f.Source("messages"), f.Source("replies"), new(talk)
	asked := make(chan struct{}, 3*processes)
	k.answer = func(string) { asked <- struct{}{} }
	questions := func(n int) {
		for range n {
			<-asked
		}
	}
	payload := func(i, size int) value.Value {
		return value.Map(value.Field{Name: "user", Value: value.Int(int64(i))}, value.Field{Name: "text", Value: value.String(strings.Repeat("x", size))})
	}
	for i := range processes {
		ended.Add(1)
		messages.Start(node.WithParts(t.Context(), k), nil, node.Send(0, payload(i, 1)), func(resp node.Response) {
			if resp.IsError() {
				t.Errorf("process %d: %s", i, flowtest.Show(resp))
			}
			ended.Done()
		})
	}
	questions(processes)
	reply := func(i, size int) error {
		resp := replies.Run(t.Context(), node.Send(0, payload(i, size)))
		return resp.Payload.AsError()
	}
	var refused []int
	for i := range processes {
		if err := reply(i, 100<<10); err != nil {
			if e := node.Describe(err); e.Status != 503 {
				t.Fatal(err)
			}
			refused = append(refused, i)
		}
	}
	questions(processes - len(refused))
	if n := processes - len(refused); n < 3 || n > 5 {
		t.Errorf("%d answers of 100 KiB were taken, within 512 KiB", n)
	}
	for i := range processes {
		if err := reply(i, 10); err != nil {
			t.Fatalf("a small answer of process %d: %v", i, err)
		}
	}
	questions(len(refused))
	for _, i := range refused { // they have answered the first question only now
		if err := reply(i, 10); err != nil {
			t.Fatalf("the second answer of process %d: %v", i, err)
		}
	}
	ended.Wait()
	ended.Add(1)
	messages.Start(node.WithParts(t.Context(), k), nil, node.Send(0, payload(0, 1)), func(resp node.Response) {
		if resp.IsError() {
			t.Error(flowtest.Show(resp))
		}
		ended.Done()
	})
	for range 2 {
		questions(1)
		if err := reply(0, 100<<10); err != nil {
			t.Fatalf("after the others have ended: %v", err)
		}
	}
	ended.Wait()
}
