package otlp

import (
	"errors"
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
	var part *partial
	switch {
	case err == nil:
		e.stats.spans.Add(uint64(len(spans)))
		e.setState(stateAccepting, nil, len(batch))
	case errors.As(err, &part):
		rejected := min(part.rejected, uint64(len(spans)))
		e.stats.rejected.Add(rejected)
		e.stats.spans.Add(uint64(len(spans)) - rejected)
		e.setState(stateRejecting, err, len(batch))
	default:
		e.stats.failed.Add(uint64(len(batch)))
		e.setState(stateDown, err, len(batch))
	}
}

// upload sends a batch, with retries. It returns the error of the last attempt. While
// there is no connection, as when the receiver restarts, the end of the exporter ends a
// pause, so that a receiver that is gone does not delay it.
func (e *Exporter) upload(spans []*tracepb.ResourceSpans, processes int) error {
	body, err := e.client.encode(spans)
	if err != nil {
		return err
	}
	until := time.Now().Add(e.opts.Retry)
	for failed := 1; ; failed++ {
		err := e.client.post(e.sending, body)
		later, ok := retryable(err)
		wait := max(later, pauses.Wait(failed))
		if !ok || time.Now().Add(wait).After(until) {
			return err
		}
		closing := e.closing
		if unreachable(err) {
			select {
			case <-closing:
				return err
			default:
			}
			e.setState(stateDown, err, processes)
		} else {
			closing = nil
		}
		select {
		case <-time.After(wait):
		case <-closing: // try one last time
		case <-e.sending.Done():
			return err
		}
	}
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
