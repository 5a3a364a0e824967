package stream_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/uniflow-labs/uniflow/flowtest"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
	"github.com/uniflow-labs/uniflow/value"
)

// A taking writer is one that takes records itself, as take says.
type taking struct {
	*memory
	take func(text string, i int, done func(int, value.Value, error)) (bool, error)
}

func (w taking) Take(r stream.Record, i int, done func(int, value.Value, error)) (bool, error) {
	return w.take(string(r.Raw), i, done)
}

func takingSink(w taking) stream.Sink {
	s := sink(w.memory)
	s.Open = func(*node.Init) (stream.Writer, error) { return w, nil }
	return s
}

// TestSinkTakes has a writer that takes records on the goroutines of their processes.
func TestSinkTakes(t *testing.T) {
	take := func(text string, i int, done func(int, value.Value, error)) (bool, error) {
		switch text {
		case `"bad"`:
			return true, errors.New("refused")
		case `"late"`:
			done(i, value.Null(), errors.New("refused late"))
		case `"panic"`:
			panic("ouch")
		case `"never"`:
		case `"full"`:
			return false, nil
		case `"lost"`:
			done(i, value.Null(), fmt.Errorf("%w: reset", stream.ErrLost))
		default:
			done(i, value.String("took "+text), nil)
			done(i, value.String("twice"), nil)
		}
		return true, nil
	}
	f := func(payload, want string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			flow := serve(t, takingSink(taking{&memory{}, take}), "- {kind: memory_sink, name: n, timeout: 2s, answer: receipt}")
			expect(t, payload, flow.SendJSON("n", payload), want)
			synctest.Wait()
			expect(t, "after that", flow.SendJSON("n", `1`), map[bool]string{true: `0`, false: `"took 1"`}[payload == `"lost"`])
		})
	}
	f(`2`, `"took 2"`)
	f(`[2,3]`, `[0,1]`) // by Write
	f(`"full"`, `0`)
	f(`"bad"`, `error: refused`)
	f(`"late"`, `error: refused late`)
	f(`"panic"`, `error: panic in Take: ouch`)
	f(`"never"`, `error: not confirmed within 2s`)
	f(`"lost"`, `error: connection lost: reset`)
}

// TestSinkTakesInOrder gives the writer no record while others wait for Write, and not
// more than may be in flight.
func TestSinkTakesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		blocked := make(chan struct{})
		var taken atomic.Int32
		w := taking{memory: &memory{}}
		w.write = func(_ context.Context, call int, records []stream.Record, done func(int, value.Value, error)) {
			if call == 1 {
				<-blocked
			}
			for i := range records {
				done(i, value.Null(), nil)
			}
		}
		w.take = func(text string, i int, done func(int, value.Value, error)) (bool, error) {
			if text == `"full"` {
				return false, nil
			}
			taken.Add(1)
			return true, nil
		}
		flow := serve(t, takingSink(w), "- {kind: memory_sink, name: n, max_in_flight: 2}")
		flow.Start("n", value.String("full"))
		synctest.Wait()
		second := flow.Start("n", value.Int(1))
		synctest.Wait()
		if taken.Load() != 0 {
			t.Error("a record has overtaken one that Write has")
		}
		close(blocked)
		expect(t, "second", flowtest.Show(second.Response()), "none")
		synctest.Wait() // Write has returned
		for range 3 {
			flow.Start("n", value.Int(2))
		}
		synctest.Wait()
		if n := taken.Load(); n != 2 {
			t.Errorf("%d records were taken, and 2 may be in flight", n)
		}
	})
}
