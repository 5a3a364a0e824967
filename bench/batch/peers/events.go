package main

import (
	"context"
	"strconv"
	"sync/atomic"

	"github.com/posthog/posthog-go"

	"github.com/uniflow-labs/uniflow/bench/batch/arm"
)

// payload makes the properties of an event about as long as the benchmark's.
const payload = "The quick brown fox jumps over the lazy dog while the five boxing wizards jump"

// eventsClient is posthog-go. An event is a capture with the event's fields as
// properties; what else it writes, a UUID, the library's name and the time among
// it, makes the body about three times as long. It sends no more than 500 kB at a
// time, whatever it is told.
func eventsClient() arm.Design {
	return arm.Design{Name: "posthog-go", Load: arm.Open, Tells: true, Make: func(o arm.Options) (arm.Subject, error) {
		s := &captures{}
		var err error
		s.client, err = posthog.NewWithConfig("key", posthog.Config{
			Endpoint: o.Endpoint, Interval: o.Interval, BatchSize: o.Limit,
			Transport: transport(), Callback: s, Logger: silent{},
		})
		return s, err
	}}
}

type captures struct {
	client posthog.Client
	failed atomic.Int64
}

// Offer waits when the client's channel is full.
func (s *captures) Offer(e *arm.Event) (reason string) {
	err := s.client.Enqueue(posthog.Capture{
		DistinctId: strconv.FormatUint(e.User, 10), Event: "event",
		Properties: posthog.Properties{"seq": e.Seq, "time": e.Time, "value": e.Value, "payload": payload},
	})
	if err != nil {
		return err.Error()
	}
	return ""
}

// Close sends what is waiting. The client takes no context for it.
func (s *captures) Close(context.Context) error { return s.client.Close() }

func (s *captures) Success(posthog.APIMessage) {}

// Failure counts an event that was not taken.
func (s *captures) Failure(posthog.APIMessage, error) { s.failed.Add(1) }

func (s *captures) Dropped() map[string]int64 {
	if n := s.failed.Load(); n > 0 {
		return map[string]int64{"failed": n}
	}
	return nil
}

// silent drops what the client logs. Failures are counted.
type silent struct{}

func (silent) Logf(string, ...any) {}

func (silent) Errorf(string, ...any) {}
