package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/uniflow-labs/uniflow/node"
	"github.com/uniflow-labs/uniflow/node/state"
	"github.com/uniflow-labs/uniflow/value"
)

// enter returns the conversation of a token, or of a new conversation without one, for use until
// unpin.
func (n *chatNode) enter(token string, c *caller) (conv *conversation, newToken string, err error) {
	fresh := token == ""
	id := ""
	if fresh {
		id, token = n.signer.mint(c.subject)
	} else {
		var ok bool
		if id, ok = n.signer.verify(token, c.subject); !ok {
			return nil, "", errToken
		}
		token = n.signer.token(id, c.subject) // the secret may have changed
	}
	conv, made := n.conversations.open(platformChat + "/" + id)
	if conv == nil {
		return nil, "", busy(errMemory)
	}
	if made && fresh {
		if conv.fresh(); n.join {
			n.joined(conv, c)
		}
	}
	return conv, token, nil
}

// busy is an error that may be gone in a second.
func busy(err error) *node.Error {
	return &node.Error{Err: err, Status: http.StatusServiceUnavailable, Public: true, RetryAfter: time.Second}
}

var errToken = public(http.StatusForbidden, "the token of the conversation is not valid here: begin a new one")

// joined starts the process of a new conversation.
func (n *chatNode) joined(conv *conversation, c *caller) {
	m := incoming{platform: platformChat, conversation: conv.key, userID: c.userOf(conv), userName: c.name, event: eventJoin, id: rand.Text()}
	if _, err := n.conversations.hand(&turn{conversation: conv, held: heldWeight}, &m); err != nil {
		n.init.Log.Debug("a new conversation started no process", "conversation", conv.key, "error", err)
	}
}

// hand takes a message for a turn, and counts what it weighs.
func (h *conversations) hand(t *turn, m *incoming) (delivered bool, err error) {
	t.conversation.pins.Add(1) // finish takes both back, maybe before take returns
	h.held.Hold(t.held)
	delivered, err = h.take(m.conversation, m.payload(), t)
	if delivered || err != nil {
		h.held.Free(t.held)
		t.conversation.unpin()
	}
	return delivered, err
}

func (c *caller) userOf(conv *conversation) string {
	if c.subject != "" {
		return c.subject
	}
	return conv.key
}

// say takes a message into a conversation. done, if not nil, gets the answers until the process ends
// or asks back. heard reports whether it will, or has.
func (n *chatNode) say(conv *conversation, c *caller, s *posted, done func([]message)) (id string, heard bool, err error) {
	s.text = strings.TrimSpace(s.text)
	if s.text == "" {
		return "", false, public(http.StatusUnprocessableEntity, "the message has no text")
	}
	if s.id == "" {
		s.id = rand.Text()
	}
	conv.fresh()
	id = "u" + s.id
	weight := int64(heldWeight + messageWeight + 2*len(s.text) + 2*len(id))
	if !n.conversations.fits(0, weight) {
		return id, false, busy(errMemory)
	}
	if !conv.say(id, s.text) {
		return id, false, nil // it has come before
	}
	m := incoming{
		platform: platformChat, conversation: conv.key, userID: c.userOf(conv), userName: c.name,
		text: s.text, event: eventOf(s.text), id: s.id,
	}
	if !s.data.IsNull() {
		m.event, m.data = eventAction, s.data
	}
	asked := conv.resume(done)
	data, _ := s.data.AsString()
	delivered, err := n.conversations.hand(&turn{conversation: conv, done: done, held: int64(heldWeight + len(s.text) + len(data))}, &m)
	if asked != nil && !delivered {
		asked.quit()
	}
	if err != nil {
		e := busy(err)
		if errors.Is(err, errTooFast) {
			e.Status = http.StatusTooManyRequests
		}
		conv.unsay(id, err.Error())
		return id, false, e
	}
	return id, !delivered || asked != nil, nil
}

// eventOf distinguishes commands from other messages.
func eventOf(text string) string {
	if len(text) > 1 && text[0] == '/' && text[1] != '/' && text[1] != ' ' {
		return eventCommand
	}
	return eventMessage
}

// receiveMessage takes a message that was posted.
func (n *chatNode) receiveMessage(c *caller) node.Result {
	s, err := n.conversations.read(c.body, n.maxText)
	if err != nil {
		return node.Fail(err)
	}
	conv, token, err := n.enter(s.conversation, c)
	if err != nil {
		return node.Fail(err)
	}
	accepted := func(id string) node.Result {
		return reply(http.StatusAccepted, value.UniqueMap([]value.Field{
			{Name: "conversation", Value: value.String(token)}, {Name: "id", Value: value.String(id)},
		}), c.cors()...)
	}
	defer conv.unpin()
	if !s.wait {
		id, _, err := n.say(conv, c, &s, nil)
		if err != nil {
			return node.Fail(err)
		}
		return accepted(id)
	}
	return node.Await(func(ctx context.Context, done func(node.Result)) {
		var w state.Wait
		w.Begin(ctx, done, nil)
		conv, _ := n.conversations.open(conv.key)
		if conv == nil {
			w.Answer(node.Fail(busy(errMemory)))
			return
		}
		defer conv.unpin()
		id, heard, err := n.say(conv, c, &s, func(made []message) {
			messages, err := value.Encode(made)
			if err != nil {
				w.Answer(node.Fail(err))
				return
			}
			w.Answer(reply(http.StatusOK, value.UniqueMap([]value.Field{
				{Name: "conversation", Value: value.String(token)}, {Name: "messages", Value: messages},
			}), c.cors()...))
		})
		switch {
		case err != nil:
			w.Answer(node.Fail(err))
		case !heard: // the answer belongs to another message
			w.Answer(accepted(id))
		}
	})
}
