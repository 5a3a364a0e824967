package dialogue_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"github.com/uniflow-labs/uniflow/internal/ground/invariant"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// used returns what the heap and the stacks take, in bytes.
func used() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestParked counts what a process takes that has asked and waits: its own memory, its
// conversation and its session included.
func TestParked(t *testing.T) {
	if invariant.Race || invariant.Enabled {
		return // the detector and the checks need more
	}
	const n, most = 10_000, 2 << 10
	for name, document := range map[string]string{
		"ask":     "- {kind: ask, name: n, text: Who?, timeout: 1h}" + around,
		"session": "- {kind: session, name: n, key: self.user, ports: {out: [{name: m}]}}\n- {kind: ask, name: m, text: Who?, timeout: 1h}\n- {kind: source, name: messages, ports: {'out[0]': [{name: n}]}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.Options.Clock = node.SystemClock{}
			f.Load(document)
			start := f.Source("messages")
			payloads := make([]value.Value, n)
			keys := make([]string, n)
			for i := range keys {
				keys[i] = "chat/" + strconv.Itoa(i)
				payloads[i] = value.Map(value.Field{Name: "user", Value: value.String(keys[i])})
			}
			k := new(tryTalk)
			var ended sync.WaitGroup
			ended.Add(n)
			before, goroutines := used(), runtime.NumGoroutine()
			for i, key := range keys {
				start.Start(node.WithParts(node.WithConversation(t.Context(), key), k), nil, node.Send(0, payloads[i]), func(node.Response) { ended.Done() })
			}
			per := (used() - before) / n
			t.Logf("%d bytes each, %d goroutines in all", per, runtime.NumGoroutine()-goroutines)
			if per > most {
				t.Errorf("got %d bytes for each process that waits, want at most %d", per, most)
			}
			if k.said != n {
				t.Errorf("%d have asked, want %d", k.said, n)
			}
			runtime.KeepAlive(payloads)
			f.Close()
			ended.Wait()
		})
	}
}

// A tryTalk takes each part immediately, and counts them.
type tryTalk struct {
	talk
	said int
}

func (k *tryTalk) TryPart(context.Context, value.Value) (rest func(context.Context) error, err error) {
	k.said++
	return nil, nil
}
