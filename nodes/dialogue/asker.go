package dialogue

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// An asker is a node of kind ask or form. It is immutable.
type asker struct {
	waits     node.Waits
	signals   node.Signals // nil without a journal
	namespace string
	clock     node.Clock
	held      *node.Account // bytes of messages that processes have got, until these end
	key       lang.Program  // nil is the conversation of the process
	keys      string        // the beginning of what key gives, so that it differs from conversations
	questions []question
	form      bool
	timeout   time.Duration
	attempts  int
	late      bool // the port timeout is linked
}

// The ports of an asker.
const (
	portReply   = 1
	portOut     = 0
	portTimeout = 1
)

// Receive asks, or hands a reply to the process that has asked.
func (n *asker) Receive(p node.Process, pkt node.Packet) node.Result {
	key, err := n.keyOf(p, pkt.Payload)
	if err != nil {
		return node.Fail(err)
	}
	if pkt.Port == portReply {
		return n.reply(p, key, pkt.Payload)
	}
	a := &prompt{node: n, p: p, key: key, input: pkt.Payload}
	if run, ok := node.RunOf(p); ok {
		if run.Level() != node.LevelCheckpoint {
			return node.Fail(errNotCheckpoint)
		}
		a.durable = true
	}
	if n.form {
		a.answers = value.Map()
	}
	return a.ask("")
}

// reply hands a message to the process that has asked: one that waits in memory, or else in the journal.
func (n *asker) reply(p node.Process, key string, message value.Value) node.Result {
	size := int64(message.Size())
	if !n.held.Take(size) {
		return node.Fail(keep.ErrNoMemory) // the question stays
	}
	n.held.Free(size) // the process that has asked counts it
	run, durable := node.RunOf(p)
	if n.signals == nil { // then no process is durable
		return replied(n.waits.Deliver(key, message), nil)
	}
	id := uuid.NewString()
	if durable {
		id = run.Key()
	}
	give := func(ctx context.Context) (bool, error) {
		if n.waits.Deliver(key, message) {
			return true, nil
		}
		return n.signals.Reply(ctx, node.Signal{Namespace: n.namespace, Event: node.EventReply, Key: key, ID: id, Payload: message, Keep: replyKept})
	}
	if !durable {
		return node.Block(func(ctx context.Context) node.Result { return replied(give(ctx)) })
	}
	return node.Step(func(ctx context.Context) (value.Value, error) {
		given, err := give(ctx)
		return value.Bool(given), err
	}, func(_ node.Process, resp node.Response) node.Result {
		if resp.IsError() {
			return replied(false, resp.Payload.AsError())
		}
		return replied(resp.Payload.Truth(), nil)
	})
}

// replyKept is how long the id of a reply is known.
const replyKept = 24 * time.Hour

func replied(given bool, err error) node.Result {
	switch {
	case err != nil:
		return node.Fail(err)
	case !given:
		return node.Fail(errNoQuestion)
	}
	return node.None()
}

// Close gives back what was borrowed.
func (n *asker) Close() error {
	n.held.Close()
	return nil
}

// Failures of askers.
var (
	errNoConversation = node.Unusable("no_conversation", errors.New("the process belongs to no conversation: set key"))
	errNoQuestion     = &node.Error{
		Err:  errors.New("no question waits for this reply"),
		Code: "no_question", Status: http.StatusNotFound, Public: true,
	}
	errNotCheckpoint = node.Unusable("not_checkpoint", errors.New("a question of a durable process takes durability: checkpoint at its trigger, which says accept"))
	errNoParts       = node.Unusable("no_parts", errors.New("the trigger of this process takes no parts of its answer, so nothing can be asked: ask behind a chat, a websocket or another trigger that does, or leave text out and ask by other means"))
)

// keyOf returns the key that a packet waits under, or is a reply for.
func (n *asker) keyOf(p node.Process, payload value.Value) (string, error) {
	if n.key == nil {
		if key, ok := node.ConversationOf(p.Context()); ok {
			return key, nil
		}
		return "", errNoConversation
	}
	v, err := n.key.Eval(p.Context(), payload)
	key := ""
	if err == nil {
		key, err = field.KeyText(v)
	}
	if err != nil {
		return "", node.Unusable(codeKey, fmt.Errorf("key: %w", err))
	}
	if conversation, ok := node.ConversationOf(p.Context()); ok && conversation == key {
		return key, nil
	}
	return n.keys + key, nil
}
