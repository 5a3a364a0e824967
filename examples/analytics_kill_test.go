package examples

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/batch"
	"github.com/uniflow-labs/uniflow/internal/ground/freeport"
	"github.com/uniflow-labs/uniflow/trail"
	"github.com/uniflow-labs/uniflow/trail/query"
)

// TestLoaderKilled kills the loader of a store at random moments while batches
// come. In the end each event is in the store once. UNIFLOW_KILL_ROUNDS=200 has it
// go on for longer.
func TestLoaderKilled(t *testing.T) {
	rounds := 5
	if text := os.Getenv("UNIFLOW_KILL_ROUNDS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		rounds = n
	}
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	t.Chdir(t.TempDir())
	port := strconv.Itoa(freeport.Port(t))
	send, err := batch.NewHTTP("http://127.0.0.1:"+port+"/batch", batch.HTTPOptions{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	p, err := batch.New(batch.Options[int]{
		Encode: func(dst []byte, n *int) ([]byte, error) {
			return fmt.Appendf(dst, `{"user":"u%d","time":%d,"event":"view","n":%d}`, *n, 1767607200+*n, *n), nil
		},
		Send:    send,
		Trigger: batch.Trigger{Count: 50, Linger: time.Millisecond},
		Retry:   batch.Retry{Initial: 5 * time.Millisecond, Max: 50 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	sent := 0
	for range rounds {
		l := loadTrail(t, "store", port)
		end := time.After(time.Duration(20_000+random.IntN(100_000)) * time.Microsecond)
		for running := true; running; sent++ {
			n := sent
			if err := p.AddWait(t.Context(), &n); err != nil {
				t.Fatal(err)
			}
			select {
			case <-end:
				running = false
			default:
			}
		}
		l.kill()
	}
	l := loadTrail(t, "store", port)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	report, err := p.Close(ctx)
	if err != nil || report.Delivered != uint64(sent) {
		t.Errorf("got %+v, %v", report, err)
	}
	l.end()

	found, err := trail.Verify(t.Context(), "store", nil)
	if err != nil || !found.OK() {
		t.Errorf("got %+v, %v", found, err)
	}
	s, err := trail.Open("store", trail.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, measure := range []string{"count", "users"} {
		q, err := query.Parse("", []byte("segment: {event: view, measure: "+measure+"}"))
		if err != nil {
			t.Fatal(err)
		}
		a, err := s.Query(t.Context(), q, trail.QueryOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Segment.Rows[0].Value.Int; got != int64(sent) {
			t.Errorf("%s: got %d, want %d", measure, got, sent)
		}
	}
	t.Logf("%d events in %d rounds", sent, rounds)
}
