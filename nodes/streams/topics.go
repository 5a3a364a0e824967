package streams

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// topics are the topics of a namespace, for the nodes of all generations.
type topics struct {
	sync.Mutex
	subscriptions map[string]map[*subscription]struct{}
	held          *node.Account // bytes of payloads that wait, each once
	published     uint64
	delivered     uint64
	dropped       uint64

	hub keep.Hub // to other programs; nil without a store
}

// acquireTopics returns the topics of a node's namespace. What programs share is apart from what they do not.
func acquireTopics(ctx context.Context, init *node.Init, place *keep.Place) (*topics, func() error, error) {
	key := "topics " + init.Node.Namespace
	if !place.InMemory() {
		key += " " + place.Shared
	}
	return node.Acquire(init.Pool, key, func() (*topics, error) {
		h := &topics{subscriptions: make(map[string]map[*subscription]struct{}), held: init.Memory.Account("subscribe")}
		if place.InMemory() {
			return h, nil
		}
		var err error
		h.hub, err = place.OpenHub(ctx, init.Node.Namespace, func(message []byte) { h.got(init.Log, message) })
		return h, err
	})
}

// Close ends the connection to other programs.
func (h *topics) Close() error {
	if h.hub == nil {
		return nil
	}
	return h.hub.Close()
}

// A posted payload waits for subscriptions, and counts once for all of them.
type posted struct {
	payload value.Value
	size    int
	waiting atomic.Int32 // for so many, and while it is published
}

// left says that one of them does not wait for it any more.
func (h *topics) left(p *posted) {
	if p.waiting.Add(-1) == 0 {
		h.held.Free(int64(p.size))
	}
}

// publish gives a payload to the subscriptions of a topic, and returns how many they are.
func (h *topics) publish(topic string, payload value.Value) int {
	h.Lock()
	h.published++
	ready := make([]*subscription, 0, len(h.subscriptions[topic]))
	for s := range h.subscriptions[topic] {
		ready = append(ready, s)
	}
	h.Unlock()
	var delivered, dropped uint64
	var waits *posted // made when the first subscription is busy
	defer func() {
		if waits != nil {
			h.left(waits)
		}
	}()
	for _, s := range ready {
		ok, lost := s.push(payload, &waits)
		if ok {
			delivered++
		}
		if lost {
			dropped++
		}
	}
	h.Lock()
	defer h.Unlock()
	h.delivered += delivered
	h.dropped += dropped
	return int(delivered)
}

func (h *topics) enter(s *subscription) {
	h.Lock()
	defer h.Unlock()
	subs := h.subscriptions[s.topic]
	if subs == nil {
		subs = make(map[*subscription]struct{})
		h.subscriptions[s.topic] = subs
	}
	subs[s] = struct{}{}
}

func (h *topics) leave(s *subscription) {
	h.Lock()
	defer h.Unlock()
	subs := h.subscriptions[s.topic]
	if delete(subs, s); len(subs) == 0 {
		delete(h.subscriptions, s.topic)
	}
}

// A subscription is a packet of subscribe: its process waits for the next payload, or
// for the answer to the one before.
type subscription struct {
	topic  string
	topics *topics
	most   int
	drop   bool // the oldest, when full
	resume func(ctx context.Context, done func(node.Result))
	send   *node.Call

	mu     sync.Mutex
	buffer []*posted // that wait, the oldest first
	bytes  int       // of the buffer
	parked func(node.Result)
	forget func() bool  // ends the watch for the end of the process
	final  *node.Result // the end that comes after what waits; nil until the node is drained
	end    *node.Result // set when it is over
}

// errSubscriberSlow is the end of a subscription with full: close.
var errSubscriberSlow = &node.Error{Err: errors.New("the subscriber is too slow: its buffer is full"), Code: "slow", Status: http.StatusServiceUnavailable}

func newSubscription(h *topics, topic string, most int, drop bool) *subscription {
	s := &subscription{topic: topic, topics: h, most: most, drop: drop}
	s.resume = s.park
	s.send = node.NewCall(func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			s.close(node.Respond(resp))
		}
		return node.Await(s.resume)
	})
	h.enter(s)
	return s
}

