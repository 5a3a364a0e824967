package otlp

import (
	"errors"
	"math/rand/v2"
	"net"
	"reflect"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/uniflow-labs/uniflow/observe"
)

// A state is how the receiver answered the last request. Only changes are logged, as
// a receiver may be down for days.
type state uint8

const (
	stateAccepting state = iota
	stateRejecting       // some spans of a batch
	stateDown
)

// work sends batches until the exporter is closed and the queue is empty.
func (e *Exporter) work() {
	for {
		batch, more := e.gather()
		if len(batch) > 0 {
			e.send(batch)
		}
		e.logDropped(!more)
		if !more {
			return
		}
	}
}

// gather waits for a timeline, and for further ones until the batch is full or
// batchDelay has passed. more is false once the exporter is closing and the queue is
// empty.
func (e *Exporter) gather() (batch []*observe.Timeline, more bool) {
	var due <-chan time.Time
	size := 0
	take := func(t *observe.Timeline) {
		e.waiting.Add(-int64(1 + len(t.Spans)))
		batch = append(batch, t)
		size += estimate(t)
	}
	for size < batchBytes {
		select {
		case t := <-e.queue:
			take(t)
			if due == nil {
				due = time.After(batchDelay)
			}
		case <-due:
			return batch, true
		case <-e.closing:
			for size < batchBytes {
				select {
				case t := <-e.queue:
					take(t)
				default:
					return batch, false
				}
			}
			return batch, true
		}
	}
	return batch, true
}

// send sends a batch, and counts what became of it.
func (e *Exporter) send(batch []*observe.Timeline) {
	var spans []*tracepb.Span
	for _, t := range batch {
		spans = appendSpans(spans, t)
	}
	err := e.upload(e.resource.wrap(spans), len(batch))
	rejected, partly := rejectedSpans(err)
	switch {
	case err == nil:
		e.stats.spans.Add(uint64(len(spans)))
		e.setState(stateAccepting, nil, len(batch))
	case partly:
		rejected = min(rejected, uint64(len(spans)))
		e.stats.rejected.Add(rejected)
		e.stats.spans.Add(uint64(len(spans)) - rejected)
		e.setState(stateRejecting, err, len(batch))
	default:
		e.stats.failed.Add(uint64(len(batch)))
		e.setState(stateDown, err, len(batch))
	}
}

// upload sends a request. The client retries a request that the receiver could not
// take. It does not retry if there is no connection, as while the receiver restarts.
// That is done here, unless the exporter is closing.
func (e *Exporter) upload(request []*tracepb.ResourceSpans, processes int) error {
	until := time.Now().Add(e.opts.Retry)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := e.client.UploadTraces(e.sending, request)
		if !unreachable(err) || time.Now().Add(pause).After(until) {
			return err
		}
		select {
		case <-e.closing:
			return err
		default:
		}
		e.setState(stateDown, err, processes)
		select {
		case <-time.After(pause/2 + rand.N(pause)): // so that programs do not try in step
		case <-e.closing: // try one last time
		}
	}
}

// unreachable reports whether a request failed to get a connection.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// rejectedSpans returns how many spans were rejected of a batch that was accepted in
// part; none are if the receiver only sent a warning. ok is false for other errors.
//
// The client's error is a PartialSuccess of one of its internal packages, so reflect
// reads its field. TestPartial fails if that changes.
func rejectedSpans(err error) (rejected uint64, ok bool) {
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined {
		for _, e := range joined.Unwrap() {
			if rejected, ok = rejectedSpans(e); ok {
				return rejected, true
			}
		}
		return 0, false
	}
	v := reflect.ValueOf(err)
	if v.Kind() != reflect.Struct || v.Type().Name() != "PartialSuccess" {
		return 0, false
	}
	n := v.FieldByName("RejectedItems")
	if n.Kind() != reflect.Int64 {
		return 0, false
	}
	return uint64(max(n.Int(), 0)), true
}

// setState logs the state of the receiver if it has changed.
func (e *Exporter) setState(now state, err error, processes int) {
	if now == e.state {
		return
	}
	switch now {
	case stateAccepting:
		e.opts.Log.Info("traces are sent again", "url", e.opts.URL, "failed", e.stats.failed.Load(), "rejected", e.stats.rejected.Load())
	case stateRejecting:
		e.opts.Log.Warn("traces sent, but not taken as they are", "url", e.opts.URL, "error", err)
	case stateDown:
		e.opts.Log.Error("traces not sent", "url", e.opts.URL, "processes", processes, "error", err)
	}
	e.state = now
}

func (e *Exporter) logDropped(last bool) {
	dropped := e.stats.dropped.Load()
	if dropped == e.droppedLogged || !last && time.Since(e.dropLogged) < dropLogEvery {
		return
	}
	e.opts.Log.Warn("traces dropped: processes end faster than they can be sent; see --otlp-ratio", "processes", dropped-e.droppedLogged)
	e.droppedLogged, e.dropLogged = dropped, time.Now()
}
