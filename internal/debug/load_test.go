package debug_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow"
	"github.com/uniflow-labs/uniflow/internal/debug"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/observe"
	"github.com/uniflow-labs/uniflow/spec"
	"github.com/uniflow-labs/uniflow/value"
)

const loaded = `
- {kind: snippet, name: first, language: cel, code: 'self', ports: {out: both}}
- {kind: pipe, name: both, ports: {"out[0]": second, "out[1]": third}}
- {kind: snippet, name: second, language: cel, code: '{"got": self}'}
- {kind: snippet, name: third, language: cel, code: 'type(self) == map && "got" in self ? self.got : self'}
`

// sessions is how many clients debug the program, one after the other.
const sessions = 2000

// TestUnderLoad debugs a program under load in random sessions, while it is reloaded. All that a client has not
// touched is answered as without a debugger, and each process that it has touched is answered as it said.
func TestUnderLoad(t *testing.T) {
	b := newBench(t)
	apply := func() {
		list, err := b.Apply(t.Context(), uniflow.Source{Documents: []spec.Document{{File: "flow.yaml", Data: []byte(loaded)}}})
		if err != nil || list.HasErrors() {
			t.Error(list, err)
		}
	}
	apply()
	for _, ref := range b.Status().Nodes {
		b.ids[ref.Name] = ref.ID
	}
	var answered, touched, left, touches, held atomic.Int64
	stop := make(chan struct{})
	var load sync.WaitGroup
	for worker := range 4 {
		load.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(worker)))
			for n := int64(0); ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				leaves := random.IntN(100) == 0
				switch {
				case leaves && n%2 == 0:
					ctx, cancel = context.WithCancel(ctx)
					time.AfterFunc(time.Millisecond, cancel)
				case leaves: // the time for which it is held is not of this
					ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
				}
				answer, ok, err := b.Engine.Run(ctx, "first", value.Int(n))
				cancel()
				switch text, _ := answer.AsString(); {
				case err == nil && ok && answer.Equal(value.Int(n)):
					answered.Add(1)
				case leaves && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)):
					left.Add(1)
				case text == "edited", text == "instead", err != nil && node.Message(err) == "on purpose":
					touched.Add(1)
				default:
					t.Errorf("request %d: got %v %v %v", n, answer, ok, err)
				}
			}
		})
	}
	load.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				apply()
			}
		}
	})
	random := rand.New(rand.NewPCG(2, 3))
	tick := time.NewTicker(100 * time.Microsecond)
	defer tick.Stop()
	names := []string{"first", "second", "third", ""}
	points := []observe.Points{observe.PointIn, observe.PointOut, observe.PointAnswer}
	for range sessions {
		var set []debug.Breakpoint
		for range 1 + random.IntN(3) {
			at := debug.Breakpoint{Node: b.ids[names[random.IntN(len(names))]], Point: points[random.IntN(len(points))], Port: debug.AnyPort, Once: random.IntN(2) == 0}
			if random.IntN(4) == 0 {
				at.Log = "came "
			}
			set = append(set, at)
		}
		b.set(set...)
		for range random.IntN(5) {
			for until := answered.Load() + 20; len(b.State().Held) == 0 && answered.Load() < until; {
				<-tick.C
			}
			for _, h := range b.State().Held {
				held.Add(1)
				var err error
				touches.Add(1) // before, as it may be answered before the move returns
				edited := value.String("edited")
				switch random.IntN(8) {
				case 0:
					err = b.Move(h.ID, observe.Continue, &edited)
				case 1:
					err = b.Instead(h.ID, node.Answer(value.String("instead")))
				case 2:
					err = b.Instead(h.ID, node.Fail(errors.New("on purpose")))
				default:
					touches.Add(-1)
					err = b.Move(h.ID, []observe.Step{observe.Continue, observe.Into, observe.Over, observe.Out}[random.IntN(4)], nil)
				}
				if err != nil && !errors.Is(err, debug.ErrGone) { // it has left
					t.Error(err)
				}
			}
		}
		if random.IntN(2) == 0 { // others leave without a word
			b.set()
		}
	}
	b.set()
	close(stop)
	load.Wait()
	t.Logf("%d answered, %d touched by %d moves of %d, %d left", answered.Load(), touched.Load(), touches.Load(), held.Load(), left.Load())
	if touched.Load() > touches.Load() || touched.Load() < 100 || held.Load() < 500 {
		t.Errorf("%d processes were touched by %d moves of %d that were held", touched.Load(), touches.Load(), held.Load())
	}
}
