package chat

import (
	"errors"
	"slices"
)

const (
	// conversationWeight and messageWeight are what a conversation and a message have in
	// memory, in bytes, without their texts; heldWeight is what a message has whose process has not ended.
	conversationWeight, messageWeight, heldWeight = 1024, 256, 1024

	// mostQueued is how many bytes may wait for a client that is slow. Where memory is
	// short, it is [shortQueued].
	mostQueued, shortQueued = 1 << 20, 16 << 10

	// mostMemory is what the conversations of a chat may have before its first node serves.
	mostMemory = 64 << 20
)

var errMemory = errors.New("there is no room for more conversations or messages")

// fits reports whether a number of conversations and bytes may be added. It forgets
// what need not be kept.
func (all *conversations) fits(more int, bytes int64) bool {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.fitsLocked(more, bytes)
}

// fitsLocked forgets conversations in which nothing happens, first those that were not used for the
// longest time. In conversations that are in use, only messages are forgotten, and not if it is
// others who take the memory of the program. It tries some conversations only, so that many
// clients that stay do not make it slow.
func (all *conversations) fitsLocked(more int, bytes int64) bool {
	over := func() (many, much, full bool) {
		if full = !all.held.Take(bytes); !full {
			all.held.Free(bytes) // they are counted once they are there
		}
		return all.mu.byKey.Len()+more > mostConversations, all.held.Held()+bytes > all.most.Load(), full
	}
	for range 64 {
		many, much, full := over()
		key, conv, ok := all.mu.byKey.GetOldest()
		if !many && !much && !full || !ok {
			break
		}
		if conv.retire(much) {
			all.mu.byKey.Remove(key)
		} else {
			all.mu.byKey.Get(key) // it is in use: it becomes the newest
		}
	}
	many, much, full := over()
	return !many && !much && !full
}

// weight is what a message has in memory.
func (l *message) weight() int {
	n := messageWeight + len(l.ID) + len(l.Text)
	for _, b := range l.Buttons {
		n += len(b.Text) + len(b.Data) + len(b.URL)
	}
	for _, f := range l.Files {
		n += len(f.Name) + len(f.URL)
	}
	return n
}

// unlock ends a change of the messages, and counts their weight for the node.
func (conv *conversation) unlock() {
	conv.weighLocked()
	conv.mu.Unlock()
	if all := conv.all; all.held.Held() > all.most.Load() {
		all.fits(0, 0)
	}
}

func (conv *conversation) weighLocked() {
	weight := conversationWeight + conv.mu.bytes
	if more := int64(weight - conv.mu.counted); more > 0 {
		conv.all.held.Hold(more)
	} else {
		conv.all.held.Free(-more)
	}
	conv.mu.counted = weight
}

// unpin takes back that the conversation is in use: by a request, a connection, or a message whose
// process has not ended. One that is not is forgotten sooner or later. [conversations.open]
// sets the first pin; who adds one has one.
func (conv *conversation) unpin() { conv.pins.Add(-1) }

// retire ends the counting of a conversation that is not in use, and reports true. In another one it
// forgets messages if memory is short: all, or all but the one that is answered; and it cuts
// off clients that are behind.
func (conv *conversation) retire(short bool) bool {
	conv.mu.Lock()
	defer conv.mu.Unlock()
	if conv.pins.Load() == 0 {
		conv.all.held.Free(int64(conv.mu.counted))
		return true
	}
	if !short {
		return false
	}
	defer conv.weighLocked()
	last := len(conv.mu.messages) - 1
	kept := conv.mu.messages[:0]
	for i, l := range conv.mu.messages {
		if l.Open || i == last && conv.mu.turn != nil {
			kept = append(kept, l)
		} else {
			conv.mu.bytes -= l.weight()
		}
	}
	clear(conv.mu.messages[len(kept):])
	conv.mu.messages = slices.Clip(kept)
	for v := range conv.mu.viewers {
		if v.queued.Load() > shortQueued {
			conv.cutLocked(v)
		}
	}
	return false
}

// put gives an event to a viewer, unless that is too far behind.
func (v *viewer) put(data []byte) bool {
	if v.queued.Load() > mostQueued {
		return false
	}
	select {
	case v.events <- data:
		v.queued.Add(int64(len(data)))
		v.all.held.Hold(int64(len(data)))
		return true
	default:
		return false
	}
}

// took says that an event was taken from the queue.
func (v *viewer) took(data []byte) {
	v.queued.Add(-int64(len(data)))
	v.all.held.Free(int64(len(data)))
}
