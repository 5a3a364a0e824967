package stream_test

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/stream"
)

// TestInbox compares an inbox with what it says: each message that found room comes once, and again
// after each time that it was given back, when it is due.
func TestInbox(t *testing.T) {
	for range 200 {
		synctest.Test(t, testInbox)
	}
}

func testInbox(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	clock := node.SystemClock{} // of the bubble
	most, bytes := 1+r.IntN(6), int64(1+r.IntN(40))
	inbox := stream.NewInbox[int](clock, most, bytes)
	var waiting []int64 // sizes
	var held []stream.Message
	kept, dropped, next := 0, 0, uint64(1)
	attempts := map[uint64]int{}
	due := map[uint64]time.Time{}
	sum := func() (n int64) {
		for _, s := range waiting {
			n += s
		}
		return n
	}
	for range 60 {
		switch r.IntN(4) {
		case 0, 1:
			size := int64(r.IntN(30))
			if len(waiting) >= most || len(waiting) > 0 && sum()+size > bytes {
				dropped++
			} else {
				waiting = append(waiting, size)
				kept++
			}
			inbox.Put(kept, make([]byte, size), size)
		case 2:
			read := inbox.Take(stream.Room{Messages: 1 + r.IntN(4), Bytes: int64(1 + r.IntN(50))})
			for _, m := range read {
				a := m.Token.(*stream.Arrival[int])
				if at, again := due[a.Number]; again {
					if clock.Now().Before(at) {
						t.Fatalf("seed %d: %d came again before it was due", seed, a.Number)
					}
					delete(due, a.Number)
				} else {
					if a.Number != next || a.Of != int(next) || int64(len(m.Raw)) != waiting[0] {
						t.Fatalf("seed %d: got %d, %d of %d bytes, want %d of %d", seed, a.Number, a.Of, len(m.Raw), next, waiting[0])
					}
					next++
					waiting = waiting[1:]
				}
				if m.Attempt != attempts[a.Number] {
					t.Fatalf("seed %d: attempt %d of %d, want %d", seed, m.Attempt, a.Number, attempts[a.Number])
				}
			}
			held = append(held, read...)
		case 3:
			for len(held) > 0 && r.IntN(3) > 0 {
				m := held[0]
				held = held[1:]
				o := stream.Outcome{Message: &m, Delay: time.Duration(r.IntN(3)) * time.Second}
				number := m.Token.(*stream.Arrival[int]).Number
				switch r.IntN(3) {
				case 0:
					o.Err = errors.New("failed")
					attempts[number]++
					due[number] = clock.Now().Add(o.Delay)
				case 1:
					o.Err = stream.ErrUnused
					due[number] = clock.Now().Add(o.Delay)
				}
				inbox.Settle([]stream.Outcome{o})
			}
			<-time.After(time.Duration(r.IntN(1500)) * time.Millisecond)
		}
	}
	var got float64
	inbox.Counts(func(m node.Metric) { got = m.Value }, 0)
	if got != float64(dropped) {
		t.Fatalf("seed %d: %v dropped, want %d", seed, got, dropped)
	}
}