// park waits for the next payload, or for the end.
func (s *subscription) park(ctx context.Context, done func(node.Result)) {
	s.mu.Lock()
	if s.forget == nil && s.end == nil {
		s.forget = context.AfterFunc(ctx, func() { s.cancel(ctx) })
	}
	if s.final != nil && len(s.buffer) == 0 {
		s.finishLocked(*s.final)
		s.mu.Lock()
	}
	r, ok := s.nextLocked()
	if !ok {
		s.parked = done
	}
	s.mu.Unlock()
	if ok {
		done(r)
	}
}

// nextLocked returns what the process does now, unless it has to wait.
func (s *subscription) nextLocked() (r node.Result, ok bool) {
	switch {
	case s.end != nil:
		return *s.end, true
	case len(s.buffer) == 0:
		return r, false
	}
	v := s.buffer[0].payload
	s.dropLocked()
	return s.send.Send(0, v), true
}

// push adds a payload. lost says that there was no room, for it or for an earlier one.
// waits is the payload as those have it that it waits for, nil before the first.
func (s *subscription) push(v value.Value, waits **posted) (ok, lost bool) {
	s.mu.Lock()
	switch {
	case s.end != nil:
		s.mu.Unlock()
		return false, false
	case s.parked != nil:
		done := s.parked
		s.parked = nil
		s.mu.Unlock()
		done(s.send.Send(0, v))
		return true, false
	}
	if *waits == nil {
		p := &posted{payload: v, size: v.Size()}
		if !s.topics.held.Take(int64(p.size)) {
			s.mu.Unlock()
			if !s.drop {
				s.close(node.Fail(errSubscriberSlow))
			}
			return false, true
		}
		p.waiting.Store(1)
		*waits = p
	}
	size := (*waits).size
	for len(s.buffer) >= s.most || len(s.buffer) > 0 && s.bytes+size > mostBuffered {
		if lost = true; !s.drop {
			s.mu.Unlock()
			s.close(node.Fail(errSubscriberSlow))
			return false, true
		}
		s.dropLocked()
	}
	s.buffer = append(s.buffer, *waits)
	(*waits).waiting.Add(1)
	s.bytes += size
	s.mu.Unlock()
	return true, lost
}

// mostBuffered is how many bytes of payloads wait for a subscription, unless it is one that
// is larger: a slow reader must not hold many large ones.
const mostBuffered = 4 << 20

// dropLocked takes the oldest payload from the buffer.
func (s *subscription) dropLocked() {
	s.bytes -= s.buffer[0].size
	s.topics.left(s.buffer[0])
	s.buffer[0] = nil
	if s.buffer = s.buffer[1:]; len(s.buffer) == 0 {
		s.buffer = nil
	}
}

// close ends the subscription with a result, unless it has ended. Payloads that wait are
// dropped.
func (s *subscription) close(r node.Result) {
	s.mu.Lock()
	s.finishLocked(r)
}

// drain ends the subscription with a result when what it has taken has been sent: publishers
// got the answer that it took that. It takes nothing more.
func (s *subscription) drain(r node.Result) {
	s.mu.Lock()
	if s.parked != nil { // nothing waits
		s.finishLocked(r)
		return
	}
	s.final = &r
	s.mu.Unlock()
	s.topics.leave(s)
}

// cancel ends the subscription because its process ends. As long as the subscription has
// not ended, ctx is the context of the process.
func (s *subscription) cancel(ctx context.Context) {
	s.mu.Lock()
	if s.end != nil {
		s.mu.Unlock()
		return
	}
	s.finishLocked(node.Answer(value.Error(context.Cause(ctx))))
}

// finishLocked ends the subscription, and unlocks it.
func (s *subscription) finishLocked(r node.Result) {
	if s.end != nil {
		s.mu.Unlock()
		return
	}
	s.end = &r
	done := s.parked
	for len(s.buffer) > 0 {
		s.dropLocked()
	}
	s.parked = nil
	if s.forget != nil {
		s.forget() // while there is a process
	}
	s.mu.Unlock()
	s.topics.leave(s)
	if done != nil {
		done(r)
	}
}
