package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

// TestPeers checks that both arms deliver each event once.
func TestPeers(t *testing.T) {
	s := httptest.NewServer(arm.NewReceiver())
	defer s.Close()
	for _, d := range []arm.Design{spanProcessor(), eventsClient()} {
		t.Run(d.Name, func(t *testing.T) {
			const n = 500
			c := arm.NewClient(s.URL, "test")
			if err := c.Begin(t.Context(), arm.Run{Latency: time.Millisecond, Expect: n}); err != nil {
				t.Fatal(err)
			}
			subject, err := d.Make(arm.Options{URL: c.URL(), Endpoint: c.Endpoint(), Size: arm.JSONSize, Interval: 10 * time.Millisecond, Limit: 100})
			if err != nil {
				t.Fatal(err)
			}
			now := time.Now().UnixNano()
			for i := range n {
				if reason := subject.Offer(&arm.Event{Seq: uint64(i), Time: now}); reason != "" {
					t.Fatal(reason)
				}
			}
			if err := subject.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, err := c.Counts(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got.Distinct != n || got.Duplicates+got.Foreign+got.Malformed != 0 || got.AgeP99 > 60_000 {
				t.Errorf("got %+v, want %d events, once, and their times", got, n)
			}
		})
	}
}

// TestFailure checks that the client counts what it could not deliver.
func TestFailure(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	subject, err := eventsClient().Make(arm.Options{Endpoint: s.URL, Interval: time.Millisecond, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if reason := subject.Offer(&arm.Event{Seq: uint64(i)}); reason != "" {
			t.Fatal(reason)
		}
	}
	if err := subject.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := subject.(arm.Dropper).Dropped(); got["failed"] != 10 {
		t.Errorf("got %v, want 10 failed", got)
	}
}
