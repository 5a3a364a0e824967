package chat

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/hashicorp/golang-lru/v2/simplelru"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/meter"
	"github.com/uniflow-labs/uniflow/value"
)

// mostConversations is how many conversations are in memory. The one that was not used for the
// longest time is forgotten first.
const mostConversations = 10_000

// conversations are all that a node of kind chat has, with its connections. They live in the
// pool, so that a reload keeps both.
type conversations struct {
	*dispatcher
	sockets sync.WaitGroup

	held *node.Account // bytes of the conversations, of what waits for processes and clients, and of what is read
	most atomic.Int64  // what that may be, of the last generation

	mu struct {
		sync.Mutex
		byKey    *simplelru.LRU[string, *conversation]
		viewers  map[*viewer]struct{}
		draining context.Context // its end asks streams of events to end
		drain    context.CancelFunc
		stopped  bool
	}
}

func newConversations(memory *node.Memory) *conversations {
	all := &conversations{dispatcher: newDispatcher(), held: memory.Account(platformChat)}
	all.most.Store(mostMemory)
	all.mu.viewers = make(map[*viewer]struct{})
	all.mu.draining, all.mu.drain = context.WithCancel(context.Background())
	var err error
	if all.mu.byKey, err = simplelru.NewLRU[string, *conversation](mostConversations, nil); err != nil { // of a size that is not positive
		panic(err)
	}
	return all
}

// front returns the node of the last generation, or n before the first serves.
func (n *chatNode) front() *chatNode {
	if s := n.conversations.Current(); s != nil {
		return s.node.(*chatNode)
	}
	return n
}

// open returns the conversation of a key, for use until unpin. made reports that there was none.
// Without room for another one it returns nil.
func (all *conversations) open(key string) (conv *conversation, made bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	conv, has := all.mu.byKey.Get(key)
	if !has {
		if !all.fitsLocked(1, conversationWeight) {
			return nil, false
		}
		conv = newConversation(all, key)
		all.mu.byKey.Add(key, conv)
	}
	conv.pins.Add(1)
	return conv, !has
}

// enter counts a viewer, unless there are too many.
func (all *conversations) enter(v *viewer, most int) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.mu.stopped || len(all.mu.viewers) >= most {
		all.counts.refused.Add(1)
		return false
	}
	all.mu.viewers[v] = struct{}{}
	return true
}

func (all *conversations) leave(v *viewer) {
	all.mu.Lock()
	defer all.mu.Unlock()
	delete(all.mu.viewers, v)
	all.held.Free(v.queued.Swap(0)) // nothing is put into its queue any more
}

// drain lets the streams of events end, so that their server can.
func (all *conversations) drain() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.mu.drain()
}

func (all *conversations) drained() <-chan struct{} {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.mu.draining.Done()
}

// resume takes a drain back: another generation has come.
func (all *conversations) resume() {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.mu.stopped = false
	if all.mu.draining.Err() != nil {
		all.mu.draining, all.mu.drain = context.WithCancel(context.Background())
	}
}

// stop cuts off all connections, and lets none in until resume. alone reports that there were none.
func (all *conversations) stop() (alone bool) {
	all.mu.Lock()
	defer all.mu.Unlock()
	all.mu.stopped = true
	for v := range all.mu.viewers {
		v.cut(errStopped)
	}
	return len(all.mu.viewers) == 0
}

// shut ends all connections, and waits for that or for ctx.
func (all *conversations) shut(ctx context.Context) error {
	all.drain()
	if all.stop() { // what is left of sockets does not wait for anything
		all.sockets.Wait()
		return nil
	}
	done := make(chan struct{})
	all.work.Go(func() {
		all.sockets.Wait()
		close(done)
	})
	return node.WaitFor(ctx, done)
}

func (all *conversations) Close() error {
	all.drain()
	all.stop()
	all.sockets.Wait()
	defer all.held.Close()
	return all.dispatcher.Close()
}

func (all *conversations) measure(report func(node.Metric)) {
	all.mu.Lock()
	viewers, kept := len(all.mu.viewers), all.mu.byKey.Len()
	all.mu.Unlock()
	report(meter.Gauge("chat_connections", "Connections that show a conversation.", int64(viewers)))
	report(meter.Gauge("chat_memory_bytes", "Memory of the conversations.", all.held.Held()))
	report(meter.Gauge("chat_conversations", "Conversations in memory.", int64(kept)))
	all.dispatcher.measure(platformChat, report)
}

// prepare reads what was said before, if there is a port for that. The first
// caller does it; the others wait.
func (n *chatNode) prepare(ctx context.Context, conv *conversation) {
	if conv.prepared.Swap(true) {
		select {
		case <-conv.ready:
		case <-ctx.Done():
		}
		return
	}
	defer close(conv.ready)
	if !n.recalls || n.generation == nil {
		conv.beganBefore()
		return
	}
	asked := incoming{platform: platformChat, conversation: conv.key, event: "history"}
	resp := n.generation.starter.Run(n.conversations.ctx, n.conversations.call.Send(outHistory, asked.payload()))
	if resp.IsError() {
		conv.beganBefore()
		n.init.Log.Warn("earlier messages cannot be read", "conversation", conv.key, "error", node.Clip(resp.Payload.AsError().Error(), 1000))
		return
	}
	conv.restore(historyOf(resp.Payload))
}

// historyOf reads messages as models have them: a list of role and content. Others are not
// for clients.
func historyOf(v value.Value) []*message {
	var earlier []*message
	for i, elem := range v.Elems() {
		if v.Len()-i > mostMessages || elem.Kind() != value.KindMap {
			continue
		}
		content := textOrNumber(elem, "content")
		from := map[string]string{"user": "user", "assistant": "bot"}[textOrNumber(elem, "role")]
		if content != "" && from != "" {
			earlier = append(earlier, &message{From: from, Text: content})
		}
	}
	return earlier
}
