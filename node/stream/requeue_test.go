package stream_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// id returns the id of the source of a run.
func (r *run) id() string {
	r.t.Helper()
	for _, ref := range r.engine.Status().Nodes {
		if ref.Name == "s" {
			return ref.ID
		}
	}
	r.t.Fatal("there is no source")
	return ""
}

// TestRequeue sends a dead letter again at a source that reads on meanwhile: with the retries of that, until
// the workflow takes it.
func TestRequeue(t *testing.T) {
	each(t, func(t *testing.T, s *broker) {
		s.add(0, "k", `"poison"`, "1")
		var mu sync.Mutex
		mended, attempts, dead := false, 0, []string(nil)
		r := start(t, s, letters, func(_ context.Context, port string, v value.Value) error {
			mu.Lock()
			defer mu.Unlock()
			if port == "dead" {
				text, err := v.AppendJSON(nil)
				dead = append(dead, string(text))
				return err
			}
			body, _ := v.Get("body")
			if body.String() != "poison" || mended {
				return nil
			}
			attempts++
			return errors.New("no")
		})
		r.until("all to be settled", s.settledAll)
		requeue := func(want ...node.Requeued) {
			t.Helper()
			mu.Lock()
			lines := [][]byte{[]byte(dead[len(dead)-1]), []byte(strings.Replace(dead[len(dead)-1], `"body":"poison"`, `"body":"edited"`, 1))}
			mu.Unlock()
			got, err := r.engine.Requeue(t.Context(), r.id(), lines)
			if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("got %v, %v, want %v", got, err, want)
			}
		}
		requeue(node.RequeuedLetter, node.RequeuedWell)
		mu.Lock()
		if attempts != 6 || len(dead) != 2 || withoutTimes(dead[1]) != withoutTimes(dead[0]) {
			t.Errorf("got %d attempts and %q, want another letter after three more", attempts, dead)
		}
		mended = true
		mu.Unlock()
		s.add(0, "k", "2")
		requeue(node.RequeuedWell, node.RequeuedWell)
		r.until("the source to go on", s.settledAll)
		if len(dead) != 2 || attempts != 6 {
			t.Errorf("got %d attempts and %q", attempts, dead)
		}
		if _, err := r.engine.Requeue(t.Context(), "none", nil); err == nil {
			t.Error("a node that is not there takes letters")
		}
	})
}

func withoutTimes(letter string) string {
	before, after, _ := strings.Cut(letter, `"attempts":3,"time":"`)
	_, after, _ = strings.Cut(after, `"`)
	return before + after
}

const letterOfS = `{"message": "no", "node": "s", "data": {"body": "slow", "id": "0/1"}, "letter": {}}`

// TestRequeueEnds gives letters back that are not answered when the caller leaves, or the source stops, and
// ends what runs.
func TestRequeueEnds(t *testing.T) {
	for _, how := range []string{"the caller leaves", "the source stops"} {
		t.Run(how, func(t *testing.T) {
			began, ended := make(chan struct{}, 10), make(chan struct{}, 10)
			s := newBroker(systems["queue"])
			r := start(t, s, letters, func(ctx context.Context, _ string, _ value.Value) error {
				began <- struct{}{}
				<-ctx.Done()
				ended <- struct{}{}
				return ctx.Err()
			})
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			id, done := r.id(), make(chan []node.Requeued, 1)
			go func() {
				got, err := r.engine.Requeue(ctx, id, [][]byte{[]byte(letterOfS), []byte(letterOfS)})
				if err != nil {
					t.Error(err)
				}
				done <- got
			}()
			<-began
			<-began
			if how == "the caller leaves" {
				leave()
			} else {
				r.shutdown(time.Millisecond)
			}
			if got := <-done; fmt.Sprint(got) != "[0 0]" {
				t.Errorf("got %v, want both kept", got)
			}
			<-ended
			<-ended
			if got := fmt.Sprint(r.got()); strings.Contains(got, "dead") {
				t.Errorf("got %s, want no letter", got)
			}
		})
	}
}

// TestRequeueWithoutLink refuses letters that could not become letters again.
func TestRequeueWithoutLink(t *testing.T) {
	s := newBroker(systems["queue"])
	r := start(t, s, plain, nil)
	if _, err := r.engine.Requeue(t.Context(), r.id(), [][]byte{[]byte(letterOfS)}); err == nil || len(r.got()) > 0 {
		t.Errorf("got %v and %q", err, r.got())
	}
	r.shutdown(5 * time.Second)
	if _, err := r.engine.Requeue(t.Context(), "0", nil); err == nil {
		t.Error("an engine that has ended takes letters")
	}
}
