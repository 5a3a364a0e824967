package dialogue

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/uniflow-labs/uniflow/lang"
	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/field"
	"github.com/uniflow-labs/uniflow/nodes/data/keep"
	"github.com/uniflow-labs/uniflow/value"
)

// An asker is a node of kind ask or form. It is immutable.
type asker struct {
	waits     node.Waits
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
		if size := int64(pkt.Payload.Size()); n.held.Take(size) {
			n.held.Free(size) // the process that has asked counts it
		} else {
			return node.Fail(keep.ErrNoMemory) // the question stays
		}
		if !n.waits.Deliver(key, pkt.Payload) {
			return node.Fail(errNoQuestion)
		}
		return node.None()
	}
	a := &prompt{node: n, p: p, key: key, input: pkt.Payload}
	if n.form {
		a.answers = value.Map()
	}
	return a.ask("")
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
	errNoParts = node.Unusable("no_parts", errors.New("the trigger of this process takes no parts of its answer, so nothing can be asked: ask behind a chat, a websocket or another trigger that does, or leave text out and ask by other means"))
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
