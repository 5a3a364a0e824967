package streams

import (
	"context"
	_ "embed"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/value"
)

// This file has how windows end: when they are over, when there is no room, and when the node stops.

func (n *windower) tooLate(payload value.Value) node.Result {
	if n.linked {
		return node.Send(1, payload)
	}
	late := *errLate
	late.Data = payload
	return node.Fail(&late)
}

// load is what max bounds.
func (n *windower) load() int {
	switch {
	case n.step != nil:
		return len(n.byEnd)
	case n.early:
		return n.values
	}
	return n.parked
}

func (n *windower) open() int { return len(n.byEnd) + len(n.reopened) }

// shorten sends the oldest window before its end.
func (n *windower) shorten(full []*bundle) []*bundle {
	var oldest *window
	if len(n.byEnd) > 0 {
		oldest = n.byEnd[0]
		n.events.cut(oldest.key, oldest.end, n.max)
	} else {
		for _, w := range n.reopened {
			oldest = w
			break
		}
	}
	if oldest == nil {
		return full
	}
	oldest.partial = true
	return append(full, n.takeAll([]*bundle{&oldest.bundle})...)
}

// watch has windows end by the clock when no payloads come. It looks each idle time.
func (n *windower) watch(now time.Time) {
	if n.tick != nil || len(n.byEnd) == 0 {
		return
	}
	after := n.idleAfter
	if passed := now.Sub(n.events.came); passed < after {
		after -= passed
	} else if rest := n.events.rest(n.byEnd[0].end, n.late, n.idleAfter, now); rest < after {
		after = rest
	}
	n.tick = n.clock.AfterFunc(after, func(context.Context) {
		last := n.exhausted != nil && n.exhausted() // before the locks, as it takes those of sources
		n.Lock()
		n.events.Lock()
		n.tick = nil
		now := n.clock.Now()
		var full []*bundle
		for !n.drained && len(n.byEnd) > 0 && n.rest(last, now) <= 0 {
			w := n.byEnd[0]
			n.events.watermark = max(n.events.watermark, w.end)
			full = append(full, n.takeAll([]*bundle{&w.bundle})...)
		}
		if !n.drained {
			n.watch(now)
		}
		n.events.Unlock()
		n.Unlock()
		n.send(full)
	})
}

// rest returns how long it takes until the next window ends by the clock, if no event comes. At the
// end of a job no event can move the time on, so that does not have to come to the end of the window.
func (n *windower) rest(last bool, now time.Time) time.Duration {
	if last {
		return n.idleAfter - now.Sub(n.events.came)
	}
	return n.events.rest(n.byEnd[0].end, n.late, n.idleAfter, now)
}

// Drain sends all windows, as parts.
func (n *windower) Drain() {
	n.drain(func() (full []*bundle) {
		n.events.Lock()
		defer n.events.Unlock()
		for n.open() > 0 {
			full = n.shorten(full)
		}
		if n.tick != nil {
			n.tick()
		}
		return full
	})
}

// aloneNow sends a payload that comes when the node is drained, as a part of each of its windows.
func (n *windower) aloneNow(ctx context.Context, payload value.Value) node.Result {
	e, err := n.read(ctx, payload)
	if err != nil {
		return node.Fail(err)
	}
	spans := n.spans(e.at)
	packets := make([]node.Out, 0, len(spans))
	n.events.Lock()
	defer n.events.Unlock()
	for _, s := range spans {
		if s.end <= n.events.watermark && n.events.faultOf(e.key, e.at, s, n.gap > 0) == nil {
			continue
		}
		w := &window{key: e.key, name: e.name, start: s.start, end: s.end, partial: true}
		content := value.List(payload)
		if n.step != nil {
			if content, err = n.fold(ctx, n.init, payload); err != nil {
				return node.Fail(err)
			}
		}
		packets = append(packets, node.Out{Payload: w.show(n.step != nil, content)})
		n.events.cut(e.key, s.end, n.max)
	}
	if len(packets) == 0 {
		return n.tooLate(payload)
	}
	return node.SendAll(packets, func(_ node.Process, resps []node.Response) node.Result {
		if joined := node.Join(resps); joined.IsError() {
			return node.Respond(joined)
		}
		return node.None()
	})
}
