package otlp

import (
	"errors"
	"math/rand/v2"
	"net"
	"regexp"
	"strconv"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/uniflow-labs/uniflow/observe"
)

// A state is what the receiver makes of requests. The log is told of changes: a
// receiver may be down for days.
type state uint8

const (
	taking   state = iota
	refusing       // some spans of a batch
	down
)

// work sends batches until the exporter is closed and nothing is left.
func (e *Exporter) work() {
	for {
		batch, more := e.gather()
		if len(batch) > 0 {
			e.send(batch)
		}
		e.tellDropped(!more)
		if !more {
			return
		}
	}
}

// gather waits for a timeline, and for more of them until the batch is full or
// old enough. There are no more once the exporter is closing and has none left.
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
	rejected, partly := partial(err)
	switch {
	case err == nil:
		e.stats.spans.Add(uint64(len(spans)))
		e.tell(taking, nil, len(batch))
	case partly:
		rejected = min(rejected, uint64(len(spans)))
		e.stats.rejected.Add(rejected)
		e.stats.spans.Add(uint64(len(spans)) - rejected)
		e.tell(refusing, err, len(batch))
	default:
		e.stats.failed.Add(uint64(len(batch)))
		e.tell(down, err, len(batch))
	}
}

// upload sends a request. The client tries again what the receiver could not take,
// but not what it was not there for, as when it is restarted: that is done here,
// unless the exporter is closing.
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
		e.tell(down, err, processes)
		select {
		case <-time.After(pause/2 + rand.N(pause)): // not all programs at once
		case <-e.closing: // one last time
		}
	}
}

// unreachable reports whether a request has not got as far as a connection.
func unreachable(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

// rejection is how the client words that a receiver has taken a batch in part. Its
// type is not exported, and a whole batch must not be counted for a few spans, or
// for a mere warning, of which none is rejected. TestPartial keeps to it.
var rejection = regexp.MustCompile(`^OTLP partial success: (?s:.*) \((\d+) spans rejected\)$`)

// partial returns how many spans of a batch were rejected, if it was taken.
func partial(err error) (rejected uint64, ok bool) {
	if err == nil {
		return 0, false
	}
	m := rejection.FindStringSubmatch(err.Error())
	if m == nil {
		return 0, false
	}
	rejected, err = strconv.ParseUint(m[1], 10, 64)
	return rejected, err == nil
}

// tell logs what the receiver makes of requests, if that has changed.
func (e *Exporter) tell(now state, err error, processes int) {
	if now == e.state {
		return
	}
	switch now {
	case taking:
		e.opts.Log.Info("traces are sent again", "url", e.opts.URL, "failed", e.stats.failed.Load(), "rejected", e.stats.rejected.Load())
	case refusing:
		e.opts.Log.Warn("traces sent, but not taken as they are", "url", e.opts.URL, "error", err)
	case down:
		e.opts.Log.Error("traces not sent", "url", e.opts.URL, "processes", processes, "error", err)
	}
	e.state = now
}

func (e *Exporter) tellDropped(last bool) {
	dropped := e.stats.dropped.Load()
	if dropped == e.reported || !last && time.Since(e.last) < dropGap {
		return
	}
	e.opts.Log.Warn("traces dropped: processes end faster than they can be sent; see --otlp-ratio", "processes", dropped-e.reported)
	e.reported, e.last = dropped, time.Now()
}
