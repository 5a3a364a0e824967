package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// TestWaitFor: a Stop whose work had ended when the grace was over has not failed. A select
// takes either of two channels, so one round shows nothing.
func TestWaitFor(t *testing.T) {
	late := errors.New("late")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(late)
	ended := make(chan struct{})
	if err := node.WaitFor(ctx, ended); err != late {
		t.Errorf("got %v, want %v", err, late)
	}
	close(ended)
	for range 100 {
		if err := node.WaitFor(ctx, ended); err != nil {
			t.Fatalf("what had ended is late: %v", err)
		}
	}
}

// TestUnusable is the error of a mistake that no other attempt mends, also within other errors.
func TestUnusable(t *testing.T) {
	mistake := node.Unusable("key", errors.New("is null"))
	for _, err := range []error{
		mistake, fmt.Errorf("node: %w", mistake), &node.Error{Err: fmt.Errorf("key: %w", mistake), Status: 503},
		errors.Join(&node.Error{Err: errors.New("away"), Status: 503}, mistake), &lang.Thrown{Message: "no such key", Permanent: true},
	} {
		e := node.Describe(err)
		if !e.IsPermanent() || e.Retryable() {
			t.Errorf("%v: got an error that may be tried again", err)
		}
		if field, _ := value.ErrorMap(value.Error(e)).Get("permanent"); !field.Equal(value.Bool(true)) {
			t.Errorf("%v: got permanent: %v", err, field)
		}
	}
	for _, err := range []error{
		context.Canceled, node.ErrTimeLimit, &lang.Timeout{After: time.Second}, &node.Error{Err: errors.New("grace"), Status: 503}, &node.Error{Err: errors.New("away"), Outage: true},
	} {
		if e := node.Unusable("key", fmt.Errorf("evaluation stopped: %w", err)); e.IsPermanent() || !e.Retryable() {
			t.Errorf("%v: got an error that is not tried again", err)
		}
	}
	if mistake.Status != http.StatusInternalServerError || mistake.Public {
		t.Errorf("got status %d, public: %t", mistake.Status, mistake.Public)
	}
	for status, want := range map[int]bool{0: true, 400: false, 404: false, 408: true, 425: true, 429: true, 500: true, 503: true} {
		e := &node.Error{Err: errors.New("x"), Status: status}
		if _, permanent := value.ErrorMap(value.Error(e)).Get("permanent"); e.Retryable() != want || permanent {
			t.Errorf("status %d: got %t, permanent: %t", status, e.Retryable(), permanent)
		}
	}
}
