package node_test

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/uniflow-labs/uniflow/diag"
	"github.com/uniflow-labs/uniflow/node"
)

type nothing struct{}

func (nothing) Close() error { return nil }

// TestAcquirePanic frees a key whose open has panicked, and fails all that wait for it.
func TestAcquirePanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pool node.Pool
		begun := make(chan struct{})
		var workers sync.WaitGroup
		workers.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic did not go on to who called Acquire")
				}
			}()
			_, _, err := node.Acquire(&pool, "key", func() (nothing, error) {
				close(begun)
				synctest.Wait() // until the other one waits
				panic("boom")
			})
			t.Errorf("got error %v, want a panic", err)
		})
		workers.Go(func() {
			<-begun
			_, _, err := node.Acquire(&pool, "key", func() (nothing, error) { return nothing{}, nil })
			if err == nil {
				t.Error("waiting for an open that panics: got no error")
			}
		})
		workers.Wait()
		_, release, err := node.Acquire(&pool, "key", func() (nothing, error) { return nothing{}, nil })
		if err = errors.Join(err, release()); err != nil {
			t.Errorf("after the panic: got %v, want the key to be free", err)
		}
	})
}

// TestAcquireError frees a key whose open has failed.
func TestAcquireError(t *testing.T) {
	var pool node.Pool
	failed := errors.New("no luck")
	if _, _, err := node.Acquire(&pool, "key", func() (nothing, error) { return nothing{}, failed }); !errors.Is(err, failed) {
		t.Errorf("got %v, want %v", err, failed)
	}
	_, release, err := node.Acquire(&pool, "key", func() (nothing, error) { return nothing{}, nil })
	if err = errors.Join(err, release()); err != nil {
		t.Errorf("got %v after a failure", err)
	}
}

func TestFailNil(t *testing.T) {
	r := node.Fail(nil)
	if !r.Effect().Payload.IsError() || node.Describe(r.Effect().Payload.AsError()).Code != string(diag.CodeMisuse) {
		t.Errorf("got %v, want an error with code %s", r.Effect().Payload, diag.CodeMisuse)
	}
}

// TestErrorCode expects the code after the message, once.
func TestErrorCode(t *testing.T) {
	inner := &node.Error{Err: errors.New("too much"), Code: "F7004"}
	outer := *inner
	outer.Err, outer.Node = inner, node.Ref{Kind: "k", Name: "a"}
	for _, err := range []error{inner, &outer} {
		want := "too much [F7004]"
		if err == &outer {
			want = `node "a" (): ` + want
		}
		if got := err.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := node.Message(err); got != "too much" {
			t.Errorf("got message %q", got)
		}
	}
}
